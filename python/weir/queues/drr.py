"""Deficit round robin between classes: Linux' ``drr``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir.plan import Link
from weir.queues._classes import Scheduler
from weir.queues._discipline import Written

__all__ = ["Drr", "check_quanta", "short_quantum"]


class Drr(Scheduler):
    """Every turn must send: a quantum holds a packet."""

    names = ("drr",)
    needs_wire_sizes = True
    asks_when_empty = False

    def check(self, written: Written, classes: Mapping[str, Written]) -> None:
        check_quanta(written, classes)

    def share_obstacle(self, share: int, packet_bytes: int) -> str | None:
        return short_quantum(share, packet_bytes)

    def arguments(self, link: Link, *, on_wire: bool) -> str:
        return "drr"

    def class_words(self, one: Any) -> str:
        return f"drr quantum {one.quantum_bytes}"


def check_quanta(written: Written, classes: Mapping[str, Written]) -> None:
    """Refuses quanta with which a turn might send nothing."""
    for one in classes.values():
        if (why := short_quantum(one.size_bytes("quantum"), written.packet_bytes)) is not None:
            raise one.error("quantum", why)


def short_quantum(quantum: int, packet_bytes: int) -> str | None:
    """What is wrong with a quantum; ``None``: it holds a full packet."""
    if quantum >= packet_bytes:
        return None
    return f"a quantum of {quantum} bytes is less than a full packet ({packet_bytes} bytes)"
