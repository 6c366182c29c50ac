"""Step marking: Linux' ``codel`` with ``ce_threshold``, whose control law never acts."""

from __future__ import annotations

from weir.plan import Link, StepQueue
from weir.queues._discipline import Discipline, Written, limits, microseconds, too_short

__all__ = ["Step"]

_NEVER = "1000s"
"""A target that no packet waits for: then CoDel drops nothing."""


class Step(Discipline):
    """``codel``, which marks a packet that has waited longer than the threshold takes to drain.

    At a constant rate that is the packet that found more than the threshold at its arrival, but for the packet in
    transmission.
    """

    names = ("codel",)
    marks_word = 8

    def advise(self, written: Written) -> None:
        threshold, size = written.size_bytes("threshold"), written.size_bytes("size")
        if threshold >= size:
            text = f"`threshold` ({threshold} bytes) must be below `size` ({size} bytes), or no packet reaches it"
            raise written.error("threshold", text)

    def obstacle(self, link: Link) -> str | None:
        if _queue(link).drop:
            return "step marking with `drop`"
        return too_short("a threshold", _threshold_ns(link))

    def arguments(self, link: Link, *, on_wire: bool) -> str:
        packets, _ = limits(link, on_wire=on_wire)
        threshold = microseconds(_threshold_ns(link))
        return f"codel limit {packets} target {_NEVER} interval {_NEVER} noecn ce_threshold {threshold}"


def _queue(link: Link) -> StepQueue:
    assert isinstance(link.queue, StepQueue)
    return link.queue


def _threshold_ns(link: Link) -> int:
    """Time that the threshold takes to drain."""
    return _queue(link).threshold_bytes * 8_000_000_000 // link.rate_bps
