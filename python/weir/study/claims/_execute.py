"""Executes the cells whose results are missing, and stores each as soon as it is complete."""

from __future__ import annotations

import datetime
import functools
import hashlib
import shutil
import statistics
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import weir
from weir import engine, methods
from weir._duration import clock_text
from weir.metrics.expect import Wanted
from weir.plan import plan_hash
from weir.run import Cell, Run
from weir.scenario import Cell as Planned
from weir.scenario import Scenario
from weir.study._cells import Chosen
from weir.study._execute import opened
from weir.study.claims._papers import Recorded
from weir.study.claims._record import drawn_of, needed_names, skeleton, wanted_of
from weir.study.claims._store import Result, Store, Unit
from weir.study.errors import StudyError

__all__ = ["Plan", "Work", "digest_of", "execute", "obstacle_of", "result_of", "work_of"]

_PACKETS_PER_S = 2.5e6
"""Speed of a method that has no estimate, data packets a second; finished cells correct it."""
_SHORT_S = 1.0
"""Wall time below which a stored cell says nothing of the speed."""
_DIGITS = 16

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Work:
    """The cells of a unit to execute."""

    unit: Unit
    scenario: Scenario
    recorded: Recorded | None
    missing: tuple[Planned, ...]
    total: int
    """Number of cells of the unit that were asked for."""
    seconds: Mapping[str, float]
    """Estimated wall time of each missing cell on one processor."""
    baselines: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By missing cell: the cells whose tables its values need as well, if any."""

    @functools.cached_property
    def sweep(self) -> Mapping[str, Cell]:
        """All cells of the unit, without tables, by id."""
        return {cell.id: cell for cell in self._skeleton.cells}

    @functools.cached_property
    def wanted(self) -> Wanted:
        """What is stored of its cells."""
        return wanted_of(self._skeleton, self.scenario, self.recorded)

    @functools.cached_property
    def _skeleton(self) -> Run:
        return skeleton(self.scenario)


@functools.cache
def _commit() -> str:
    """The commit when the call began: storing results changes the tree."""
    return engine.commit() or ""


def digest_of(plan: Mapping[str, Any]) -> str:
    """The first digits of a plan's hash: they change with every change of the set-up."""
    return plan_hash(plan).removeprefix("sha256:")[:_DIGITS]


def work_of(
    unit: Unit,
    scenario: Scenario,
    recorded: Recorded | None,
    store: Store,
    where: Mapping[str, Sequence[str]] | None = None,
    *,
    anew: bool = False,
    history: Container[str] | None = None,
) -> Work:
    """The cells of ``scenario`` (in the version of ``unit``) without a current result that has all wanted values.

    The cells that are a baseline of one of them are executed again, because their tables are gone.

    Args:
        unit: the version and the method.
        scenario: in that version.
        recorded: what to store in addition to the claims' values.
        store: the stored results.
        where: factor values of the cells that are asked for; default: all cells.
        anew: all of these cells, whether they have a result or not.
        history: a result of a commit that is not in it does not count, nor one of a changed tree; default: all count.
    """
    run = skeleton(scenario)
    needs = wanted_of(run, scenario, recorded)
    held = store.cells(unit)
    wanted, baselines, total = set(), {}, 0
    for cell, bare in zip(scenario.cells(), run.cells, strict=True):
        if any(cell.factors.get(name) not in values for name, values in (where or {}).items()):
            continue
        total += 1
        result = held.get(cell.id)
        counts = result is not None and (history is None or result.commit in history)
        if (
            anew
            or result is None
            or not counts
            or dict(result.factors) != dict(cell.factors)
            or not _is_current(result, cell.plan(), needed_names(needs, bare, recorded))
        ):
            baselines[cell.id] = frozenset(needs.baselines(bare))
            wanted |= {cell.id, *baselines[cell.id]}
    missing = tuple(cell for cell in scenario.cells() if cell.id in wanted)
    method, speed = methods.get(unit.method), _speed(unit, store)
    seconds = {cell.id: _seconds(method, cell.plan(), speed) for cell in missing}
    return Work(unit, scenario, recorded, missing, max(total, len(missing)), seconds, baselines)


