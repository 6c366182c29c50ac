"""What goes wrong with a method."""

from __future__ import annotations

from weir._errors import MethodError, UnavailableError

__all__ = ["MethodError", "UnavailableError", "UnfitMethodError", "UnknownMethodError"]


class UnknownMethodError(MethodError):
    """There is no method of that name."""


class UnfitMethodError(MethodError):
    """A method cannot execute what a plan asks for, on any machine."""
