"""Errors of methods."""

from __future__ import annotations

from weir._errors import MethodError, UnavailableError

__all__ = ["MethodError", "UnavailableError", "UnfitMethodError", "UnknownMethodError"]


class UnknownMethodError(MethodError):
    """No method has that name."""


class UnfitMethodError(MethodError):
    """A method cannot execute a plan on any machine."""
