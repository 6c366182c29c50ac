"""A comparison of runs: values and differences of metrics, distances of traces, verdicts side by side."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import combinations, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from weir.compare._align import Alignment, Group, Labelled, align, label_runs
from weir.compare._claims import Claim, judge
from weir.compare._controls import controls_apart
from weir.compare._metrics import (
    COMPARED,
    DELAYS,
    Cells,
    Entry,
    Measured,
    Metric,
    common_phases,
    measure_run,
    metric_of,
)
from weir.compare._phases import phases_apart
from weir.compare._plans import PlanDifference, differing
from weir.compare._statistics import Difference, difference
from weir.compare._traces import TRACES, Key, Trace, mean_apart, traces_of
from weir.compare.errors import CompareError
from weir.metrics.overview import OF_CLASSES, OF_PORTS, classes_of, most_switched
from weir.metrics.results import Floats
from weir.metrics.statistics import summarise
from weir.run import Cell, Run, RunWarning, open_run

if TYPE_CHECKING:
    from weir.compare._limits import Limit

__all__ = ["Comparison", "compare"]

Row = dict[str, Any]

_NUMBERS = {"a_value": pl.Float64, "b_value": pl.Float64, "difference": pl.Float64, "relative": pl.Float64,
            "ratio": pl.Float64, "ci_low": pl.Float64, "ci_high": pl.Float64, "n_a": pl.UInt32, "n_b": pl.UInt32,
            "interval": pl.String, "relative_low": pl.Float64, "relative_high": pl.Float64,
            "floor": pl.Float64, "negligible": pl.Boolean, "censored": pl.Boolean}  # fmt: skip
_VALUES = {"run": pl.String, "value": pl.Float64, "sd": pl.Float64, "n": pl.UInt32, "ci_low": pl.Float64,
           "ci_high": pl.Float64, "censored": pl.Boolean}  # fmt: skip
_DISTANCES = {"trace": pl.String, "member": pl.String, "unit": pl.String, "a": pl.String, "b": pl.String,
              "a_mean": pl.Float64, "b_mean": pl.Float64, "distance": pl.Float64, "value_distance": pl.Float64,
              "n": pl.UInt32, "noise": pl.Float64, "value_noise": pl.Float64}  # fmt: skip
_SUBJECT = {"metric": pl.String, "phase": pl.String, "flow": pl.String, "unit": pl.String}


class Comparison:
    """Several runs side by side; see :func:`compare`. Expensive parts are computed on first use."""

    def __init__(
        self,
        runs: Sequence[Labelled],
        metrics: Sequence[Metric],
        phases: Sequence[str | None] | None,
        *,
        flows: bool = True,
        strict: bool = False,
        level: float = 0.95,
    ) -> None:
        self.runs = tuple(runs)
        self.alignment: Alignment = align(self.runs)
        self.level = level
        self._metrics = tuple(metrics)
        self._flows = flows
        self._strict = strict
        shared, notes = common_phases({entry.label: entry.run for entry in self.runs})
        self.phases: tuple[str | None, ...] = tuple(shared if phases is None else phases)
        self._notes = tuple(notes if phases is None else ())

    def __repr__(self) -> str:
        return f"Comparison({', '.join(self.labels)}: {len(self.groups)} cells)"

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the runs."""
        return tuple(entry.label for entry in self.runs)

    @property
    def groups(self) -> tuple[Group, ...]:
        """The aligned cells."""
        return self.alignment.groups

    @property
    def factors(self) -> tuple[str, ...]:
        """The factors by which cells align."""
        return self.alignment.factors

    @property
    def shown_factors(self) -> tuple[str, ...]:
        """The factors that distinguish cells, without those added by rows of ``zip`` and single values."""
        return tuple(self.groups[0].shown)

    @property
    def notes(self) -> tuple[str, ...]:
        """Differences between the runs as a whole, cells that do not align, and values that could not be computed."""
        problems = dict.fromkeys(text for _, found in self._measured.values() for text in found)
        plans = [f"{a} → {b}: {d}" for (a, b), some in self.plan_differences.items() for d in some[:_MAX_PLANS]]
        return (*self.alignment.notes, *controls_apart(self.groups), *self._phases, *self._notes, *plans, *problems)

    @cached_property
    def _phases(self) -> tuple[str, ...]:
        return tuple(phases_apart(self.runs, self.groups))

    @cached_property
    def warnings(self) -> tuple[tuple[str, str], ...]:
        """Label of a run, and a warning that makes its numbers untrustworthy."""
        return tuple((entry.label, text) for entry in self.runs for text in entry.run.warnings)

    @cached_property
    def plan_differences(self) -> Mapping[tuple[str, str], tuple[PlanDifference, ...]]:
        """Differences between the plans of the first common cell, for each pair of runs; empty if they are equal."""
        found = {}
        for a, b in combinations(self.labels, 2):
            both = next((g for g in self.groups if a in g.cells and b in g.cells), None)
            if both is not None:
                some = differing(both.cells[a][0].plan.raw, both.cells[b][0].plan.raw)
                if some:
                    found[a, b] = tuple(some)
        return found

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """The claims of the runs' scenarios, judged on each run."""
        return judge(self.runs, self.level)

    @cached_property
    def values(self) -> pl.DataFrame:
        """All metrics in every cell and run.

        One row per cell, metric, phase, flow and run: the factors, ``metric``, ``phase`` (null: the whole run),
        ``flow`` (null: all selected flows together), ``unit``, ``run``, ``value`` (mean over ``n`` repeats), ``sd``,
        ``ci_low``, ``ci_high``, ``censored``.
        """
        rows = []
        bounds = {metric.text: metric.bounds for metric in self._metrics}
        for group, subject, sides in self._subjects():
            for label, by_cell in sides.items():
                measured = list(by_cell.values())
                summary = summarise(_numbers(measured), self.level, bounds=bounds[subject["metric"]])
                rows.append(
                    self._place(group) | subject | {"run": label, "value": summary.mean, "sd": summary.sd,
                     "n": summary.n, "ci_low": summary.low, "ci_high": summary.high,
                     "censored": any(m.censored for m in measured)}
                )  # fmt: skip
        return self._frame(rows, {**_SUBJECT, **_VALUES})

    @cached_property
    def differences(self) -> pl.DataFrame:
        """All metrics in every cell, for each pair of runs (a, b) in their order.

        Columns: the factors, ``metric``, ``phase``, ``flow``, ``unit``; the runs ``a`` and ``b`` and their values;
        ``difference`` (b - a) with its confidence interval (:mod:`weir.compare._statistics`; null with one repeat) and
        ``interval``, its kind; ``ratio`` (b / a; null if one of them is below the floor of the metric); and
        ``relative``, the difference over the magnitude of ``a`` or over the floor, whichever is larger, with its
        interval; ``floor``; ``negligible``, whether both values are below it and count as equal. If at least two
        repeats have the same seeds in both runs, all numbers are of these repeats.
        """
        rows = []
        metrics = {metric.text: metric for metric in self._metrics}
        for group, subject, sides in self._subjects():
            metric = metrics[subject["metric"]]
            floor = metric.floor_in(next(iter(group.cells.values()))[0].plan)
            for a, b in combinations(sides, 2):
                used_a, used_b, paired = _matched(group, a, b, sides)
                found = difference(
                    _numbers(used_a), _numbers(used_b), paired=paired, level=self.level, bounds=metric.bounds
                )
                numbers = _difference_row(found, floor)
                censored = any(m.censored for m in (*used_a, *used_b))
                rows.append(self._place(group) | subject | {"a": a, "b": b} | numbers | {"censored": censored})
        return self._frame(rows, {**_SUBJECT, "a": pl.String, "b": pl.String, **_NUMBERS})

    @cached_property
    def traces(self) -> pl.DataFrame:
        """Distances between the time series of each cell, for each pair of runs; see :mod:`weir.compare._distance`.

        Columns: the factors, ``trace``, ``member`` (flow or link), ``unit``, ``a``, ``b``, their means, ``distance``
        (instant by instant), ``value_distance`` (of the distributions), each the mean over ``n`` pairs of repeats;
        ``noise`` and ``value_noise``: the same between different repeats of one run, null with one repeat.
        """
        rows = []
        for group in self.groups:
            series = {label: {c.id: traces_of(c) for c in cells} for label, cells in group.cells.items()}
            for a, b in combinations(series, 2):
                rows += [self._place(group) | row for row in _distance_rows(a, b, series, group.pairs(a, b))]
        return self._frame(rows, _DISTANCES)

    def worst(self, metric: str | None = None) -> pl.DataFrame:
        """The differences, the largest first: by ``relative``, negligible ones as 0, undefined ones last."""
        chosen = self.differences if metric is None else self.differences.filter(pl.col("metric") == metric)
        known = pl.when(pl.col("negligible")).then(0.0).otherwise(pl.col("relative").abs())
        size = pl.when(pl.col("relative").is_null()).then(-1.0).otherwise(known)
        return chosen.sort(size, descending=True, maintain_order=True)

    def beyond(self, limits: Iterable[Limit]) -> pl.DataFrame:
        """The differences that exceed a limit, with a column ``limit``; see :mod:`weir.compare._limits`."""
        from weir.compare._limits import exceeding

        return exceeding(self.worst(), limits)

    def to_json(self, limits: Iterable[Limit] = ()) -> Row:
        """The whole comparison as JSON types; ``docs/comparisons.md`` documents the keys."""
        from weir.compare._json import as_json

        return as_json(self, tuple(limits))

    def report(self, path: str | Path) -> Path:
        """Writes the report, one HTML file that works offline, and returns its path.

        Raises:
            OSError: it cannot be written.
        """
        from weir.compare.page import build

        return build(self, Path(path))

    def figures(self, folder: str | Path, formats: Sequence[str] = ("svg", "pdf", "csv")) -> list[Path]:
        """Writes the figures of the report for a paper; returns the paths, sorted.

        Raises:
            ReportError: no such format.
            OSError: a file cannot be written.
        """
        from weir.compare.figures import figures

        return figures(self, Path(folder), formats)

    @cached_property
    def _measured(self) -> dict[str, tuple[dict[Entry, Cells], list[str]]]:
        found = {}
        for entry in self.runs:
            wanted = {cell.id for group in self.groups for cell in group.cells.get(entry.label, ())}
            part = Run(entry.run.path, [c for c in entry.run.cells if c.id in wanted], entry.run.manifest, ())
            found[entry.label] = measure_run(part, self._metrics, self.phases, flows=self._flows, strict=self._strict)
        return found

    def _subjects(self) -> Iterable[tuple[Group, Row, dict[str, Cells]]]:
        """Each cell and measured quantity, with the repeats of every run that has it, by the id of their cells."""
        entries = dict.fromkeys(entry for found, _ in self._measured.values() for entry in found)
        order = {metric.text: place for place, metric in enumerate(self._metrics)}
        for group in self.groups:
            for entry in sorted(entries, key=lambda e: (order[e[0]], e[2] is not None)):
                sides = {
                    label: _of(self._measured[label][0].get(entry, {}), cells) for label, cells in group.cells.items()
                }
                sides = {label: found for label, found in sides.items() if found}
                measured = [m for found in sides.values() for m in found.values()]
                if any(not math.isnan(m.value) for m in measured):
                    metric, phase, flow = entry
                    unit = measured[0].unit
                    yield group, {"metric": metric, "phase": phase, "flow": flow, "unit": unit}, sides

    def _place(self, group: Group) -> Row:
        return {"cell": group.number, **{self._column(name): value for name, value in group.factors.items()}}

    def _column(self, factor: str) -> str:
        """The column of a factor; a reserved name gets a suffix."""
        taken = {"cell", "run", "a", "b", "trace", "member", *_SUBJECT, *_NUMBERS, *_VALUES, *_DISTANCES}
        return f"{factor}_factor" if factor in taken else factor

    def _frame(self, rows: list[Row], schema: Mapping[str, Any]) -> pl.DataFrame:
        head = {"cell": pl.UInt32, **{self._column(name): pl.String for name in self.factors}}
        return pl.DataFrame(rows, schema={**head, **schema}, orient="row").with_columns(
            pl.col(pl.Float64).fill_nan(None)
        )


