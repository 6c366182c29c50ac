"""Executes what is missing of a survey, and puts the results side by side."""

from __future__ import annotations

import datetime
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

from weir import engine, methods
from weir.compare import Comparison, compare
from weir.run import Run, RunWarning, open_run
from weir.scenario import Scenario, Version
from weir.survey._result import Entry, Execution, Survey, claims_of, figures_of
from weir.survey._tasks import Clock, Task, missing_methods, tasks_of
from weir.survey.errors import SurveyError

__all__ = ["execute"]

Tell = Callable[[str], None]


def execute(
    scenarios: Mapping[str, Scenario],
    names: tuple[str, ...],
    out: Path,
    *,
    version: Version,
    most_s: float | None = None,
    workers: int | None = None,
    fresh: bool = False,
    force: bool = False,
    display: Callable[[], engine.Display] | None = None,
    tell: Tell = lambda _: None,
) -> Survey:
    """Executes every scenario by every method that this machine has, and compares.

    What a folder holds already is kept. A scenario that this machine does not carry, or that fails, does not stop the
    others; the survey says why it lacks it.

    Args:
        scenarios: by name, in the version wanted.
        names: of methods.
        out: folder of the survey; each run is in ``out/SCENARIO/METHOD``.
        version: what the scenarios are versions of, for the report.
        most_s: no run is begun that would probably end later than so many seconds from now.
        workers: processes of a method with a virtual clock.
        fresh: replaces runs that the folder holds.
        force: executes what this machine does not carry in real time, too.
        display: gives a display for each run.
        tell: is told what comes next, and how much time is left.

    Raises:
        SurveyError: none of the methods is on this machine.
        weir.engine.EngineError: interrupted, or the folder cannot be used; what is complete is kept.
        OSError: ``out`` cannot be written.
    """
    missing = missing_methods(names)
    if len(missing) == len(names):
        raise SurveyError("no method to do it by: " + "; ".join(f"{name}: {why}" for name, why in missing.items()))
    for name, reason in missing.items():
        tell(f"not by {name}: {reason}")
    tasks = tasks_of(scenarios, [name for name in names if name not in missing], out)
    clock, begin = Clock(tasks), time.monotonic()
    done: dict[str, dict[str, Execution]] = {name: {} for name in scenarios}
    for number, task in enumerate(tasks, 1):
        passed = time.monotonic() - begin
        if most_s is not None and passed + task.seconds > most_s and not _complete(task):
            done[task.name][task.method] = _not_run(task, "there was no time left for it; the same command goes on")
            clock.done(task, 0.0, executed=False)
            continue
        tell(f"{number}/{len(tasks)} {task.name} by {task.method}; about {_minutes(clock.left_s())} left")
        shown = display() if display is not None else None
        found = _one(task, version, workers=workers, fresh=fresh, force=force, display=shown)
        clock.done(task, found.wall_s, executed=found.executed > 0)
        done[task.name][task.method] = found
    entries = tuple(_entry(name, scenario, done[name]) for name, scenario in scenarios.items())
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    return Survey(names, missing, version, entries, date)


def _one(
    task: Task, version: Version, *, workers: int | None, fresh: bool, force: bool, display: engine.Display | None
) -> Execution:
    try:
        result = engine.run(
            task.scenario,
            task.folder,
            method=task.method,
            workers=workers,
            settings={} if version == "full" else {version: True},
            fresh=fresh,
            force=force,
            display=display,
        )
    except methods.MethodError as error:
        return _not_run(task, _first_line(str(error)))
    failures = tuple(f"{failure.place}: {_first_line(failure.error)}" for failure in result.failures)
    reason = "every cell failed" if result.cells == len(failures) else ""
    return Execution(
        task.method, task.folder, result.wall_s, result.cells, result.executed, failures, result.warnings, reason
    )


def _not_run(task: Task, reason: str) -> Execution:
    return Execution(task.method, task.folder, reason=reason)


def _complete(task: Task) -> bool:
    return (task.folder / "manifest.json").is_file()


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02} min"


def _entry(name: str, scenario: Scenario, executions: Mapping[str, Execution]) -> Entry:
    runs = {method: _open(e.folder) for method, e in executions.items() if not e.reason}
    comparison = _compared(runs)
    figures = () if comparison is None else figures_of(comparison)
    return Entry(name, scenario, executions, runs, claims_of(scenario, runs), figures, comparison)


def _compared(runs: Mapping[str, Run]) -> Comparison | None:
    return compare(list(runs.values()), labels=list(runs), flows=False) if len(runs) > 1 else None


def _open(folder: Path) -> Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)  # they come with the run's warnings
        return open_run(folder)
