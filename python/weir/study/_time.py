"""Estimates the duration of a study: of each task beforehand, and of the rest from the finished tasks."""

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
"""Default speed of a method without an estimate, data packets per second; finished tasks correct it."""


def seconds_of(scenario: engine.Scenario, method: str) -> float:
    """Estimated duration of all cells of ``scenario`` with ``method``, seconds."""
    executor = methods.get(method)
    plans = [cell.plan() for cell in scenario.cells()]
    seconds = sum(_foreseen_s(executor, plan) for plan in plans) + executor.besides_s(plans)
    return seconds if executor.clock == "real" else seconds / min(engine.default_workers(), len(plans))


def _foreseen_s(method: methods.Method, plan: dict[str, Any]) -> float:
    expected = engine.estimate(plan)
    with contextlib.suppress(methods.MethodError):  # the execution of the plan will report it
        if (seconds := method.foreseen_s(plan, expected.packets)) is not None:
            return seconds
    return _SET_UP_S + (expected.end_s if method.clock == "real" else expected.packets / _PACKETS_PER_S)


class Clock:
    """Time left, from the estimate of each task and the durations of finished tasks of its method."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._left = {(task.side.method, task.folder): task.seconds for task in tasks}
        self._took: dict[str, tuple[float, float]] = {}

    def done(self, task: Task, seconds: float, *, executed: bool) -> None:
        """Records a finished task; a task whose results existed says nothing about speed."""
        method = task.side.method
        estimated = self._left.pop((method, task.folder))
        if executed:
            before, took = self._took.get(method, (0.0, 0.0))
            self._took[method] = (before + estimated, took + seconds)

    def left_s(self) -> float:
        """Estimated time of all unfinished tasks."""
        return sum(seconds * self._factor(method) for (method, _), seconds in self._left.items())

    def _factor(self, method: str) -> float:
        estimated, took = self._took.get(method, (0.0, 0.0))
        return took / estimated if estimated else 1.0
