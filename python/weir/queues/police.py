"""Policer with a three-colour meter, before a queue of any kind."""

from __future__ import annotations

from weir.queues._classes import Around
from weir.queues._discipline import Written

__all__ = ["Police"]


class Police(Around):
    """The buckets must hold the largest packet, or it would always be red."""

    buckets = ("burst", "peak_burst")

    def check(self, written: Written) -> None:
        peak = written.values.get("peak")
        if peak is not None and peak < written.values["rate"]:
            raise written.error("peak", "`peak` must not be below `rate`")
