"""Weighted round robin with credits and two priorities; Linux does not have it."""

from __future__ import annotations

from collections.abc import Mapping

from weir.queues._classes import Scheduler, check_weights
from weir.queues._discipline import Written

__all__ = ["Wrr"]


class Wrr(Scheduler):
    """DataTAG's scheduler: its guarantees must fit the link."""

    def check(self, written: Written, classes: Mapping[str, Written]) -> None:
        check_weights(written, classes)
