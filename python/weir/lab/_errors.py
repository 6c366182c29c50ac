"""Errors of the lab, for people."""

from __future__ import annotations

__all__ = ["LabError"]


class LabError(Exception):
    """The lab cannot be built or used; the message says why and what to do."""
