"""Enhanced transmission selection: Linux' ``ets``."""

from __future__ import annotations

from collections.abc import Mapping

from weir.plan import EtsQueue, Link
from weir.queues._classes import Scheduler, default_band
from weir.queues._discipline import Written
from weir.queues.drr import check_quanta, short_quantum

__all__ = ["Ets"]

_PRIORITIES = 16


class Ets(Scheduler):
    """Strict classes before those that take turns: the bands of ``ets``."""

    names = ("ets",)
    most_classes = 16
    needs_wire_sizes = True
    asks_when_empty = False

    def check(self, written: Written, classes: Mapping[str, Written]) -> None:
        check_quanta(written, classes)
        shared: str | None = None
        for name, one in classes.items():
            if one.values["strict"] and shared is not None:
                raise one.error("strict", f"class `{name}` is strict, behind `{shared}`, which is not; put it before")
            shared = name if not one.values["strict"] else shared

    def share_obstacle(self, share: int, packet_bytes: int) -> str | None:
        return short_quantum(share, packet_bytes)

    def arguments(self, link: Link, *, on_wire: bool) -> str:
        assert isinstance(link.queue, EtsQueue)
        quanta = [str(one.quantum_bytes) for one in link.queue.classes if not one.strict]
        strict = len(link.queue.classes) - len(quanta)
        words = [f"ets bands {len(link.queue.classes)}"]
        words += [f"strict {strict}"] if strict else []
        words += ["quanta", *quanta] if quanta else []
        return " ".join([*words, "priomap", *[str(default_band(link.queue))] * _PRIORITIES])
