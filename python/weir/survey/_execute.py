"""Executes what is missing of a survey, and puts the results side by side."""

from __future__ import annotations

import datetime
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from weir import engine, methods
from weir.compare import Comparison, compare
from weir.run import Run, RunWarning, open_run
from weir.scenario import Scenario, Version
from weir.survey._chance import Chance, chance_of
from weir.survey._result import Entry, Execution, Survey, claims_of, figures_of
from weir.survey._tasks import SEEDS, Clock, Task, missing_methods, tasks_of
from weir.survey.errors import SurveyError

__all__ = ["execute"]

Tell = Callable[[str], None]


def execute(
    scenarios: Mapping[str, Scenario],
    names: tuple[str, ...],
    out: Path,
    *,
    version: Version,
    seeds: Mapping[str, Scenario] | None = None,
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
        seeds: scenarios with repeats, for the simulator to say what chance makes.
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
    tasks = tasks_of(scenarios, seeds or {}, [name for name in names if name not in missing], out)
    clock, begin = Clock(tasks), time.monotonic()
    done: dict[str, dict[str, Execution]] = {name: {} for name in scenarios}
    for number, task in enumerate(tasks, 1):
        passed = time.monotonic() - begin
        if most_s is not None and passed + task.seconds > most_s and not _complete(task):
            done[task.name][task.label] = _not_run(task, "there was no time left for it; the same command goes on")
            clock.done(task, 0.0, executed=False)
            continue
        tell(f"{number}/{len(tasks)} {task.name} by {_what(task)}; about {_minutes(clock.left_s())} left")
        shown = display() if display is not None else None
        found = _one(task, version, workers=workers, fresh=fresh, force=force, display=shown)
        clock.done(task, found.wall_s, executed=found.executed > 0)
        done[task.name][task.label] = found
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
            settings=_settings(task, version),
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


def _settings(task: Task, version: Version) -> dict[str, Any]:
    """What ``weir run`` with the same options would say, so that it goes on with the same run."""
    settings: dict[str, Any] = {} if version == "full" else {version: True}
    return settings | ({"set": {"repeat": str(task.scenario.repeat)}} if task.label == SEEDS else {})


def _what(task: Task) -> str:
    return task.method if task.label != SEEDS else f"{task.method}, other seeds"


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
    runs = {label: _open(e.folder) for label, e in executions.items() if not e.reason}
    chance = chance_of(runs.pop(SEEDS)) if SEEDS in runs else Chance()
    own = {label: e for label, e in executions.items() if label != SEEDS}
    comparison = _compared(runs)
    figures = () if comparison is None else figures_of(comparison, chance)
    return Entry(name, scenario, own, runs, claims_of(scenario, runs, chance), figures, comparison)


def _compared(runs: Mapping[str, Run]) -> Comparison | None:
    return compare(list(runs.values()), labels=list(runs), flows=False) if len(runs) > 1 else None


def _open(folder: Path) -> Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)  # they come with the run's warnings
        return open_run(folder)
