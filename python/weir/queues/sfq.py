"""Stochastic fairness queueing: Linux' ``sfq``."""

from __future__ import annotations

from weir.plan import Link, SfqQueue, queue_packets, wire_bytes
from weir.queues._discipline import Discipline, limits

__all__ = ["Sfq"]

_DEPTH = 127
"""Most packets of a flow in Linux."""
_FLOWS = 65_408
"""Most flows in Linux."""
_S = 1_000_000_000


class Sfq(Discipline):
    """``sfq``, whose limit is in packets and whose period of salts is in seconds."""

    names = ("sfq",)
    differs = (
        f"It needs a power of two of `buckets`, a `depth` of at most {_DEPTH} packets, at most {_FLOWS} `flows`, a "
        "`size` of two packets or more, and whole seconds in `perturb`. It counts allotments in units of 8 bytes."
    )

    def obstacle(self, link: Link) -> str | None:
        queue = _queue(link)
        if queue.buckets & (queue.buckets - 1):
            return "a number of buckets that is not a power of two"
        if queue.depth_packets > _DEPTH:
            return f"a depth of more than {_DEPTH} packets"
        if queue.perturb_ns % _S:
            return "a `perturb` that is no whole number of seconds"
        if queue_packets(queue, wire_bytes(link, link.mtu_bytes)) == 1:
            return "a limit of one packet"
        return f"more than {_FLOWS} flows" if queue.flows > _FLOWS else None

    def arguments(self, link: Link, *, on_wire: bool) -> str:
        queue = _queue(link)
        packets, _ = limits(link, on_wire=on_wire)
        return (
            f"sfq limit {packets} flows {queue.flows} depth {queue.depth_packets} divisor {queue.buckets} "
            f"quantum {queue.quantum_bytes} perturb {queue.perturb_ns // _S}"
        )


def _queue(link: Link) -> SfqQueue:
    assert isinstance(link.queue, SfqQueue)
    return link.queue
