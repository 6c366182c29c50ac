"""Executes a grid by two sides and measures the error of the first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from weir import methods, study
from weir.compare import Comparison, compare
from weir.report.fidelity import point_of
from weir.run import Run
from weir.run.quantity import parse_quantity
from weir.study import CCS, QUICK_CELLS, Chosen, Grid, How, Side, StudyError, opened, parse_sides, today
from weir.study.validation._chance import chances, own_chance
from weir.study.validation._errors import ERRORS, METRICS, Aim, Summary, aims, cell_errors, errors_of, summarise
from weir.study.validation._repeats import medians

__all__ = ["CellResult", "Job", "Validation", "execute"]


@dataclass(frozen=True)
class Job:
    """The description of a validation."""

    name: str
    """Name of the results."""
    scenario: Path | None
    """A scenario file; ``None``: random draws."""
    methods: str
    """The two sides, such as ``sim,lab``."""
    quick: bool = False
    cells: int | None = None
    """Number of combinations of factors, or of draws; ``None``: all (a quick validation: a dozen)."""
    pairs: int | None = None
    """Minimum number of times that every two values of two factors meet; ``None``: ``cells`` decides."""
    chance: int | None = None
    """Number of seeds with which the method under test estimates chance; ``None``: only repeats do."""
    again: int = 2
    """Maximum repetitions of a real-clock execution with warnings: its figures are disturbed by the machine."""
    seed: int = 1
    overrides: Mapping[str, str] | None = None
    most_bps: float = 1e9
    """Upper bound of the rates of random draws."""
    ccs: Sequence[str] = CCS
    """Congestion controls of random draws."""

    @property
    def grid(self) -> Grid:
        """Its cells."""
        number = QUICK_CELLS if self.quick and self.cells is None else self.cells
        return Grid(
            self.scenario,
            quick=self.quick,
            overrides=self.overrides or {},
            cells=number,
            pairs=self.pairs,
            seed=self.seed,
            most_bps=self.most_bps,
            ccs=self.ccs,
        )


@dataclass(frozen=True)
class CellResult:
    """One cell: its errors, and the values that they follow from."""

    factors: Mapping[str, str]
    point: Mapping[str, Any] | None
    errors: Mapping[str, float]
    values: Mapping[str, tuple[float | None, float | None]]
    """By metric: the method under test, and the reference."""
    repeats: int
    chance: Mapping[str, float]
    """The error that seeds alone make (95 %), by kind; unknown ones are left out."""
    warnings: tuple[str, ...]
    plans: tuple[str, ...] = ()
    """Hash of the plan of each repeat."""

    def sure(self, name: str) -> bool | None:
        """Whether an error is larger than chance; ``None`` if chance is unknown."""
        return self.errors[name] > self.chance[name] if name in self.chance else None

    def to_json(self) -> dict[str, Any]:
        """The cell as JSON types."""
        errors = {k: None if math.isnan(v) else _bounded(v) for k, v in self.errors.items()}
        return {"factors": dict(self.factors), "point": self.point, "errors": errors, "values": dict(self.values),
                "chance": {k: _bounded(v) for k, v in self.chance.items()}, "repeats": self.repeats,
                "warnings": list(self.warnings), "plans": list(self.plans)}  # fmt: skip


@dataclass(frozen=True)
class Validation:
    """The distance of a method from another."""

    job: Job
    sides: tuple[Side, Side]
    comparison: Comparison
    cells: tuple[CellResult, ...]
    failures: tuple[str, ...]
    """Cells that one of the methods could not execute."""
    left_out: tuple[str, ...]
    """Cells that this machine cannot carry in real time, and the reasons."""
    date: str
    kernels: tuple[str, ...] = ()
    """Versions of the reference's kernels."""
    rejected: tuple[str, ...] = ()
    """Real-clock executions that were repeated, and the warnings that were the reasons."""

    @property
    def centre(self) -> str:
        """The average over a cell's repeats: the mean or, if the reference runs on a real clock, the median."""
        return "median" if self.sides[1].real else "mean"

    @property
    def aims(self) -> Mapping[str, Aim]:
        """The aims of the errors, by kind."""
        return aims(self.sides[1].method)

    @property
    def factors(self) -> dict[str, tuple[str, ...]]:
        """The factors that distinguish cells, each with its values in the order of the scenario."""
        known = self.comparison.groups[0].factors
        names = [name for name in self.cells[0].factors if name in known]
        every = {name: {cell.factors.get(name, ""): None for cell in self.cells} for name in names}
        return {name: tuple(sorted(values, key=_by_size)) for name, values in every.items()}

    def summary(self) -> dict[str, Summary]:
        """Each kind of error over all cells; kinds that no cell defines are left out."""
        found = {}
        for name in (kind.name for kind in ERRORS):
            sizes = [cell.chance.get(name) for cell in self.cells]
            found[name] = summarise([cell.errors[name] for cell in self.cells], self.aims.get(name), sizes)
        return {name: some for name, some in found.items() if some is not None}

    def worst(self, name: str, number: int) -> list[int]:
        """The numbers of the cells with the largest errors of a kind, the worst first."""
        known = [i for i, cell in enumerate(self.cells) if not math.isnan(cell.errors[name])]
        return sorted(known, key=lambda i: -self.cells[i].errors[name])[:number]

    def _draws(self) -> dict[str, Any] | None:
        job = self.job
        return None if job.scenario else {"seed": job.seed, "most_bps": job.most_bps, "ccs": list(job.ccs)}

    def to_json(self) -> dict[str, Any]:
        """The output of ``weir validate --json``: a summary per kind of error, by name, and the cells."""
        return {
            **{name: _finite(summary.to_json()) for name, summary in self.summary().items()},
            "format": 1,
            "name": self.job.name,
            "date": self.date,
            "methods": [side.name for side in self.sides],
            "scenario": None if self.job.scenario is None else scenario_name(self.job.scenario),
            "settings": {"quick": self.job.quick, "set": dict(self.job.overrides or {})},
            "draws": self._draws(),
            "kernels": list(self.kernels),
            "cells": [cell.to_json() for cell in self.cells],
            "failures": list(self.failures),
            "left_out": list(self.left_out),
            "rejected": list(self.rejected),
            "centre": self.centre,
            "warnings": [f"{label}: {text}" for label, text in self.comparison.warnings],
            "versions": self.comparison.runs[0].run.manifest.get("versions"),
            "hosts": {entry.label: _host(entry.run) for entry in self.comparison.runs},
            "commit": self.comparison.runs[0].run.manifest.get("commit"),
        }


