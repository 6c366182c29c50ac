"""How long a study will take: of each task beforehand, and of what is left from what the others took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weir import engine, methods

if TYPE_CHECKING:
    from weir.study._execute import Task

__all__ = ["Clock", "seconds_of"]

_SET_UP_S = {"sim": 1.0, "lab": 3.0, "emul": 4.0}
"""Seconds a cell, beside its time: network and self-check, booting, a worker."""
_OTHER_SET_UP_S = 2.0
_PACKETS_PER_S = {"sim": 1e6, "lab": 3e4}
"""Data packets that a method with a virtual clock carries a second of wall time; a first idea, corrected meanwhile."""
_OTHER_PACKETS_PER_S = 1e5


def seconds_of(scenario: engine.Scenario, method: str) -> float:
    """About how long ``method`` takes for all cells of ``scenario``, seconds."""
    estimates = [engine.estimate(cell.plan()) for cell in scenario.cells()]
    set_up = _SET_UP_S.get(method, _OTHER_SET_UP_S)
    if methods.get(method).clock == "real":
        return sum(e.end_s + set_up for e in estimates)
    speed = _PACKETS_PER_S.get(method, _OTHER_PACKETS_PER_S)
    workers = min(engine.default_workers(), len(estimates))
    return sum(e.packets / speed + set_up for e in estimates) / workers


class Clock:
    """How much time is left, from what was estimated for each task and what those of its method took."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._left = {(task.side.method, task.folder): task.seconds for task in tasks}
        self._took: dict[str, tuple[float, float]] = {}

    def done(self, task: Task, seconds: float, *, executed: bool) -> None:
        """A task is over; what was kept from before says nothing about speed."""
        method = task.side.method
        estimated = self._left.pop((method, task.folder))
        if executed:
            before, took = self._took.get(method, (0.0, 0.0))
            self._took[method] = (before + estimated, took + seconds)

    def left_s(self) -> float:
        """Of all tasks that are not done."""
        return sum(seconds * self._factor(method) for (method, _), seconds in self._left.items())

    def _factor(self, method: str) -> float:
        estimated, took = self._took.get(method, (0.0, 0.0))
        return took / estimated if estimated else 1.0
