"""What goes wrong with a study."""

from __future__ import annotations

__all__ = ["StudyError"]


class StudyError(Exception):
    """A study was asked for that cannot be made, or a side of it could not be executed; the message says why."""
