"""Names from files and file systems, made safe to print within a line."""

from __future__ import annotations

from pathlib import Path

from weir._terminal import shown

__all__ = ["printable"]


def printable(value: str | Path) -> str:
    r"""``value`` with what a terminal acts on written out, ends of lines too: ``\x1b``, ``\n``, ``\u202e``."""
    return shown(str(value)).replace("\n", "\\n").replace("\t", "\\t")
