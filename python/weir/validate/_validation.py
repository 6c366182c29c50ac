"""Executes a scenario by two methods and measures how far the first is from the second."""

from __future__ import annotations

import datetime
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from weir import engine, methods
from weir.compare import Comparison, compare
from weir.report.fidelity import point_of
from weir.run import Run, RunError, RunWarning, open_run
from weir.scenario import Scenario, load
from weir.validate._cells import Chosen, sample
from weir.validate._draw import draws
from weir.validate._errors import ERRORS, METRICS, Summary, cell_errors, summarise
from weir.validate._sides import Side, parse_sides
from weir.validate.errors import ValidateError

__all__ = ["QUICK_CELLS", "CellResult", "Job", "Validation", "execute"]

QUICK_CELLS = 12
"""Cells of a quick validation, if no number is given."""


@dataclass(frozen=True)
class Job:
    """What is to be validated."""

    name: str
    """What its results are called."""
    scenario: Path | None
    """A scenario file; none: random draws."""
    methods: str = "sim,emul"
    quick: bool = False
    cells: int | None = None
    """How many combinations of factors, or draws; none: all of them (a quick validation: a dozen)."""
    seed: int = 1
    overrides: Mapping[str, str] | None = None
    most_bps: float = 1e9
    """Bounds the rates of random draws."""


@dataclass(frozen=True)
class CellResult:
    """One cell: its errors, and the values that they come from."""

    factors: Mapping[str, str]
    point: Mapping[str, Any] | None
    errors: Mapping[str, float]
    values: Mapping[str, tuple[float | None, float | None]]
    """Of each metric: the method under test, and the reference."""
    repeats: int
    sure: bool | None
    """Whether the interval of the goodput's difference leaves zero out; none with one repeat."""
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The cell as JSON types."""
        errors = {k: None if math.isnan(v) else _bounded(v) for k, v in self.errors.items()}
        return {"factors": dict(self.factors), "point": self.point, "errors": errors, "values": dict(self.values),
                "repeats": self.repeats, "goodput_sure": self.sure, "warnings": list(self.warnings)}  # fmt: skip


@dataclass(frozen=True)
class Validation:
    """How far a method is from another."""

    job: Job
    sides: tuple[Side, Side]
    comparison: Comparison
    cells: tuple[CellResult, ...]
    failures: tuple[str, ...]
    """Cells that one of the methods could not execute."""
    left_out: tuple[str, ...]
    """Cells that this machine does not carry in real time, and why."""
    date: str

    def summary(self) -> dict[str, Summary]:
        """Each kind of error over all cells; kinds that no cell defines are left out."""
        found = {kind.name: summarise(kind, [cell.errors[kind.name] for cell in self.cells]) for kind in ERRORS}
        return {name: some for name, some in found.items() if some is not None}

    def worst(self, name: str, number: int) -> list[int]:
        """The numbers of the cells with the largest errors of a kind, the worst first."""
        known = [i for i, cell in enumerate(self.cells) if not math.isnan(cell.errors[name])]
        return sorted(known, key=lambda i: -self.cells[i].errors[name])[:number]

    def to_json(self) -> dict[str, Any]:
        """What ``weir validate --json`` prints: a summary a kind of error, by its name, and the cells."""
        return {
            **{name: _finite(summary.to_json()) for name, summary in self.summary().items()},
            "format": 1,
            "name": self.job.name,
            "date": self.date,
            "methods": [side.text for side in self.sides],
            "cells": [cell.to_json() for cell in self.cells],
            "failures": list(self.failures),
            "left_out": list(self.left_out),
            "warnings": [f"{label}: {text}" for label, text in self.comparison.warnings],
            "versions": self.comparison.runs[0].run.manifest.get("versions"),
            "hosts": {entry.label: _host(entry.run) for entry in self.comparison.runs},
            "commit": self.comparison.runs[0].run.manifest.get("commit"),
        }


_MOST = 1e9
"""Stands for infinity, where one method got something and the other nothing: JSON has no infinity."""


def _bounded(value: float) -> float:
    return min(value, _MOST)


def _finite(summary: Mapping[str, float | int | None]) -> dict[str, float | int | None]:
    return {k: _bounded(v) if isinstance(v, float) else v for k, v in summary.items()}


_HOST_FACTS = ("system", "kernel", "machine", "cpu_model", "cpus", "memory_bytes", "load_1min")


def _host(run: Run) -> dict[str, Any]:
    """What matters about the machine of a run, to whoever reads published results."""
    facts = run.manifest.get("host") or {}
    return {name: facts[name] for name in _HOST_FACTS if name in facts}


def execute(
    job: Job,
    out: Path,
    *,
    workers: int | None = None,
    fresh: bool = False,
    force: bool = False,
    display: engine.Display | None = None,
) -> Validation:
    """Executes what is missing of a job in the folder ``out``, and measures the errors.

    The reference is executed last, so that a mistake in the scenario shows before hours are spent on a real clock.
    Cells that this machine does not carry in real time are left out of both, unless ``force``.

    Raises:
        ValidateError: the job cannot be done, or no cell was executed by both methods.
        weir.scenario.ScenarioError: the scenario is wrong.
        weir.engine.EngineError: an execution was interrupted; what is complete is kept.
        weir.methods.MethodError: a method is unknown or cannot run here.
    """
    sides = parse_sides(job.methods)
    both = [_chosen(job, side) for side in sides]
    left_out = {} if force else _too_much(sides, both)
    runs, failures = [], []
    for side, every in zip(sides, both, strict=True):
        chosen = every.without(left_out)
        settings = {"quick": job.quick, "set": {**(job.overrides or {}), **side.overrides}}
        folder = out / side.folder
        result = engine.run(
            chosen,
            folder,
            method=side.method,
            workers=workers,
            settings=settings,
            fresh=fresh,
            force=True,
            display=display,
        )
        failures += [f"{side.text}: {failure.place}: {_first_line(failure.error)}" for failure in result.failures]
        runs.append(_open(folder, chosen))
    found = _measured(job, sides, runs, failures, both[0].factors)
    return replace(found, left_out=tuple(left_out.values()))


def _too_much(sides: Sequence[Side], chosen: Sequence[Chosen]) -> dict[str, str]:
    """The cells that this machine does not carry by one of the methods: their ids, and why.

    Raises:
        ValidateError: it carries none.
    """
    found: dict[str, str] = {}
    for side, cells in zip(sides, chosen, strict=True):
        method = methods.get(side.method)
        if not isinstance(method, methods.Sized) or method.available() is not None:
            continue  # the engine says what is not available
        for cell in cells.cells():
            missing = method.capacity(cell.plan()).missing
            if missing:
                needs = ", ".join(f"{n.asked:.3g} {n.what} (there are {n.available:.3g})" for n in missing)
                place = ", ".join(f"{k} {v}" for k, v in cell.factors.items() if k in cells.factors)
                found[cell.id] = f"{side.text}: {place or cell.id}: {needs}"
    if len(found) == len(chosen[0].cells()):
        raise ValidateError(f"this machine carries none of the cells in real time ({next(iter(found.values()))})")
    return found


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _chosen(job: Job, side: Side) -> Chosen:
    overrides = {**(job.overrides or {}), **side.overrides}
    if job.scenario is None:
        return draws(job.cells or QUICK_CELLS, job.seed, overrides, most_bps=job.most_bps)
    scenario: Scenario = load(job.scenario, quick=job.quick, overrides=overrides)
    number = QUICK_CELLS if job.quick and job.cells is None else job.cells
    return sample(scenario, number, job.seed)


def _open(folder: Path, chosen: Chosen) -> Run:
    """The run in a folder, with the cells chosen only: it may hold those of other samples."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)
        try:
            run = open_run(folder)
        except RunError:
            return Run(folder, (), {}, ())  # no cell of it is complete
    wanted = {cell.id for cell in chosen.cells()}
    return Run(folder, [cell for cell in run.cells if cell.id in wanted], run.manifest, ())


