"""The shortest measurement intervals of methods, compared with a plan's ``measure``."""

from __future__ import annotations

from dataclasses import dataclass

from weir.plan import Plan

__all__ = ["Finest", "too_fine"]


@dataclass(frozen=True)
class Finest:
    """The shortest intervals that a method supports, and the reason."""

    goodput_ns: int
    tcp_ns: int
    links_ns: int
    because: str
    """What takes the time, for people."""


def too_fine(plan: Plan, finest: Finest) -> str | None:
    """The interval of ``measure`` that is shorter than ``finest``, for people; ``None`` if there is none. 0 means: not
    at all.
    """
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
