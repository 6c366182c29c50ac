"""Executes the checks and the scenarios, and keeps what was found."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from weir import cc as users
from weir import engine
from weir.metrics import MeasuredRun, open_run
from weir.run import RunWarning
from weir.scenario import load, yaml_texts
from weir.study.judge._builds import Check, checks
from weir.study.judge._cases import CASES, Case, references
from weir.study.judge._points import Level, Point, points_of

__all__ = ["Judged", "Judgement", "judge"]

Tell = Callable[[str], None]

YOURS = "yours"
"""The name of the control under test among references of its own name."""


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
    def behaves_as(self) -> str | None:
        """The reference from which no figure tells it, if there is one."""
        points = [point for case in self.cases for point in case.points]
        if all(point.yours is None for point in points):
            return None
        return next((name for name in references() if not any(point.is_told_from(name) for point in points)), None)


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
    points = points_of(run, case, entrant.name)
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
