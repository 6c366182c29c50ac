"""Executes the cells of a scenario and writes the folder of the run."""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weir import methods
from weir.engine import _host
from weir.engine._display import Display, Quiet
from weir.engine._errors import DiskFullError, EngineError, Interrupted
from weir.engine._executor import LocalWorkers, Workers
from weir.engine._files import is_disk_full
from weir.engine._folder import RunFolder, identity_of, now
from weir.engine._job import Cell, Failure, Job, Scenario
from weir.engine._manifest import Outcomes, intended, run_manifest
from weir.engine._process import Message
from weir.engine._tally import Tally, Work

__all__ = ["Result", "run"]

_POLL_S = 0.1


@dataclass(frozen=True)
class Result:
    """The outcome of a run."""

    folder: Path
    cells: int
    executed: int
    """Number of cells executed by this call; the others existed."""
    failures: tuple[Failure, ...]
    wall_s: float
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """Remarks that do not affect any number."""
    cell_ids: tuple[str, ...] = ()
    """Ids of all its cells; a warning about a cell begins with its id."""


@dataclass
class _State:
    """The jobs of a run and their states."""

    folder: RunFolder
    waiting: list[Job] = field(default_factory=list)
    manifests: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)

    def sort_in(self, job: Job) -> str | None:
        """Reuses the result of an earlier call, else queues the job. Damaged results are queued too, and reported."""
        cell = job.cell.id
        if not self.folder.holds(cell):
            self.waiting.append(job)
            return None
        damage = self.folder.damage(cell)
        held = None if damage else self.folder.finished(cell)
        if held is not None and held.get("key") == job.key:
            self.manifests[cell] = held
            return None
        self.waiting.append(job)
        return f"cell {cell} is executed anew: {damage[0]}" if damage else None

    def complete(self) -> dict[str, Any] | None:
        """The run's manifest, if no job waits and it lists exactly these cells; else ``None``."""
        if self.waiting or (manifest := self.folder.manifest()) is None:
            return None
        listed = {entry["id"]: entry.get("checksum") for entry in manifest.get("cells", ())}
        own = {cell: held.get("checksums", {}).get("manifest") for cell, held in self.manifests.items()}
        return manifest if listed == own else None

    def fail(self, message: Message) -> Failure:
        """Records that a cell failed."""
        cell = message["id"]
        factors = next(job.cell.factors for job in self.waiting if job.cell.id == cell)
        self.failures[cell] = Failure(cell, message["error"], message["trace"], factors)
        return self.failures[cell]


def run(
    scenario: Scenario,
    out: Path,
    *,
    method: str = methods.DEFAULT,
    workers: int | None = None,
    place: Workers | None = None,
    settings: Mapping[str, Any] | None = None,
    fresh: bool = False,
    force: bool = False,
    display: Display | None = None,
    on: Path | None = None,
) -> Result:
    """Executes every cell of ``scenario`` that ``out`` lacks, and writes the run's manifest.

    A failed cell is recorded and does not stop the others. Results do not depend on ``workers``.

    Args:
        scenario: the scenario, with overrides applied.
        out: folder of the run; created, or continued if it holds the same run.
        method: name of a method.
        workers: number of processes; by default one per processor.
        place: where the cells are executed, instead of ``workers`` processes of this machine.
        settings: changes to the scenario (``quick``, ``set``), to distinguish runs.
        fresh: replaces the run in ``out``, which is removed when a cell is being executed, and not before.
        force: also executes plans that this machine cannot carry; a method with a real clock then measures the machine.
        display: receives progress.
        on: file of the inventory on whose machines the cells are executed, for a method that takes one.

    Raises:
        EngineError: the run failed; complete cells are kept.
        weir.methods.MethodError: the method is unknown, or cannot execute this plan, on this machine or at this size.
        OSError: ``out`` cannot be written.
    """
    display = display or Quiet()
    place = place or LocalWorkers(workers)
    executor, inventory, jobs = _asked(scenario, method, place, on)
    where = {} if inventory is None else {"on": inventory}
    identity = identity_of(scenario.text, scenario.title, method, {**(settings or {}), **where})
    folder = RunFolder(out)
    with (
        _stop_signals(),
        folder.locked(),
        _disk_full_explained(out),
        folder.claimed(identity, scenario.text, fresh=fresh, intended=intended(scenario, jobs)),
    ):
        state = _State(folder)
        for job in jobs:
            if (said := state.sort_in(job)) is not None:
                display.note(said)
        begun = time.monotonic()
        if (manifest := state.complete()) is None:
            if not force:
                _refuse_what_is_too_much(executor, state.waiting)
            host = _host.facts()
            folder.reopen()
            for job in state.waiting:
                folder.discard(job.cell.id)
            try:
                count = _execute(state, executor, method, place, display)
            finally:
                for remark in executor.undo(out):
                    display.note(remark)
            if folder.replaces:  # each cell failed at once
                failure = next(iter(state.failures.values()))
                raise EngineError(f"no cell could begin, and the run before is kept: {failure.error}")
            outcomes = Outcomes(jobs, state.manifests, state.failures)
            warnings = outcomes.warnings([_host.load_warning(host)] if executor.clock == "real" else [])
            manifest = run_manifest(scenario, identity, outcomes, host) | {
                "start": folder.start,
                "end": now(),
                "workers": count,
                "warnings": warnings,
            }
            folder.finish(manifest)
        return Result(
            folder=out,
            cells=len(jobs),
            executed=len(state.waiting),
            failures=tuple(state.failures[job.cell.id] for job in jobs if job.cell.id in state.failures),
            wall_s=time.monotonic() - begun,
            warnings=tuple(manifest["warnings"]),
            notes=tuple(manifest.get("notes", ())),
            cell_ids=tuple(job.cell.id for job in jobs),
        )


