"""Drop-tail: Linux' ``pfifo`` and ``bfifo``."""

from __future__ import annotations

from weir.plan import Link
from weir.queues._discipline import Discipline, limits

__all__ = ["Droptail"]


class Droptail(Discipline):
    """``pfifo`` has a limit in packets, ``bfifo`` in bytes."""

    names = ("pfifo", "bfifo")

    def obstacle(self, link: Link) -> str | None:
        return None

    def arguments(self, link: Link, *, on_wire: bool) -> str:
        packets, size = limits(link, on_wire=on_wire)
        return f"pfifo limit {packets}" if link.queue.limit.packets else f"bfifo limit {size}"
