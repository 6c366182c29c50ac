"""Token-bucket shaper before a queue of any kind."""

from __future__ import annotations

from weir.queues._classes import Around

__all__ = ["Tbf"]


class Tbf(Around):
    """The bucket must hold the largest packet, or that packet would never leave."""

    buckets = ("burst",)