def require(
    scenario: Scenario, method: str, *, workers: int | None = None, place: Workers | None = None, on: Path | None = None
) -> None:
    """Refuses what :func:`run` would refuse with these arguments before it executes a cell or writes anything.

    Raises:
        EngineError: two cells have the same id.
        weir.methods.MethodError: the method is unknown, or cannot execute this plan, or not on this machine.
    """
    _asked(scenario, method, place or LocalWorkers(workers), on)


def _asked(
    scenario: Scenario, method: str, place: Workers, on: Path | None
) -> tuple[methods.Method, str | None, list[Job]]:
    """The method, the inventory that it takes, and the jobs, if it can execute them at ``place``."""
    inventory = None if on is None else str(on.absolute())
    executor = methods.get(method, inventory)
    if not executor.takes_inventory:
        inventory = None
    if (why := place.refusal(executor)) is not None:
        raise methods.UnfitMethodError(why)
    if (why := executor.available()) is not None:
        raise methods.MethodError(f"method {method!r} cannot run here: {why}")
    cells = scenario.cells()
    _check_ids(cells)
    jobs = [Job.of(cell, method, inventory) for cell in cells]
    _refuse_what_it_cannot(method, executor, jobs, place)
    return executor, inventory, jobs


def _refuse_what_it_cannot(name: str, method: methods.Method, jobs: Sequence[Job], place: Workers) -> None:
    """Raises UnfitMethodError if the method cannot execute one of the jobs at its place; checks each value of a factor
    once.

    A method with a real clock is asked later whether this machine can carry the plan, and may be forced; one on other
    machines cannot be asked that.
    """
    ask = method.obstacle if method.clock == "virtual" or method.takes_inventory else method.unfit
    for job in _each_value_once(jobs):
        plan = job.cell.plan()
        why = ask(plan) or place.obstacle(method, plan)
        if why is not None:
            raise methods.UnfitMethodError(f"method {name!r} cannot execute {_called(job, jobs)}: {why}")


def _each_value_once(jobs: Sequence[Job]) -> Iterator[Job]:
    """The first of ``jobs``, and each job with a factor value that no earlier job has."""
    seen: set[tuple[str, str]] = set()
    for number, job in enumerate(jobs):
        new = job.cell.factors.items() - seen
        if new or number == 0:
            seen |= new
            yield job


def _called(job: Job, jobs: Sequence[Job]) -> str:
    return "this" if job is jobs[0] else Failure(job.cell.id, "", factors=job.cell.factors).place


def _refuse_what_is_too_much(method: methods.Method, jobs: Sequence[Job]) -> None:
    """Raises MethodError if this machine cannot carry a job: the results would measure the machine."""
    for job in jobs:
        capacity = method.capacity(job.cell.plan())
        if capacity is None:
            return
        if capacity.missing:
            needs = ", ".join(f"{n.asked:.3g} {n.what} (there are {n.available:.3g})" for n in capacity.missing)
            raise methods.MethodError(
                f"this machine cannot carry cell {job.cell.id}: it needs {needs}; {capacity.basis}. "
                "`weir plan --method` shows all cells; --force runs it all the same"
            )


