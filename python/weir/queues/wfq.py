"""Weighted fair queueing, WF2Q+; Linux does not have it."""

from __future__ import annotations

from collections.abc import Mapping

from weir.queues._classes import Scheduler, check_weights
from weir.queues._discipline import Written

__all__ = ["Wfq"]


class Wfq(Scheduler):
    """Its guarantees must fit the link, and every class needs one."""

    def check(self, written: Written, classes: Mapping[str, Written]) -> None:
        check_weights(written, classes)
        for name, one in classes.items():
            if not one.values["weight"]:
                raise one.error("weight", f"class `{name}` has weight 0, which is never served; expected more than 0 %")

    def share_obstacle(self, share: int, packet_bytes: int) -> str | None:
        return None if share else "a weight of 0 is never served; expected more than 0 %"
