"""Errors of making a report."""

from __future__ import annotations

__all__ = ["ReportError"]


class ReportError(Exception):
    """A report cannot be made as asked; the message says what is wrong and what was expected."""