def _check_ids(cells: Sequence[Cell]) -> None:
    seen: set[str] = set()
    for cell in cells:
        if cell.id in seen or "/" in cell.id or cell.id.startswith("."):
            raise EngineError(f"cell id {cell.id!r} is not unique or not fit for a folder's name")
        seen.add(cell.id)


def _execute(state: _State, executor: methods.Method, method: str, place: Workers, display: Display) -> int:
    """Executes the waiting jobs; returns the number of workers."""
    if not state.waiting:  # an interruption after the last cell left the run without its manifest
        state.folder.remove_partial()
        return 1
    # The longest first, so that no worker is left with a long cell at the end.
    order = iter(sorted(state.waiting, key=lambda job: -job.cost))
    works = {job.cell.id: Work(job.cost, job.end_ns) for job in state.waiting}
    tally = Tally(works, time.monotonic(), real=executor.clock == "real")
    with _shown(display, tally):
        try:
            next_job = _jobs(order, state.folder.path, method)
            with contextlib.closing(place.start(method, state.waiting, next_job, display)) as pool:
                while tally.done + tally.failed < tally.total:
                    with contextlib.suppress(queue.Empty):
                        _take(pool.messages.get(timeout=_POLL_S), state, tally, display)
                    display.update(tally)
                return pool.workers
        except KeyboardInterrupt:
            # Not the tally's count: a cell may be complete whose message has not arrived yet.
            kept = sum(state.folder.finished(job.cell.id) is not None for job in state.waiting)
            raise Interrupted(f"interrupted; {_said_of_kept(state, kept, tally)}") from None
        finally:
            state.folder.remove_partial()


def _jobs(order: Iterator[Job], folder: Path, method: str) -> Callable[[], Message | None]:
    """Returns the jobs one after another, then ``None``; compiles each plan when its turn comes."""
    return lambda: next((job.message(folder, method) for job in order), None)


def _take(message: Message, state: _State, tally: Tally, display: Display) -> None:
    """Handles a worker's message."""
    match message["type"]:
        case "progress":
            state.folder.begun()
            live = message.get("live")
            tally.progress(message["id"], message["now_ns"], None if live is None else methods.Live.from_json(live))
        case "done":
            state.folder.begun()
            state.manifests[message["id"]] = state.folder.finished(message["id"]) or {}
            tally.finish(message["id"], ok=True)
            display.ended(message["id"], message["wall_s"], tally)
        case "failed" if message["kind"] == "disk_full":
            raise DiskFullError(_disk_full(state.folder.path, tally))
        case "failed" if message["kind"] == "lost":
            raise EngineError(_lost(message, state, tally))
        case "failed":
            failure = state.fail(message)
            tally.finish(message["id"], ok=False)
            display.note(f"{failure.place} failed: {failure.error}")
            display.ended(message["id"], None, tally)
        case "note":
            display.note(message["text"])
        case "broken":
            raise message["error"]


def _said_of_kept(state: _State, kept: int, tally: Tally) -> str:
    """What an interruption leaves, and what the same command does next. A new run without a cell is removed."""
    if kept:
        return f"{kept} of {tally.total} cells were finished and are kept. Run the same command again to continue"
    if state.folder.replaces:
        return "no cell had begun, and the run before is kept. Run the same command again to start anew"
    if state.manifests:
        return "no further cell was finished, and those from before are kept. Run the same command again to continue"
    return "no cell was finished, and nothing is kept. Run the same command again to start anew"


def _lost(message: Message, state: _State, tally: Tally) -> str:
    return f"cell {message['id']}: {message['error']}. {_said_of_kept(state, tally.done, tally)}"


def _disk_full(path: Path, tally: Tally | None = None) -> str:
    done = 0 if tally is None else tally.done
    kept = f" ({done} of {tally.total} cells were finished and are kept)" if tally is not None and done else ""
    return f"no space left on the disk of {path}{kept}. Free some, then run the same command again to continue"


@contextlib.contextmanager
def _disk_full_explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if is_disk_full(error):
            raise DiskFullError(_disk_full(path)) from error
        raise


@contextlib.contextmanager
def _stop_signals() -> Iterator[None]:
    """Lets SIGTERM and SIGHUP end a run as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = {s: signal.signal(s, stop) for s in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _shown(display: Display, tally: Tally) -> Iterator[None]:
    display.begin(tally)
    try:
        yield
    finally:
        display.close()
