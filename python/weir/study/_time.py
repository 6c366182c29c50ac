"""How long a study will take: of each task beforehand, and of what is left from what the others took."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weir import engine, methods

if TYPE_CHECKING:
    from weir.study._execute import Task

__all__ = ["Clock", "seconds_of"]

_SET_UP_S = 2.0
_PACKETS_PER_S = 1e5
"""Seconds a cell and data packets a second of a method that does not foresee anything: corrected meanwhile."""


def seconds_of(scenario: engine.Scenario, method: str) -> float:
    """About how long ``method`` takes for all cells of ``scenario``, seconds."""
    executor = methods.get(method)
    plans = [cell.plan() for cell in scenario.cells()]
    seconds = sum(_foreseen_s(executor, plan) for plan in plans)
    return seconds if executor.clock == "real" else seconds / min(engine.default_workers(), len(plans))


def _foreseen_s(method: methods.Method, plan: dict[str, Any]) -> float:
    expected = engine.estimate(plan)
    with contextlib.suppress(methods.MethodError):  # it will say so when it is to execute the plan
        if (seconds := method.foreseen_s(plan, expected.packets)) is not None:
            return seconds
    return _SET_UP_S + (expected.end_s if method.clock == "real" else expected.packets / _PACKETS_PER_S)


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