_INFINITY = 1e9
"""Stands for infinity, where one method got something and the other nothing: JSON has no infinity."""


def _bounded(value: float) -> float:
    return min(value, _INFINITY)


def _finite(summary: Mapping[str, float | int | None]) -> dict[str, float | int | None]:
    return {k: _bounded(v) if isinstance(v, float) else v for k, v in summary.items()}


_HOST_FACTS = ("system", "kernel", "machine", "cpu_model", "cpus", "memory_bytes", "load_1min")


def _host(run: Run) -> dict[str, Any]:
    """Facts about a run's machine that readers of published results need."""
    facts = run.manifest.get("host") or {}
    return {name: facts[name] for name in _HOST_FACTS if name in facts}


def execute(job: Job, out: Path, how: How | None = None) -> Validation:
    """Executes the missing cells of a job in the folder ``out``, and measures the errors.

    The reference runs last, so that a mistake in the scenario shows before hours are spent on a real clock. Cells that
    this machine cannot carry in real time are left out of both, unless ``how`` says otherwise.

    Raises:
        StudyError: the job cannot be done, or no cell was executed by both methods.
        weir.scenario.ScenarioError: the scenario is wrong.
        weir.engine.EngineError: an execution was interrupted; complete cells are kept.
        weir.methods.MethodError: a method is unknown or cannot run here.
    """
    how = how or How()
    sides, grid = parse_sides(job.methods), job.grid
    both = [grid.of(side) for side in sides]
    left_out = {} if how.force else _too_much(sides, both)
    # Cells that are too much are left out already, so the engine need not refuse any.
    executor = _Executor(replace(how, force=True), job.again)
    runs = [
        executor.run(grid, side, every.without(left_out), out / side.folder)
        for side, every in zip(sides, both, strict=True)
    ]
    more = None
    if job.chance is not None:
        seeds = grid.with_repeats(job.chance)
        more = executor.run(seeds, sides[0], seeds.of(sides[0]).without(left_out), out / f"{sides[0].folder}-chance")
    found = _measured(job, sides, runs, executor.failures, both[0].factors, more)
    return replace(found, left_out=tuple(left_out.values()), rejected=tuple(executor.rejected))


class _Executor:
    """Executes cells by one side after another, and collects failures."""

    def __init__(self, how: How, again: int) -> None:
        self._how, self._again = how, again
        self.failures: list[str] = []
        self.rejected: list[str] = []

    def run(self, grid: Grid, side: Side, cells: Chosen, folder: Path) -> Run:
        """The run of one side, with its missing cells executed."""
        done = study.execute(grid.task(side, cells, folder), self._how, again=self._again)
        self.failures += [f"{side.name}: {text}" for text in done.failures]
        self.rejected += [f"{side.name}: {text}" for text in done.rejected]
        return opened(folder, cells)