def obstacle_of(work: Work) -> str | None:
    """Why the method of ``work`` can execute none of its cells, in a line; ``None`` if it can execute one."""
    method, found = methods.get(work.unit.method), None
    for cell in work.missing:
        why = method.obstacle(cell.plan())
        if why is None:
            return None
        found = found or why.partition("\n")[0]
    return found


def _is_current(result: Result, plan: Mapping[str, Any], names: set[str]) -> bool:
    return result.plan == digest_of(plan) and names <= {*result.values, *result.drawn}


def _speed(unit: Unit, store: Store) -> float:
    """Data packets a second: of the unit's own results, else of all of its method.

    It is the median of the faster half. A stored wall time is that of a machine's load and of the simulator on its day,
    and both make it longer, not shorter. Short cells do not count: their start takes most of their time.
    """
    others = (
        result for other in store.units() if other.method == unit.method for result in store.cells(other).values()
    )
    own = _speeds(store.cells(unit).values())
    found = sorted(own or _speeds(others))
    return statistics.median(found[len(found) // 2 :]) if found else _PACKETS_PER_S


def _speeds(results: Iterable[Result]) -> list[float]:
    return [result.packets / result.wall_s for result in results if result.wall_s >= _SHORT_S and result.packets]


def _seconds(method: methods.Method, plan: dict[str, Any], speed: float) -> float:
    expected = engine.estimate(plan)
    return expected.end_s if method.clock == "real" else expected.packets / speed


@dataclass
class Plan:
    """The work of one call, and the time it takes."""

    works: list[Work]
    workers: int
    _foreseen: float = 0.0
    _took: float = 0.0
    _done: set[tuple[Unit, str]] = field(default_factory=set)

    @property
    def cells(self) -> int:
        """Number of cells to execute."""
        return sum(len(work.missing) for work in self.works)

    def took(self, unit: Unit, cell: str, wall_s: float) -> None:
        """Cell ``cell`` was executed in ``wall_s`` seconds."""
        self._foreseen += next(w.seconds[cell] for w in self.works if w.unit == unit)
        self._took += wall_s
        self._done.add((unit, cell))

    def left_s(self) -> float:
        """Estimated time left, seconds, corrected by what the finished cells took."""
        left = 0.0
        for work in self.works:
            at_once = 1 if methods.get(work.unit.method).clock == "real" else self.workers
            left += sum(s for cell, s in work.seconds.items() if (work.unit, cell) not in self._done) / at_once
        return left * (self._took / self._foreseen if self._foreseen else 1.0)


def execute(plan: Plan, store: Store, folder: Path, *, force: bool = False, tell: Tell = lambda _: None) -> list[str]:
    """Executes the work of ``plan``, unit after unit, and stores each cell when it is complete.

    Args:
        plan: the work.
        store: receives the results.
        folder: for the runs; the tables of a cell are removed when its result is stored.
        force: also executes plans that this machine cannot carry in real time, and stores cells with warnings of it.
        tell: receives progress.

    Returns:
        What could not be executed, with reasons.

    Raises:
        weir.engine.EngineError: interrupted; stored results are kept, and the same call continues.
        OSError: a result cannot be stored.
    """
    _commit()
    failures = []
    for work in plan.works:
        if not work.missing:
            continue
        text = f"{work.unit}: {len(work.missing)} of {work.total} cells"
        tell(f"{text}; about {clock_text(plan.left_s())} left in all")
        try:
            failures += _execute(work, plan, store, folder, force, tell)
        except methods.MethodError as error:
            failures.append(f"{work.unit}: {str(error).partition(chr(10))[0]}")
    return failures


def _execute(work: Work, plan: Plan, store: Store, folder: Path, force: bool, tell: Tell) -> list[str]:
    scenario = work.scenario
    chosen = Chosen(scenario.title, scenario.text, scenario.file, work.missing, tuple(scenario.factors))
    digest = hashlib.sha256(scenario.text.encode()).hexdigest()[:8]
    place = folder / f"{work.unit.file.removesuffix('.json')}.{digest}"
    keeper = _Keeper(work, plan, store, place, tell, force)
    result = engine.run(
        chosen,
        place,
        method=work.unit.method,
        workers=plan.workers,
        settings={"version": work.unit.version},
        fresh=True,
        force=force,
        display=keeper,
    )
    shutil.rmtree(place, ignore_errors=True)
    failed = [f"{work.unit}: {failure.place}: {failure.error}" for failure in result.failures]
    return failed + [f"{work.unit}: {name}: not stored: {warning}" for name, warning in keeper.doubtful.items()]


@dataclass
class _Keeper:
    """The display of a run that stores each cell when it ends.

    With a real clock, a warning says that the machine had a part in the result, which is then not stored.
    """

    work: Work
    plan: Plan
    store: Store
    place: Path
    tell: Tell
    force: bool
    """Whether cells with warnings are stored as well."""
    kept: set[str] = field(default_factory=set)
    """Cells whose tables were read."""
    doubtful: dict[str, str] = field(default_factory=dict)
    """By cell that was not stored: its first warning."""
    ended_cells: set[str] = field(default_factory=set)

    def begin(self, tally: object) -> None:
        """The run begins."""

    def update(self, tally: object) -> None:
        """Called periodically."""

    def note(self, text: str) -> None:
        """Passes a remark on."""
        self.tell(text)

    def ended(self, cell: str, wall_s: float | None, tally: object) -> None:
        """Stores the cell."""
        if wall_s is None:
            return
        begin = time.monotonic()
        self.ended_cells.add(cell)
        for name in sorted(self.ended_cells - self.kept):
            if self.work.baselines.get(name, frozenset()) <= self.ended_cells:
                self._keep(name)
        self.plan.took(self.work.unit, cell, wall_s)
        done = f"{len(self.kept)}/{len(self.work.missing)}"
        more = time.monotonic() - begin
        self.tell(
            f"  {self.work.unit}: {done}, {cell} in {clock_text(wall_s)}, measured in {more:.1f} s; "
            f"about {clock_text(self.plan.left_s())} left in all"
        )

    def close(self) -> None:
        """The run has ended."""

    def _keep(self, name: str) -> None:
        planned = next(cell for cell in self.work.missing if cell.id == name)
        needed = {name, *self.work.baselines.get(name, ())}
        cells = {one: opened(self.place / "cells" / one).cells[0] for one in needed}
        warnings = [warning for one in cells.values() for warning in one.warnings]
        if warnings and methods.get(self.work.unit.method).clock == "real" and not self.force:
            self.doubtful[name] = warnings[0]
            self.tell(f"  {self.work.unit}: {name} is not stored: {warnings[0]}")
        else:
            self.store.keep(self.work.unit, name, result_of(self.work, planned, cells))
        self.kept.add(name)
        for one in needed:
            if one in self.kept and not any(one in self.work.baselines.get(other, ()) for other in self._left()):
                for file in (self.place / "cells" / one).glob("*.parquet"):
                    file.unlink()

    def _left(self) -> set[str]:
        return {cell.id for cell in self.work.missing} - self.kept


def result_of(work: Work, planned: Planned, executed: Mapping[str, Cell]) -> Result:
    """What is stored of an executed cell.

    Args:
        work: its unit.
        planned: the cell.
        executed: by id: the cell and its baselines, with their tables.

    Raises:
        StudyError: it ended early.
    """
    cell = executed[planned.id]
    if cell.partial is not None:
        raise StudyError(f"{work.unit}: cell {planned.id} ended early: {cell.partial}")
    plan, facts = planned.plan(), engine.facts()
    # The run's own copy of a cell has its tables; the sweep has its place among the others.
    placed = {
        name: Cell(name, one.path, work.sweep[name].factors, work.sweep[name].repeat, one.manifest, one.checksums)
        for name, one in executed.items()
    }
    cell = placed[planned.id]
    return Result(
        factors=dict(planned.factors),
        repeat=planned.repeat,
        seed=planned.seed,
        plan=digest_of(plan),
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        commit=_commit(),
        weir=weir.__version__,
        processor=str(facts["cpu_model"]),
        wall_s=round(float(cell.manifest["wall_s"]), 2),
        packets=engine.estimate(plan).packets,
        values=work.wanted.values(cell, placed),
        drawn=drawn_of(cell, work.recorded),
        warnings=cell.warnings,
    )