_MAX_PLANS = 12


def _of(cells: Cells, wanted: Sequence[Cell]) -> Cells:
    return {cell.id: cells[cell.id] for cell in wanted if cell.id in cells}


def _matched(group: Group, a: str, b: str, sides: Mapping[str, Cells]) -> tuple[list[Measured], list[Measured], bool]:
    """The repeats to compare of two runs: pairs with values on both sides if there are at least two, else all."""
    pairs = [(sides[a][x.id], sides[b][y.id]) for x, y in group.pairs(a, b) if x.id in sides[a] and y.id in sides[b]]
    defined = [(x, y) for x, y in pairs if not (math.isnan(x.value) or math.isnan(y.value))]
    if len(defined) > 1:
        return [x for x, _ in defined], [y for _, y in defined], True
    return list(sides[a].values()), list(sides[b].values()), False


def _numbers(measured: Sequence[Measured]) -> Floats:
    return np.array([m.value for m in measured], dtype=np.float64)


def _difference_row(found: Difference, floor: float) -> Row:
    scale = max(abs(found.a), floor)
    if found.difference == 0:
        relative = 0.0
    else:
        relative = found.difference / scale if scale else math.copysign(math.inf, found.difference)
    low, high = _relative_interval(found, floor)
    small = found.difference != 0 and min(abs(found.a), abs(found.b)) < floor
    return {"a_value": found.a, "b_value": found.b, "difference": found.difference, "relative": relative,
            "ratio": math.nan if small else found.ratio, "ci_low": found.low, "ci_high": found.high, "n_a": found.n_a,
            "n_b": found.n_b, "interval": found.kind, "relative_low": low, "relative_high": high, "floor": floor,
            "negligible": max(abs(found.a), abs(found.b)) < floor}  # fmt: skip