def _measured(
    job: Job, sides: tuple[Side, Side], runs: Sequence[Run], failures: Sequence[str], shown: Sequence[str]
) -> Validation:
    empty = [side.text for side, run in zip(sides, runs, strict=True) if not run.cells]
    if empty:
        raise ValidateError(f"no cell was executed by {' or '.join(empty)}:\n  " + "\n  ".join(failures[:5]))
    test, reference = runs
    comparison = compare(
        [reference, test],
        labels=[sides[1].text, sides[0].text],
        metrics=METRICS,
        phases=[None],
        flows=False,
        strict=False,
    )
    errors = cell_errors(comparison)
    cells = tuple(_cell(comparison, number, some, shown) for number, some in enumerate(errors))
    now = datetime.datetime.now(datetime.UTC).date().isoformat()
    return Validation(job, sides, comparison, cells, tuple(failures), (), now)


def _cell(comparison: Comparison, number: int, errors: Mapping[str, float], shown: Sequence[str]) -> CellResult:
    group = comparison.groups[number]
    rows = comparison.differences.filter(cell=number).to_dicts()
    goodput = next((row for row in rows if row["metric"] == "goodput.aggregate.mean"), None)
    sure = None
    if goodput is not None and goodput["ci_low"] is not None:
        sure = not goodput["ci_low"] <= 0 <= goodput["ci_high"]
    cells = [cell for some in group.cells.values() for cell in some]
    point = point_of(cells[0].plan)
    return CellResult(
        factors={k: v for k, v in group.factors.items() if k in shown} or dict(group.factors),
        point=None if point is None else point.to_json(),
        errors=errors,
        values={row["metric"]: (row["b_value"], row["a_value"]) for row in rows},
        repeats=min(len(some) for some in group.cells.values()),
        sure=sure,
        warnings=tuple(dict.fromkeys(text for cell in cells for text in cell.warnings)),
    )
