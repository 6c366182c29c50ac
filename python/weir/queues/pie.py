"""PIE: Linux' ``pie``."""

from __future__ import annotations

from weir.plan import Link, PieQueue
from weir.queues._discipline import Discipline, ecn, limits, microseconds, too_short

__all__ = ["Pie"]

_STEPS = 16
_MAX_WEIGHT = 32
"""The weights are multiples of a sixteenth, at most this many."""
_TICK_NS = 1_000_000
"""The update interval is a number of the kernel's ticks: with 1000 per second, as the lab has it."""


class Pie(Discipline):
    """``pie``, whose limit is in packets."""

    names = ("pie",)
    marks_word = 9

    def obstacle(self, link: Link) -> str | None:
        queue = _queue(link)
        for name, value in (("alpha", queue.alpha), ("beta", queue.beta)):
            weight = value * _STEPS
            if weight != round(weight) or weight > _MAX_WEIGHT:
                return f"PIE with {name} {value:g} (the kernel has multiples of 1/{_STEPS} up to 2)"
        if queue.update_ns % _TICK_NS:
            return "PIE with an update that is no whole number of milliseconds"
        return too_short("a target", queue.target_ns)

    def arguments(self, link: Link, *, on_wire: bool) -> str:
        queue = _queue(link)
        packets, _ = limits(link, on_wire=on_wire)
        return (
            f"pie limit {packets} target {microseconds(queue.target_ns)} tupdate {microseconds(queue.update_ns)} "
            f"alpha {round(_STEPS * queue.alpha)} beta {round(_STEPS * queue.beta)} {ecn(queue.mark)}"
        )


def _queue(link: Link) -> PieQueue:
    assert isinstance(link.queue, PieQueue)
    return link.queue