def _relative_interval(found: Difference, floor: float) -> tuple[float, float]:
    """The interval of the relative difference: of the ratio minus 1 or, below the floor, of the difference over it."""
    if abs(found.a) <= floor or found.a == 0:
        return (found.low / floor, found.high / floor) if floor else (math.nan, math.nan)
    low, high = found.ratio_low - 1, found.ratio_high - 1
    return (low, high) if found.a > 0 else (-high, -low)


def _distance_rows(
    a: str,
    b: str,
    series: Mapping[str, Mapping[str, Mapping[Key, Trace]]],
    matched: Sequence[tuple[Cell, Cell]],
) -> Iterable[Row]:
    """Distances between repeats with the same seed; without such pairs, between the repeats in their order."""
    keys = dict.fromkeys(key for side in (a, b) for repeat in series[side].values() for key in repeat)
    for key in sorted(keys, key=lambda k: TRACES.index(k[0])):
        sides = {label: [repeat[key] for repeat in series[label].values() if key in repeat] for label in (a, b)}
        both = [(series[a][x.id], series[b][y.id]) for x, y in matched]
        pairs = [(x[key], y[key]) for x, y in both if key in x and key in y]
        pairs = pairs or list(zip(sides[a], sides[b], strict=False))
        found = mean_apart(pairs)
        if found is None:
            continue
        noise = mean_apart([pair for side in sides.values() for pair in pairwise(side)])
        yield {"trace": key[0], "member": key[1], "unit": pairs[0][0].unit, "a": a, "b": b, "a_mean": found.mean_a,
               "b_mean": found.mean_b, "distance": found.trace, "value_distance": found.values, "n": len(pairs),
               "noise": None if noise is None else noise.trace,
               "value_noise": None if noise is None else noise.values}  # fmt: skip


