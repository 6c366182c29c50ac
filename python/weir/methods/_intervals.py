"""Whether a method can look at flows and links as often as a plan's ``measure`` asks."""

from __future__ import annotations

from dataclasses import dataclass

from weir.plan import Plan

__all__ = ["Finest", "too_fine"]


@dataclass(frozen=True)
class Finest:
    """The shortest intervals that a method serves, and why no shorter ones."""

    goodput_ns: int
    tcp_ns: int
    links_ns: int
    because: str
    """For people: what takes the time."""


def too_fine(plan: Plan, finest: Finest) -> str | None:
    """What of ``measure`` is shorter than ``finest``, for people; ``None`` if nothing is. 0 is: not at all."""
    measure = plan.measure
    for name, asked, least in (
        ("goodput", measure.goodput_ns, finest.goodput_ns),
        ("tcp", measure.tcp_ns, finest.tcp_ns),
        ("links", measure.links_ns, finest.links_ns),
    ):
        if 0 < asked < least:
            return f"measure.{name} is {_us(asked)}, and {_us(least)} is the shortest that it serves: {finest.because}"
    return None


def _us(ns: int) -> str:
    return f"{ns / 1000:g}us"
