"""Executes the cells of a study by its sides, each into the folder of a run, and opens existing runs.

Existing results are kept, so that an interrupted study can be continued.
"""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from weir import engine, methods
from weir.run import Cell, Run, RunError, RunWarning, open_run
from weir.study._sides import Side
from weir.study._time import seconds_of

__all__ = ["Done", "How", "Task", "execute", "missing_methods", "opened", "today"]


@dataclass(frozen=True)
class How:
    """Options of execution, the same for every side."""

    workers: int | None = None
    """Number of processes; ``None``: one per processor."""
    fresh: bool = False
    """Whether existing runs are replaced."""
    force: bool = False
    """Whether to execute plans that this machine cannot carry in real time."""
    display: Callable[[], engine.Display] | None = None
    """Creates a display for each run."""


@dataclass(frozen=True)
class Task:
    """The cells of a study as one side executes them."""

    side: Side
    cells: engine.Scenario
    folder: Path
    """Of the run."""
    settings: Mapping[str, Any]
    """Settings that distinguish the run from others of the scenario (:func:`weir.engine.run`)."""
    name: str = ""
    """Of the scenario, in a study of several."""

    @cached_property
    def seconds(self) -> float:
        """Estimated duration if no result exists, seconds."""
        return seconds_of(self.cells, self.side.method)


@dataclass(frozen=True)
class Done:
    """The result of a task."""

    task: Task
    cells: int = 0
    executed: int = 0
    """Number of cells executed now; the others existed."""
    failures: tuple[str, ...] = ()
    """Each failed cell, with its factors and the first line of the error."""
    warnings: tuple[str, ...] = ()
    wall_s: float = 0.0
    rejected: tuple[str, ...] = ()
    """Executions that were repeated: the cell, and its own warning that was the reason."""
    reason: str = ""
    """Why there is no result; empty if there is one."""


def execute(task: Task, how: How, *, again: int = 0) -> Done:
    """Executes the missing cells of ``task``.

    Args:
        task: the cells to execute.
        how: options, the same for every task of a study.
        again: maximum number of repetitions of an execution that is untrustworthy because of the real clock. Only the
            machine's own warning causes a repetition, never the result.

    Raises:
        weir.engine.EngineError: interrupted, or the folder cannot be used; complete cells are kept.
        weir.methods.MethodError: the method is unknown, cannot run here, or cannot run this plan.
        OSError: the folder cannot be written.
    """
    result = _run(task, how)
    done = Done(
        task,
        result.cells,
        result.executed,
        tuple(f"{failure.place}: {_first_line(failure.error)}" for failure in result.failures),
        result.warnings,
        result.wall_s,
        reason="every cell failed" if result.cells == len(result.failures) else "",
    )
    rejected: list[str] = []
    for _ in range(again if task.side.real and result.executed else 0):
        disturbed = [cell for cell in opened(task.folder, task.cells).cells if cell.warnings]
        if not disturbed:
            break
        rejected += [f"{cell.id}: {cell.warnings[0]}" for cell in disturbed]
        _again(task, how, disturbed)
    return replace(done, rejected=tuple(rejected))


def _run(task: Task, how: How) -> engine.Result:
    return engine.run(
        task.cells,
        task.folder,
        method=task.side.method,
        workers=how.workers,
        settings=task.settings,
        fresh=how.fresh,
        force=how.force,
        display=None if how.display is None else how.display(),
    )


def _again(task: Task, how: How, cells: Sequence[Cell]) -> None:
    engine.discard(task.folder, [cell.id for cell in cells])
    _run(task, replace(how, fresh=False))


def opened(folder: Path, cells: engine.Scenario | None = None) -> Run:
    """Opens the run in ``folder``; the reader's warnings become warnings of the run.

    Args:
        folder: of the run.
        cells: a sample, to select its cells only: the folder may hold others. If none of them is complete, the run is
            empty.

    Raises:
        weir.run.RunError: no cell is complete, and the whole run is wanted.
        weir.run.DamageError: a file does not match its checksum.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)
        try:
            run = open_run(folder)
        except RunError:
            if cells is None:
                raise
            return Run(folder, (), {}, ())
    if cells is None:
        return run
    wanted = {cell.id for cell in cells.cells()}
    return Run(folder, [cell for cell in run.cells if cell.id in wanted], run.manifest, ())


def missing_methods(names: Sequence[str]) -> dict[str, str]:
    """The methods that this machine does not have, and what it lacks for them."""
    found = {name: methods.get(name).available() for name in names}
    return {name: reason for name, reason in found.items() if reason is not None}


def today() -> str:
    """The date of a study's results, in UTC."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
