"""Metrics of many cells as one tidy frame, with confidence intervals over repeats."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from weir.metrics.errors import MetricError, nearest
from weir.metrics.measure import Measured, measure, to_scalar
from weir.metrics.reference import Reference, parse_reference
from weir.metrics.results import Axis, Floats
from weir.metrics.selection import direction_of
from weir.metrics.statistics import Interval, summarise
from weir.metrics.window import CellData, Window, window
from weir.run import Cell, Flow, Run
from weir.run.quantity import same_value

__all__ = ["baseline_finder", "compute", "member_labels"]

_MEMBERS = ("flow", "node", "link")
_PARTS = ("group", "direction")
"""Flow attributes by which flows are split before a metric is computed."""
_KEYS = ("cell", "repeat")

Row = dict[str, object]


@dataclass(frozen=True)
class _Plan:
    references: tuple[Reference, ...]
    by: tuple[str, ...]
    phases: tuple[str | None, ...] | None
    flows: str | None

    @property
    def members(self) -> set[str]:
        return set(self.by) & set(_MEMBERS)

    @property
    def parts(self) -> set[str]:
        return set(self.by) & set(_PARTS)


def compute(
    run: Run,
    *names: str,
    by: str | Sequence[str] | None = None,
    phase: str | Sequence[str] | None = None,
    flows: str | Sequence[str] | None = None,
    where: Mapping[str, object] | None = None,
    level: float = 0.95,
    interval: Interval = "t",
) -> pl.DataFrame:
    """Computes metrics over a run.

    Args:
        run: an opened run.
        names: metrics in the notation of :mod:`weir.metrics.reference`; parts written there override the options below.
        by: the columns that identify a row: factors of the sweep, and any of ``flow``, ``node``, ``link``, ``group``,
            ``direction``, ``repeat``, ``cell``. Default: every factor. Omitted factors are averaged within a repeat.
        phase: one phase, several, or ``"*"`` for all. Default: the whole run.
        flows: flows or links (:mod:`weir.metrics.selection`). Default: the flows under test, and their bottleneck.
        where: factor values to keep, as in :meth:`weir.run.Run.select`.
        level: confidence level of the interval.
        interval: ``t`` or ``bootstrap``, see :mod:`weir.metrics.statistics`.

    Returns:
        One row per metric, phase and combination of ``by``, in the order of the sweep: the columns of ``by``, ``phase``
        (null: the whole run), ``metric``, ``unit``, ``value`` (mean over repeats), ``sd``, ``n`` (repeats), ``ci_low``,
        ``ci_high`` (null with one repeat); ``bin_low`` and ``bin_high`` if one of the metrics is a distribution.
        Undefined values are null.

    Raises:
        MetricError: the metric, phase, factor or flow does not exist, or a table that it needs was not recorded.
        RunError: a table cannot be read, or ``where`` selects no cell.
    """
    if not names:
        raise MetricError("no metric named; `weir metrics` lists them")
    if unnamed := next((name for name in names if not isinstance(name, str)), None):
        raise MetricError(f"expected names of metrics, one by one: 'goodput.mean', 'jain'; found {repr(unnamed)[:60]}")
    chosen = run.select(where) if where else run
    flow_text = flows if flows is None or isinstance(flows, str) else ", ".join(flows)
    references = tuple(parse_reference(name) for name in names)
    plan = _Plan(references, _by(run, by), _phases(phase), flow_text)
    rows: list[Row] = []
    find = baseline_finder(run)
    for cell in chosen.cells:
        rows += _cell_rows(CellData(cell), plan, find)
    return _summary(rows, plan, chosen, level, interval)


def baseline_finder(run: Run) -> Callable[[Cell, Mapping[str, str]], Cell]:
    """Returns a function that finds a cell's baseline: other values of some factors, the same repeat.

    Raises:
        MetricError: (from the function returned) the factor does not exist, or no cell has these values.
    """

    def find(cell: Cell, factors: Mapping[str, str]) -> Cell:
        for name in factors:
            if name not in run.factors:
                raise MetricError(f"no factor {name!r}.{nearest(name, run.factors)}")
        wanted = {**cell.factors, **factors}
        for other in run.cells:
            if other.repeat == cell.repeat and all(same_value(other.factors.get(k, ""), v) for k, v in wanted.items()):
                return other
        raise MetricError(f"no cell has {wanted} and repeat {cell.repeat}, which the baseline asks for")

    return find


def _by(run: Run, by: str | Sequence[str] | None) -> tuple[str, ...]:
    if by is None:
        return tuple(run.factors)
    chosen = (by,) if isinstance(by, str) else tuple(by)
    for name in chosen:
        if name not in run.factors and name not in _MEMBERS + _PARTS + _KEYS:
            known = [*run.factors, *_MEMBERS, *_PARTS, *_KEYS]
            raise MetricError(f"by={name!r} is neither a factor nor one of {', '.join(known)}.{nearest(name, known)}")
    return chosen


def _phases(phase: str | Sequence[str] | None) -> tuple[str | None, ...] | None:
    if phase == "*":
        return None
    return (phase,) if phase is None or isinstance(phase, str) else tuple(phase)


def _cell_rows(data: CellData, plan: _Plan, find: Callable[[Cell, Mapping[str, str]], Cell]) -> Iterable[Row]:
    phases = tuple(p.name for p in data.plan.phases) if plan.phases is None else plan.phases
    for reference in plan.references:
        if any(not same_value(data.cell.factors.get(k, ""), v) for k, v in reference.factors):
            continue
        is_link = reference.metric.scope == "link"
        selector = reference.selector or plan.flows
        for name in (reference.phase,) if reference.phase else phases:
            whole = window(data, name, selector, is_link)

            def baseline(
                factors: Mapping[str, str],
                name: str | None = name,
                selector: str | None = selector,
                link: bool = is_link,
            ) -> Window:
                return window(CellData(find(data.cell, factors)), name, selector, link)

            for names, part in _split(whole, plan.parts):
                measured = measure(reference, part, baseline, split_flows="flow" in plan.members)
                for row in _rows(measured, reference, part, plan.members):
                    yield {
                        **data.cell.factors,
                        "cell": data.cell.id,
                        "repeat": data.cell.repeat,
                        **names,
                        "phase": name,
                        "metric": reference.text,
                        "unit": reference.unit,
                        **row,
                    }


def _split(whole: Window, parts: set[str]) -> Iterable[tuple[dict[str, str], Window]]:
    """Splits the window by group and direction, where ``parts`` asks for it."""

    def key(flow: Flow) -> tuple[tuple[str, str], ...]:
        of = {"group": flow.group, "direction": direction_of(flow)}
        return tuple((name, of[name]) for name in _PARTS if name in parts)

    keys = dict.fromkeys(key(flow) for flow in whole.flows) or ({} if parts else {(): None})
    return [(dict(k), replace(whole, flows=tuple(f for f in whole.flows if key(f) == k))) for k in keys]


def _rows(measured: Measured, reference: Reference, part: Window, members: set[str]) -> Iterable[Row]:
    if members and members != {measured.axis}:
        raise MetricError(
            f"{reference.text} has one value for {'all flows' if measured.axis == 'all' else 'each ' + measured.axis}, "
            f"so it cannot be split by {', '.join(sorted(members))}"
        )
    if measured.edges is not None:
        return _distribution_rows(measured, part, bool(members))
    if not members:
        scalar = to_scalar(measured, reference.text)
        return [{"value": scalar.value, "censored": scalar.censored}]
    return [
        {measured.axis: label, "value": float(value), "censored": bool(censored)}
        for label, value, censored in zip(
            member_labels(measured.axis, measured.members, part), measured.values, measured.censored, strict=True
        )
    ]


def _distribution_rows(measured: Measured, part: Window, split: bool) -> Iterable[Row]:
    edges = measured.edges if measured.edges is not None else np.zeros(1)
    labels: list[str | None] = [*member_labels(measured.axis, measured.members, part)] if split else [None]
    table = measured.values if split else _mean_of_rows(measured.values)
    for label, shares in zip(labels, table, strict=True):
        for low, high, share in zip(edges[:-1], edges[1:], shares, strict=True):
            row: Row = {"bin_low": float(low), "bin_high": float(high), "value": float(share), "censored": False}
            yield row | ({measured.axis: label} if split else {})


def _mean_of_rows(table: Floats) -> Floats:
    defined = table[~np.isnan(table).any(axis=1)]
    return np.mean(defined, axis=0, keepdims=True) if len(defined) else np.full((1, table.shape[1]), math.nan)


def member_labels(axis: Axis, members: Sequence[int], part: Window) -> list[str]:
    """Names of the flows, nodes or links that are the members of a result."""
    if axis == "link":
        return [part.plan.links[k].name for k in members]
    if axis == "node":
        firsts = [part.plan.flows[flows[0]] for flows in part.nodes]
        return [f"{flow.group}[{flow.index}]" for flow in firsts]
    return [part.plan.flows[k].name for k in members]


def _summary(rows: list[Row], plan: _Plan, run: Run, level: float, interval: Interval) -> pl.DataFrame:
    bins = any("bin_low" in row for row in rows)
    keys = [*plan.by, "phase", "metric", "unit", *(("bin_low", "bin_high") if bins else ())]
    metric = keys.index("metric")
    bounds = {reference.text: reference.bounds for reference in plan.references}
    grouped: dict[tuple[object, ...], dict[int, list[tuple[float, bool]]]] = {}
    for row in rows:
        key = tuple(row.get(name) for name in keys)
        repeat = row["repeat"]
        assert isinstance(repeat, int)
        grouped.setdefault(key, {}).setdefault(repeat, []).append((_float(row["value"]), bool(row["censored"])))
    found = []
    for key, repeats in grouped.items():
        means = np.array([_nanmean([value for value, _ in values]) for values in repeats.values()])
        summary = summarise(means, level, interval, bounds[str(key[metric])])
        censored = any(c for values in repeats.values() for _, c in values)
        found.append((*key, summary.mean, summary.sd, summary.n, summary.low, summary.high, censored))
    return _frame(found, keys, run)


def _frame(found: list[tuple[object, ...]], keys: list[str], run: Run) -> pl.DataFrame:
    schema: dict[str, pl.DataType] = {}
    for name in keys:
        schema[name] = pl.Float64() if name.startswith("bin_") else pl.UInt32() if name == "repeat" else pl.String()
    numbers = {
        "value": pl.Float64(),
        "sd": pl.Float64(),
        "n": pl.UInt32(),
        "ci_low": pl.Float64(),
        "ci_high": pl.Float64(),
    }
    frame = pl.DataFrame(found, schema={**schema, **numbers, "censored": pl.Boolean()}, orient="row")
    frame = frame.with_columns(pl.col(pl.Float64).fill_nan(None))
    # order of the sweep, not of the letters: 11.5ms before 100ms
    order = [pl.col(f).replace_strict({v: i for i, v in enumerate(run.factors[f])}) for f in keys if f in run.factors]
    return frame.sort(order, maintain_order=True) if order else frame


def _float(value: object) -> float:
    assert isinstance(value, float)
    return value


def _nanmean(values: list[float]) -> float:
    defined = [v for v in values if not math.isnan(v)]
    return sum(defined) / len(defined) if defined else math.nan
