"""Errors of methods."""

from __future__ import annotations

from weir._errors import MethodError, UnavailableError

__all__ = ["LostError", "MethodError", "UnavailableError", "UnfitMethodError", "UnknownMethodError"]


class LostError(MethodError):
    """A machine is not there any more: what is still to be executed would fail in the same way."""


class UnknownMethodError(MethodError):
    """No method has that name."""


class UnfitMethodError(MethodError):
    """A method cannot execute a plan on any machine."""
