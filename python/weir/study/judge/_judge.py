"""Executes the scenarios, reads the figures, and says of each whether it is good or bad beside the references."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from weir import cc as users
from weir import engine
from weir.metrics import MeasuredRun, MetricError, open_run
from weir.run import RunWarning
from weir.scenario import load, yaml_texts
from weir.study.judge._builds import Check, checks
from weir.study.judge._cases import CASES, Case, Measure, references, standards

__all__ = ["Judged", "Judgement", "Level", "Point", "judge"]

Level = Literal["serious", "weak", "ordinary", "strong", "unknown"]
Tell = Callable[[str], None]

_SCALE = {"%": 100.0, "ms": 1e3, "s": 1.0, "1": 1.0, "Mb/s": 1e-6}
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
    never: bool = False
    """Whether the event never came, so that the value is only a bound."""
    limit: float | None = None
    """A worse value is a serious fault, in the measure's unit."""
    bound: float | None = None
    """A worse value alone rejects the control."""
    rejects: bool = False
    """Whether the value does."""
    yardstick: float | None = None
    """Of a measure with relative limits, that of which they are shares."""


@dataclass(frozen=True)
class Judged:
    """A scenario with its figures."""

    case: Case
    title: str
    rationale: str
    run: MeasuredRun
    points: tuple[Point, ...]
    failure: str = ""
    """The first error of a cell of the control, if it has one."""


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
    def rejecting(self) -> list[tuple[Judged, Point]]:
        """The figures each of which alone rejects the control, with their scenarios."""
        return [(case, point) for case in self.cases for point in case.points if point.rejects]

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
        weir.engine.Interrupted: interrupted; finished scenarios are kept, and the same call continues.
        weir.engine.EngineError: a cell of another control failed, or ``out`` cannot be used.
        OSError: ``out`` cannot be written.
    """
    begin = time.monotonic()
    tell("builds and checks")
    checked = tuple(checks(source))
    name = source.stem if source.stem not in references() else YOURS
    about = users.control(str(source)).about
    entrant = _Entrant(name, source, about.needs_ecn)
    judged: list[Judged] = []
    try:
        for number, case in enumerate(CASES):
            tell(f"{number + 1} of {len(CASES)}: {case.name}")
            judged.append(_judged(case, entrant, out / case.name, workers))
    except (KeyboardInterrupt, engine.Interrupted):
        kept = f"{len(judged)} of {len(CASES)} scenarios are finished and kept"
        raise engine.Interrupted(f"interrupted; {kept}: the same command continues") from None
    failed = tuple(Check(f"Scenario {one.case.name}", "failed", one.failure) for one in judged if one.failure)
    return Judgement(source, name, about, checked + failed, tuple(judged), time.monotonic() - begin)


@dataclass(frozen=True)
class _Entrant:
    """The control under test."""

    name: str
    source: Path
    wants_ecn: bool


def _judged(case: Case, entrant: _Entrant, folder: Path, workers: int | None) -> Judged:
    run, failures = _run(case, entrant, folder, workers)
    scenario = load(case.file)
    points = tuple(_point(run, case, measure, entrant.name) for measure in case.measures)
    if failures or any(point.level == "serious" for point in points):
        # A flow that starves loses little and delays nobody: no strength of a scenario in which it failed.
        points = tuple(replace(point, level="ordinary") if point.level == "strong" else point for point in points)
    failure = f"{failures[0].place}: {failures[0].error}" if failures else ""
    return Judged(case, scenario.title, _one_line(scenario.rationale), run, points, failure)


def _run(
    case: Case, entrant: _Entrant, folder: Path, workers: int | None
) -> tuple[MeasuredRun, Sequence[engine.Failure]]:
    """The run of a scenario, and the cells that failed, all of them the entrant's."""
    controls = {entrant.name: str(entrant.source.absolute())} | {other: other for other in references()}
    changes = yaml_texts(case.changes(controls, {entrant.name} if entrant.wants_ecn else ()))
    scenario, settings = load(case.file, overrides=changes), {"set": dict(changes)}
    try:
        result = engine.run(scenario, folder, method="sim", workers=workers, settings=settings)
    except engine.FolderError:  # the run of another control, or of another version of the scenario
        result = engine.run(scenario, folder, method="sim", workers=workers, settings=settings, fresh=True)
    for failure in result.failures:
        if failure.factors[case.label] != entrant.name:
            raise engine.EngineError(f"{case.name}: {failure.place} failed: {failure.error}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)
        return open_run(folder), result.failures


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def _point(run: MeasuredRun, case: Case, measure: Measure, name: str) -> Point:
    values: dict[str, float | None] = dict.fromkeys((name, *references()))
    never = False
    try:
        frame = run.evaluate(measure.expression, where=measure.where or None)
    except MetricError:
        return Point(measure, None, dict.fromkeys(references()), "unknown")
    for row in frame.iter_rows(named=True):
        if row[case.label] in values and row["value"] is not None:
            values[row[case.label]] = row["value"] * _SCALE[measure.unit]
            never |= row[case.label] == name and bool(row["censored"])
    yours = values.pop(name)
    return _graded(Point(measure, yours, values, "unknown", never))


def _is_alike(point: Point, name: str) -> bool:
    other = point.others.get(name)
    if point.yours is None or other is None:
        return point.yours is other
    return math.isclose(point.yours, other, rel_tol=_ALIKE, abs_tol=_ALIKE)


def _graded(point: Point) -> Point:
    """The point with its limits and its level."""
    measure, yours, cost = point.measure, point.yours, _cost(point.measure)
    all_ = _known(point.others.values())
    standard = _known(point.others.get(name) for name in standards()) or all_
    yardstick = standard + _known([point.others.get(measure.peer)]) if measure.harm else all_
    if measure.relative:
        whole = max(yardstick, key=cost, default=None)
        point = replace(point, limit=_share(measure.limit, whole), bound=_share(measure.bound, whole), yardstick=whole)
    else:
        point = replace(point, limit=measure.limit, bound=measure.bound)
    if yours is None:
        return point
    near = measure.slack + measure.alike * abs(yours if measure.better != "half" else 0.0)

    def worse(than: Sequence[float]) -> bool:
        return point.never or not than or cost(yours) > max(cost(value) for value in than) + near

    rejects = point.bound is not None and cost(yours) > cost(point.bound)
    if rejects or (point.limit is not None and cost(yours) > cost(point.limit) and worse(standard)):
        return replace(point, level="serious", rejects=rejects)
    if not all_:
        return point
    if worse(yardstick):
        return replace(point, level="weak")
    better = measure.praised and cost(yours) < min(cost(value) for value in all_) - near
    return replace(point, level="strong" if better else "ordinary")


def _share(share: float | None, whole: float | None) -> float | None:
    return None if share is None or whole is None else share * whole


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _cost(measure: Measure) -> Callable[[float], float]:
    """What is less, the better a value is."""
    if measure.better == "less":
        return lambda value: value
    if measure.better == "more":
        return lambda value: -value
    return lambda value: abs(value - 50)
