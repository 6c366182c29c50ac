"""What goes wrong with the lab, said to people."""

from __future__ import annotations

__all__ = ["LabError"]


class LabError(Exception):
    """The lab cannot be built or used; the message says why and what to do."""
