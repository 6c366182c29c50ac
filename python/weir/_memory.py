"""How much memory this machine has."""

from __future__ import annotations

import os

__all__ = ["machine_bytes"]


def machine_bytes() -> int:
    """The machine's memory in bytes, used and free."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