def compare(
    runs: Sequence[str | Path | Run],
    *,
    labels: Sequence[str | None] | None = None,
    metrics: Sequence[str] | None = None,
    also: Sequence[str] = (),
    phases: Sequence[str | None] | None = None,
    flows: bool = True,
    level: float = 0.95,
    strict: bool = True,
    verify: bool = True,
) -> Comparison:
    """Puts runs side by side: of several methods, seeds, stacks, or versions of a scenario.

    >>> weir.compare(["runs/a-sim", "runs/a-emul"]).differences  # doctest: +SKIP

    Args:
        runs: folders of runs, or opened runs (so that ``run.select(cc="reno")`` can be compared with another part).
        labels: names of the runs; default: their methods or, if these are the same, their folders.
        metrics: the metrics to compare; default: those of :data:`weir.compare.COMPARED` that the runs have, and those
            of their classes and switches.
        also: further metrics, whose absence is a note.
        phases: windows of time, ``None`` for the whole run; default: the common phases, else the whole run.
        flows: whether metrics of flows are also compared flow by flow.
        level: confidence level of the intervals.
        strict: whether it is an error if a run cannot give a requested metric; else it is a note.
        verify: whether files are checked against their checksums; see :func:`weir.run.open_run`.

    Raises:
        CompareError: fewer than two runs, two of one name, or nothing aligns.
        RunError: a folder is not a run.
        DamageError: a file of a run does not match its checksum.
        MetricError: the metric does not exist or, if requested, cannot be computed on a run.
    """
    if len(runs) < 2:
        raise CompareError("a comparison needs at least two runs")
    opened = [run if isinstance(run, Run) else _open(run, verify) for run in runs]
    named = label_runs(opened, labels if labels is not None else [None] * len(opened))
    chosen = _usual(opened) if metrics is None else tuple(metric_of(text) for text in metrics)
    chosen += tuple(metric_of(text) for text in dict.fromkeys(also) if text not in {metric.text for metric in chosen})
    return Comparison(named, chosen, phases, flows=flows, strict=strict and metrics is not None, level=level)


def _usual(runs: Sequence[Run]) -> tuple[Metric, ...]:
    """The default metrics; delays, those of classes and those of switches are included only if a run has them."""
    timed = any(cell.plan.interval_ns("delays") for run in runs for cell in run.cells)
    classes = dict.fromkeys(name for run in runs for name in classes_of(run))
    of_classes = (Metric(f"{metric}[class: {name}]") for metric in OF_CLASSES for name in classes)
    ports = OF_PORTS if any(map(most_switched, runs)) else ()
    return (*COMPARED, *(DELAYS if timed else ()), *of_classes, *map(Metric, ports))


def _open(path: str | Path, verify: bool) -> Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)  # these are notes of the run and come with its warnings
        return open_run(path, verify=verify)
