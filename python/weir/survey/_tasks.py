"""What a survey has to execute: each scenario by each method that this machine has, and about how long each takes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from weir import engine, methods
from weir.scenario import Scenario
from weir.survey.errors import SurveyError

__all__ = ["SEEDS", "Clock", "Task", "missing_methods", "parse_methods", "tasks_of"]

SEEDS = "seeds"
"""What the runs of the simulator with other seeds are called."""

_SET_UP_S = {"sim": 1.0, "lab": 3.0, "emul": 4.0}
"""Seconds a cell, beside its time: network and self-check, booting, a worker."""
_OTHER_SET_UP_S = 2.0
_PACKETS_PER_S = {"sim": 1e6, "lab": 3e4}
"""Data packets that a method with a virtual clock carries a second of wall time; a first idea, corrected meanwhile."""
_OTHER_PACKETS_PER_S = 1e5


@dataclass(frozen=True)
class Task:
    """One scenario by one method."""

    name: str
    """Of the scenario."""
    label: str
    """The method, or :data:`SEEDS`."""
    method: str
    scenario: Scenario
    folder: Path
    seconds: float
    """About how long it takes."""


def parse_methods(text: str) -> tuple[str, ...]:
    """The methods of ``sim,lab,emul``, in that order.

    Raises:
        SurveyError: none, or one is given twice.
        weir.methods.UnknownMethodError: there is none of that name.
    """
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names or len(set(names)) < len(names):
        raise SurveyError(f"{text!r} does not name one method, or several that differ, such as sim,lab,emul")
    for name in names:
        methods.get(name)
    return names


def missing_methods(names: Sequence[str]) -> dict[str, str]:
    """Those that this machine does not have, and what it lacks."""
    found = {name: methods.get(name).available() for name in names}
    return {name: reason for name, reason in found.items() if reason is not None}


def tasks_of(
    scenarios: Mapping[str, Scenario], seeds: Mapping[str, Scenario], names: Sequence[str], out: Path
) -> list[Task]:
    """Everything to execute: method by method, so that what takes real time comes last; ``seeds`` in the simulator."""
    return [
        *(_task(name, SEEDS, "sim", scenario, out) for name, scenario in seeds.items()),
        *(_task(name, method, method, scenario, out) for method in names for name, scenario in scenarios.items()),
    ]


def _task(name: str, label: str, method: str, scenario: Scenario, out: Path) -> Task:
    return Task(name, label, method, scenario, out / _folder(name) / _folder(label), _seconds(scenario, method))


def _folder(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")


def _seconds(scenario: Scenario, method: str) -> float:
    estimates = [engine.estimate(cell.plan()) for cell in scenario.cells()]
    set_up = _SET_UP_S.get(method, _OTHER_SET_UP_S)
    if methods.get(method).clock == "real":
        return sum(e.end_s + set_up for e in estimates)
    speed = _PACKETS_PER_S.get(method, _OTHER_PACKETS_PER_S)
    workers = min(engine.default_workers(), len(estimates))
    return sum(e.packets / speed + set_up for e in estimates) / workers


class Clock:
    """How much time is left, from what was estimated and what it took."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._left = {(task.method, task.label, task.name): task.seconds for task in tasks}
        self._took: dict[str, tuple[float, float]] = {}

    def done(self, task: Task, seconds: float, *, executed: bool) -> None:
        """A task is over; what was kept from before says nothing about speed."""
        estimated = self._left.pop((task.method, task.label, task.name))
        if executed:
            before, took = self._took.get(task.method, (0.0, 0.0))
            self._took[task.method] = (before + estimated, took + seconds)

    def left_s(self) -> float:
        """Of all tasks that are not done."""
        return sum(seconds * self._factor(method) for (method, _, _), seconds in self._left.items())

    def _factor(self, method: str) -> float:
        estimated, took = self._took.get(method, (0.0, 0.0))
        return took / estimated if estimated else 1.0
