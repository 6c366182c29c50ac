"""Fair queue with pacing: Linux' ``fq``."""

from __future__ import annotations

from weir.plan import FqQueue, Link, wire_bytes
from weir.queues._discipline import Discipline, limits, microseconds, too_short

__all__ = ["Fq"]

_S = 1_000_000_000


class Fq(Discipline):
    """``fq``, whose limits are in packets. It paces by the rates of sockets only if there is a maximum rate."""

    names = ("fq",)
    differs = (
        "It needs a power of two of `buckets`. Linux 6.7 and newer have three bands of priority, which the code point "
        "of a forwarded packet selects; weir has one."
    )
    marks_word = 20
    needs_wire_sizes = True

    def patience_ns(self, link: Link) -> int | None:
        """A flow may have its limit of packets in the queue; a maximum rate spreads any burst."""
        queue = _queue(link)
        if queue.max_rate_bps is not None:
            return 0
        return queue.flow_limit * wire_bytes(link, link.mtu_bytes) * 8 * _S // link.rate_bps

    def obstacle(self, link: Link) -> str | None:
        queue = _queue(link)
        if queue.buckets & (queue.buckets - 1):
            return f"{queue.buckets} buckets of a fair queue, where Linux has a power of two"
        if queue.ce_threshold_ns is None:
            return None
        return too_short("a threshold", queue.ce_threshold_ns)

    def arguments(self, link: Link, *, on_wire: bool) -> str:
        queue = _queue(link)
        packets, _ = limits(link, on_wire=on_wire)
        words = [
            f"fq limit {packets} flow_limit {queue.flow_limit} orphan_mask {queue.buckets - 1}",
            f"quantum {queue.quantum_bytes} initial_quantum {queue.initial_quantum_bytes}",
            f"refill_delay {microseconds(queue.refill_ns)}",
            "nopacing" if queue.max_rate_bps is None else f"pacing maxrate {queue.max_rate_bps}bit",
        ]
        if queue.ce_threshold_ns is not None:
            words.append(f"ce_threshold {microseconds(queue.ce_threshold_ns)}")
        return " ".join(words)


def _queue(link: Link) -> FqQueue:
    assert isinstance(link.queue, FqQueue)
    return link.queue
