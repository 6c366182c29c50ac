"""Errors of comparing runs."""

from __future__ import annotations

__all__ = ["CompareError"]


class CompareError(Exception):
    """Runs cannot be compared; the message says why and what would help."""
