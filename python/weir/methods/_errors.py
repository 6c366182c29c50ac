"""What goes wrong with a method."""

from __future__ import annotations

__all__ = ["MethodError", "UnavailableError", "UnfitMethodError", "UnknownMethodError"]


class MethodError(Exception):
    """A method could not execute a plan; the message says why and what to do."""


class UnknownMethodError(MethodError):
    """There is no method of that name."""


class UnavailableError(MethodError):
    """This machine lacks what something needs; the message says what, and how to get it."""


class UnfitMethodError(MethodError):
    """A method cannot execute what a plan asks for, on any machine."""
