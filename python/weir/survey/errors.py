"""What goes wrong with a survey."""

from __future__ import annotations

__all__ = ["SurveyError"]


class SurveyError(Exception):
    """A survey was asked for that cannot be made; the message says why."""
