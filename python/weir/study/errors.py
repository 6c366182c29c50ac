"""Errors of studies."""

from __future__ import annotations

__all__ = ["StudyError"]


class StudyError(Exception):
    """A study cannot be made as asked, or one of its sides could not be executed; the message says why."""
