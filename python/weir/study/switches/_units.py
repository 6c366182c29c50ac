"""Sizes and times for people."""

from __future__ import annotations

__all__ = ["size_text", "time_text"]


def size_text(size: float) -> str:
    """Bytes for people."""
    for unit, factor in (("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size:.0f} B"


def time_text(ns: float) -> str:
    """A time for people."""
    for unit, factor in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= factor:
            return f"{ns / factor:.3g} {unit}"
    return f"{ns:.0f} ns"
