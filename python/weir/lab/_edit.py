"""One change of the kernel's sources."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Edit"]


@dataclass(frozen=True)
class Edit:
    """Replaces a piece of text of one file, which must be there exactly once."""

    file: str
    old: str
    new: str
    why: str
