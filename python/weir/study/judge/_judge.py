"""Executes the scenarios, reads the figures, and says of each whether it is good or bad beside the references."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import weir
from weir import cc as users
from weir.metrics import MeasuredRun, MetricError
from weir.scenario import load
from weir.study.judge._builds import Check, checks
from weir.study.judge._cases import CASES, Case, Measure, references

__all__ = ["Judged", "Judgement", "Level", "Point", "judge"]

Level = Literal["serious", "weak", "fair", "strong", "unknown"]
Tell = Callable[[str], None]

_SCALE = {"%": 100.0, "ms": 1e3, "s": 1.0, "1": 1.0, "Mbit/s": 1e-6}
_ALIKE = 0.01
"""Figures up to this share apart, or up to this much of their unit, are those of a copy."""
YOURS = "yours"
"""The name of the control under test among references of its own name."""


@dataclass(frozen=True)
class Point:
    """One figure of a scenario, for the control and its references."""

    measure: Measure
    yours: float | None
    """In the measure's unit; ``None`` if it has no value."""
    others: Mapping[str, float | None]
    level: Level
    bound: bool = False
    """Whether the event never came, so that the value is only a bound."""


@dataclass(frozen=True)
class Judged:
    """A scenario with its figures."""

    case: Case
    title: str
    rationale: str
    run: MeasuredRun
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Judgement:
    """All that the referee has found."""

    source: Path
    name: str
    """The control's, among its references."""
    about: users.Described
    checks: tuple[Check, ...]
    cases: tuple[Judged, ...]
    wall_s: float

    def points(self, *levels: Level) -> list[tuple[Judged, Point]]:
        """The figures of these levels, with their scenarios."""
        return [(case, point) for case in self.cases for point in case.points if point.level in levels]

    @property
    def copy_of(self) -> str | None:
        """The reference whose figures it has in every scenario, within 1 %; shares of a pair of flows, which depend on
        who starts first, do not count.
        """
        points = [point for case in self.cases for point in case.points if point.measure.better != "half"]
        alike = [name for name in references() if points and all(_is_alike(point, name) for point in points)]
        return alike[0] if alike else None


def judge(source: Path, out: Path, *, workers: int | None = None, tell: Tell = lambda _: None) -> Judgement:
    """Judges the control in ``source``; runs are kept in ``out``.

    Args:
        source: The C or Python file.
        out: Folder of the runs, one for each scenario; complete cells in it are kept.
        workers: Number of processes; default: one per processor.
        tell: Gets the next step.

    Raises:
        ControlError: the control does not run in the simulator.
        weir.engine.EngineError: a cell failed, or ``out`` cannot be used.
        OSError: ``out`` cannot be written.
    """
    begin = time.monotonic()
    tell("builds and checks")
    checked = tuple(checks(source))
    name = source.stem if source.stem not in references() else YOURS
    judged = []
    for number, case in enumerate(CASES):
        tell(f"{number + 1} of {len(CASES)}: {case.name}")
        judged.append(_judged(case, name, source, out / case.name, workers))
    about = users.control(str(source)).about
    return Judgement(source, name, about, checked, tuple(judged), time.monotonic() - begin)


def _judged(case: Case, name: str, source: Path, folder: Path, workers: int | None) -> Judged:
    given = {name: str(source.absolute())} | {other: other for other in references()}
    changes = {f"sweep.{case.factor}": given}
    run = weir.execute(case.file, folder, method="sim", set=changes, workers=workers, fresh=True)
    scenario = load(case.file)
    points = tuple(_point(run, measure, name) for measure in case.measures)
    if any(point.level == "serious" for point in points):
        # A flow that starves loses little and delays nobody: no strength of a scenario in which it failed.
        points = tuple(replace(point, level="fair") if point.level == "strong" else point for point in points)
    return Judged(case, scenario.title, _one_line(scenario.rationale), run, points)


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def _point(run: MeasuredRun, measure: Measure, name: str) -> Point:
    values: dict[str, float | None] = dict.fromkeys((name, *references()))
    bound = False
    try:
        frame = run.evaluate(measure.expression, where=measure.where or None)
    except MetricError:
        return Point(measure, None, dict.fromkeys(references()), "unknown")
    for row in frame.iter_rows(named=True):
        if row["cc"] in values and row["value"] is not None:
            values[row["cc"]] = row["value"] * _SCALE[measure.unit]
            bound |= row["cc"] == name and bool(row["censored"])
    yours = values.pop(name)
    return Point(measure, yours, values, _level(measure, yours, values, bound=bound), bound)


def _is_alike(point: Point, name: str) -> bool:
    other = point.others.get(name)
    if point.yours is None or other is None:
        return point.yours is other
    return math.isclose(point.yours, other, rel_tol=_ALIKE, abs_tol=_ALIKE)


def _level(measure: Measure, yours: float | None, others: Mapping[str, float | None], *, bound: bool) -> Level:
    if yours is None:
        return "unknown"
    cost = _cost(measure)
    costs = [cost(value) for value in others.values() if value is not None]
    near = measure.slack + measure.alike * abs(yours if measure.better != "half" else 0.0)
    worst = bound or not costs or cost(yours) > max(costs) + near
    if measure.never is not None and cost(yours) > cost(measure.never) and (worst or not measure.excused):
        return "serious"
    if not costs:
        return "unknown"
    if worst:
        return "weak"
    return "strong" if cost(yours) < min(costs) - near else "fair"


def _cost(measure: Measure) -> Callable[[float], float]:
    """What is less, the better a value is."""
    if measure.better == "less":
        return lambda value: value
    if measure.better == "more":
        return lambda value: -value
    return lambda value: abs(value - 50)
