"""Errors of execution; :mod:`weir.methods` exports the same names for code that executes plans."""

from __future__ import annotations

__all__ = ["MethodError", "UnavailableError"]


class MethodError(Exception):
    """A method could not execute a plan; the message says why and what to do."""


class UnavailableError(MethodError):
    """This machine lacks a requirement; the message names it, and how to get it."""
