"""Token-bucket shaper before a queue of any kind: Linux' ``tbf``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir.plan import Link, TbfQueue, wire_bytes
from weir.queues._classes import Around
from weir.queues._discipline import Below

__all__ = ["Tbf"]


class Tbf(Around):
    """The bucket must hold the largest packet, or that packet would never leave."""

    buckets = ("burst",)
    names = ("tbf",)
    needs_wire_sizes = True
    looks_first = True

    def idle(self, queue: Mapping[str, Any], rate_bps: int) -> str | None:
        own = int(queue["rate_bps"])
        if own < rate_bps:
            return None
        return f"the shaper has {own / 1e6:g} Mb/s and its link {rate_bps / 1e6:g} Mb/s: it never holds a packet back"

    def obstacle(self, link: Link) -> str | None:
        return None

    def below(self, link: Link) -> tuple[Below, ...]:
        return (Below(_queue(link).queue, 1),)

    def arguments(self, link: Link, *, on_wire: bool) -> str:
        queue = _queue(link)
        # The limit is that of a queue which the one below replaces.
        limit = wire_bytes(link, link.mtu_bytes)
        return f"tbf rate {queue.rate_bps}bit burst {queue.burst_bytes} limit {limit}"


def _queue(link: Link) -> TbfQueue:
    assert isinstance(link.queue, TbfQueue)
    return link.queue
