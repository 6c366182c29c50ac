"""Executes the missing parts of a survey, and puts the results side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from weir import methods, study
from weir._duration import clock_text
from weir.compare import Comparison, compare
from weir.run import Run
from weir.scenario import Scenario, Version
from weir.study import Clock, Done, How, StudyError, Task, missing_methods, opened
from weir.study.survey._chance import Chance, chance_of
from weir.study.survey._result import Entry, Survey, claims_of, figures_of
from weir.study.survey._tasks import SEEDS, tasks_of

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
    how: How | None = None,
    tell: Tell = lambda _: None,
) -> Survey:
    """Executes every scenario by every method that this machine has, and compares.

    Existing results are kept. If a scenario fails, or is more than this machine can carry, the others go on; the survey
    states the reason.

    Args:
        scenarios: by name, in the version wanted.
        names: of methods.
        out: folder of the survey; each run is in ``out/SCENARIO/METHOD``.
        version: the version of the scenarios, for the report.
        seeds: scenarios with repeats, from which the simulator estimates chance.
        most_s: time limit: no run begins that would probably end later than this many seconds from now.
        how: options, the same for every run.
        tell: receives the next step and the time left.

    Raises:
        StudyError: none of the methods is on this machine.
        weir.engine.EngineError: interrupted, or the folder cannot be used; complete cells are kept.
        OSError: ``out`` cannot be written.
    """
    missing = missing_methods(names)
    if len(missing) == len(names):
        raise StudyError("no method to run it: " + "; ".join(f"{name}: {why}" for name, why in missing.items()))
    for name, reason in missing.items():
        tell(f"not by {name}: {reason}")
    tasks = tasks_of(scenarios, seeds or {}, [name for name in names if name not in missing], out, version)
    clock, begin = Clock(tasks), time.monotonic()
    done: dict[str, dict[str, Done]] = {name: {} for name in scenarios}
    for number, task in enumerate(tasks, 1):
        passed = time.monotonic() - begin
        if most_s is not None and passed + task.seconds > most_s and not _complete(task):
            found = Done(task, reason="there was no time left for it; the same command continues")
        else:
            tell(f"{number}/{len(tasks)} {task.name} by {_what(task)}; about {clock_text(clock.left_s())} left")
            found = _one(task, how or How())
        clock.done(task, found.wall_s, executed=found.executed > 0)
        done[task.name][task.side.name] = found
    entries = tuple(_entry(name, scenario, done[name]) for name, scenario in scenarios.items())
    return Survey(names, missing, version, entries, study.today())


def _one(task: Task, how: How) -> Done:
    try:
        return study.execute(task, how)
    except methods.MethodError as error:
        return Done(task, reason=str(error).partition("\n")[0])


def _what(task: Task) -> str:
    return f"{task.side.method}, other seeds" if task.side.name == SEEDS else task.side.name


def _complete(task: Task) -> bool:
    return (task.folder / "manifest.json").is_file()


def _entry(name: str, scenario: Scenario, executions: Mapping[str, Done]) -> Entry:
    runs = {label: opened(done.task.folder) for label, done in executions.items() if not done.reason}
    chance = chance_of(runs.pop(SEEDS)) if SEEDS in runs else Chance()
    own = {label: done for label, done in executions.items() if label != SEEDS}
    comparison = _compared(runs)
    figures = () if comparison is None else figures_of(comparison, chance)
    return Entry(name, scenario, own, runs, claims_of(scenario, runs, chance), figures, comparison)


def _compared(runs: Mapping[str, Run]) -> Comparison | None:
    return compare(list(runs.values()), labels=list(runs), flows=False) if len(runs) > 1 else None
