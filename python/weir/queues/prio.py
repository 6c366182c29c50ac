"""Strict priority between classes: Linux' ``prio``."""

from __future__ import annotations

from weir.plan import Link
from weir.queues._classes import Scheduler, children, default_band

__all__ = ["Prio"]

_PRIORITIES = 16
"""Priorities of packets in Linux, each with a band (``TC_PRIO_MAX`` + 1)."""
_FEWEST = 2


class Prio(Scheduler):
    """The classes in the order in which a scenario gives them: the bands of ``prio``."""

    names = ("prio",)
    most_classes = 16
    # It looks into every band without dequeuing, until one has a packet.
    looks_first = True

    def arguments(self, link: Link, *, on_wire: bool) -> str:
        bands = max(_FEWEST, len(children(link.queue)))
        others = " ".join([str(default_band(link.queue))] * _PRIORITIES)
        return f"prio bands {bands} priomap {others}"
