"""FQ-CoDel: Linux' ``fq_codel``."""

from __future__ import annotations

from weir.plan import FqCodelQueue, Link
from weir.queues._discipline import limits
from weir.queues.codel import Codel, law

__all__ = ["FqCodel"]


class FqCodel(Codel):
    """``fq_codel``, whose limit is in packets; that of memory is far above it."""

    names = ("fq_codel",)
    marks_word = 3

    def arguments(self, link: Link, *, on_wire: bool) -> str:
        queue = link.queue
        assert isinstance(queue, FqCodelQueue)
        packets, size = limits(link, on_wire=on_wire)
        return (
            f"fq_codel limit {packets} flows {queue.buckets} quantum {queue.quantum_bytes} "
            f"memory_limit {4 * size} {law(queue.codel)}"
        )
