"""What goes wrong where something is executed; :mod:`weir.methods` has the same names for those who execute plans."""

from __future__ import annotations

__all__ = ["MethodError", "UnavailableError"]


class MethodError(Exception):
    """A method could not execute a plan; the message says why and what to do."""


class UnavailableError(MethodError):
    """This machine lacks what something needs; the message says what, and how to get it."""
