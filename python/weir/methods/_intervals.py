"""Whether a method can look at flows and links as often as a plan's ``measure`` asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Finest", "too_fine"]

_NAMES = {"goodput_ns": "goodput", "tcp_ns": "tcp", "links_ns": "links"}


@dataclass(frozen=True)
class Finest:
    """The shortest intervals that a method serves, and why no shorter ones."""

    goodput_ns: int
    tcp_ns: int
    links_ns: int
    because: str
    """For people: what takes the time."""


def too_fine(plan: Mapping[str, Any], finest: Finest) -> str | None:
    """What of ``measure`` is shorter than ``finest``, for people; ``None`` if nothing is. 0 is: not at all."""
    for key, name in _NAMES.items():
        asked, least = plan["measure"][key], getattr(finest, key)
        if 0 < asked < least:
            return f"measure.{name} is {_us(asked)}, and {_us(least)} is the shortest that it serves: {finest.because}"
    return None


def _us(ns: int) -> str:
    return f"{ns / 1000:g}us"
