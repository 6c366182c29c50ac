"""Deficit round robin between classes."""

from __future__ import annotations

from collections.abc import Mapping

from weir.queues._classes import Scheduler
from weir.queues._discipline import Written

__all__ = ["Drr"]


class Drr(Scheduler):
    """Every turn must send: a quantum holds a packet."""

    def check(self, written: Written, classes: Mapping[str, Written]) -> None:
        for one in classes.values():
            size = one.size_bytes("quantum")
            if size < written.packet_bytes:
                message = f"a quantum of {size} bytes is less than a full packet ({written.packet_bytes} bytes)"
                raise one.error("quantum", message)