def _too_much(sides: Sequence[Side], chosen: Sequence[Chosen]) -> dict[str, str]:
    """Ids of the cells that this machine cannot carry by one of the methods, and the reasons.

    Raises:
        StudyError: it can carry none.
    """
    found: dict[str, str] = {}
    for side, cells in zip(sides, chosen, strict=True):
        method = methods.get(side.method)
        if method.available() is not None:
            continue  # the engine reports missing methods
        for cell in cells.cells():
            capacity = method.capacity(cell.plan())
            if capacity is None:
                break  # any machine can carry all
            if missing := capacity.missing:
                needs = ", ".join(f"{n.asked:.3g} {n.what} (there are {n.available:.3g})" for n in missing)
                place = ", ".join(f"{k} {v}" for k, v in cell.factors.items() if k in cells.factors)
                found[cell.id] = f"{side.name}: {place or cell.id}: {needs}"
    if len(found) == len(chosen[0].cells()):
        raise StudyError(f"this machine can carry none of the cells in real time ({next(iter(found.values()))})")
    return found


def _by_size(text: str) -> float:
    """Sort key: sizes by kind and value, then everything else."""
    quantity = parse_quantity(text)
    return math.inf if quantity is None else quantity.value


def scenario_name(path: Path) -> str:
    """The name of a scenario file in a document: its name in the folder of scenarios, or as it was given."""
    parts = path.with_suffix("").parts
    known = [i for i, part in enumerate(parts) if part in ("scenarios", "catalogue")]
    return "/".join(parts[known[-1] + 1 :]) if known else str(path)


def _measured(
    job: Job,
    sides: tuple[Side, Side],
    runs: Sequence[Run],
    failures: Sequence[str],
    shown: Sequence[str],
    more: Run | None,
) -> Validation:
    empty = [side.name for side, run in zip(sides, runs, strict=True) if not run.cells]
    if empty:
        raise StudyError(f"no cell was executed by {' or '.join(empty)}:\n  " + "\n  ".join(failures[:5]))
    test, reference = runs
    comparison = compare(
        [reference, test],
        labels=[sides[1].name, sides[0].name],
        metrics=METRICS,
        phases=[None],
        flows=False,
        strict=False,
    )
    errors = cell_errors(comparison)
    centres = medians(comparison) if sides[1].real else None
    if centres is not None:
        errors = [{**found, **errors_of(*pair)} for found, pair in zip(errors, centres, strict=True)]
    sizes = own_chance(comparison) if more is None else chances(comparison, more)
    cells = [_cell(comparison, n, errors[n], sizes[n], shown) for n in range(len(errors))]
    if centres is not None:
        cells = [replace(cell, values=_side_by_side(*pair)) for cell, pair in zip(cells, centres, strict=True)]
    return Validation(job, sides, comparison, tuple(cells), tuple(failures), (), today(), _kernels(sides[1], reference))


def _side_by_side(
    test: Mapping[str, float | None], reference: Mapping[str, float | None]
) -> dict[str, tuple[float | None, float | None]]:
    return {name: (test.get(name), value) for name, value in reference.items()}


def _cell(
    comparison: Comparison, number: int, errors: Mapping[str, float], chance: Mapping[str, float], shown: Sequence[str]
) -> CellResult:
    group = comparison.groups[number]
    rows = comparison.differences.filter(cell=number).to_dicts()
    cells = [cell for some in group.cells.values() for cell in some]
    tested = group.cells[comparison.labels[1]]
    point = point_of(cells[0].plan)
    return CellResult(
        factors={k: v for k, v in group.factors.items() if k in shown} or dict(group.factors),
        point=None if point is None else point.to_json(),
        errors=errors,
        values={row["metric"]: (row["b_value"], row["a_value"]) for row in rows},
        repeats=min(len(some) for some in group.cells.values()),
        chance=chance,
        warnings=tuple(dict.fromkeys(text for cell in cells for text in cell.warnings)),
        plans=tuple(str(cell.manifest.get("plan_hash", "")) for cell in tested),
    )


def _kernels(side: Side, run: Run) -> tuple[str, ...]:
    """The kernel versions that a run's cells recorded."""
    method = methods.get(side.method)
    found = (method.kernel_of(cell.path) for cell in run.cells)
    return tuple(dict.fromkeys(kernel for kernel in found if kernel is not None))
