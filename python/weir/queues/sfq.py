"""Stochastic fairness queueing: Linux' ``sfq``."""

from __future__ import annotations

from weir.plan import Link, SfqQueue
from weir.queues._discipline import Discipline, limits

__all__ = ["Sfq"]

_DEPTH = 127
"""Most packets of a flow in Linux."""
_FLOWS = 65_408
"""Most flows in Linux."""


class Sfq(Discipline):
    """``sfq`` without a new salt from time to time. Its limit is in packets."""

    names = ("sfq",)

    def obstacle(self, link: Link) -> str | None:
        queue = _queue(link)
        if queue.buckets & (queue.buckets - 1):
            return "a number of buckets that is not a power of two"
        if queue.depth_packets > _DEPTH:
            return f"a depth of more than {_DEPTH} packets"
        return f"more than {_FLOWS} flows" if queue.flows > _FLOWS else None

    def arguments(self, link: Link, *, on_wire: bool) -> str:
        queue = _queue(link)
        packets, _ = limits(link, on_wire=on_wire)
        return (
            f"sfq limit {packets} flows {queue.flows} depth {queue.depth_packets} divisor {queue.buckets} "
            f"quantum {queue.quantum_bytes}"
        )


def _queue(link: Link) -> SfqQueue:
    assert isinstance(link.queue, SfqQueue)
    return link.queue
