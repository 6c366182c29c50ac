"""The charts' view of a run: cells with their factors, flows under test, important links, and tables.

A thin layer over `weir.run` that decides what is worth showing and reads only the parts of a table that a chart needs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from weir.metrics import MetricError, compute, parse_reference
from weir.metrics.expect import Value
from weir.metrics.overview import split_of, windows_of
from weir.metrics.selection import DIRECTIONS, direction_of
from weir.metrics.summary import Summarised
from weir.metrics.window import CellData, window
from weir.plan import leaves_switch
from weir.report._text import natural_key
from weir.report.changes import Changes, changes_of
from weir.report.lead import lead_figures
from weir.run import Cell, Flow, Link, Phase, Plan, Run, RunError
from weir.run.quantity import RATE, SIZE, TIME, parse_quantity
from weir.run.repeats import Counted, counted_repeats, missing_cells
from weir.scenario import reduced

__all__ = ["FEW_FLOWS", "CellView", "Factor", "RunView", "axis_of", "series_of"]

FEW_FLOWS = 16
"""Up to this many flows have a panel each; more become bands and heat maps."""

_WHOLE = "whole run"
_OF_QUEUES = frozenset({"queue.delay", "queue.delay.max"})
"""Metrics of the time that packets wait before a link."""
_NO_SUMMARY = {"phase": pl.String, "metric": pl.String, "unit": pl.String, "value": pl.Float64, "sd": pl.Float64,
               "n": pl.UInt32, "ci_low": pl.Float64, "ci_high": pl.Float64, "censored": pl.Boolean}  # fmt: skip


@dataclass(frozen=True)
class Factor:
    """A swept parameter: its values in order, and as numbers if all are quantities of one kind."""

    name: str
    values: tuple[str, ...]
    numbers: tuple[float, ...] | None
    base: str
    """Unit of ``numbers``: ``s``, ``bit/s``, ``bytes`` or another word."""

    @property
    def numeric(self) -> bool:
        """Whether it can be an axis."""
        return self.numbers is not None


class CellView:
    """One cell and repeat of a run. Tables that are missing, damaged or empty are ``None``."""

    def __init__(self, cell: Cell, run: RunView) -> None:
        self.cell = cell
        self.run = run
        self.problems: list[str] = []
        """Reading problems found so far."""
        self._tables: dict[str, pl.LazyFrame | None] = {}

    @property
    def id(self) -> str:
        """Name of the cell's folder."""
        return self.cell.id

    @property
    def plan(self) -> Plan:
        """The executed plan."""
        return self.cell.plan

    @property
    def label(self) -> str:
        """The factors in words: ``cc reno, rtt 100ms``."""
        return ", ".join(f"{k} {v}" for k, v in self.cell.factors.items()) or self.id

    @cached_property
    def end_ns(self) -> int:
        """End of the time series: the end of the experiment, or earlier if all flows ended long before."""
        frame = self.table("goodput")
        last = 0 if frame is None else int(frame.select(pl.col("time_ns").max()).collect().item())
        return last if 0 < last < 0.8 * self.plan.end_ns else self.plan.end_ns

    @property
    def end_s(self) -> float:
        """``end_ns`` in seconds."""
        return self.end_ns / 1e9

    def table(self, name: str) -> pl.LazyFrame | None:
        """A table of the cell, or ``None`` if it cannot be read or has no row."""
        if name not in self._tables:
            self._tables[name] = self._open(name)
        return self._tables[name]

    def _open(self, name: str) -> pl.LazyFrame | None:
        if not self.cell.has(name):
            return None
        try:
            frame = self.cell.readable_table(name)
            rows = int(frame.select(pl.len()).collect().item())
        except RunError as error:
            self.problems.append(f"{self.id}: table {name}: {error.problem}")
            return None
        except pl.exceptions.PolarsError as error:
            self.problems.append(f"{self.id}: table {name} is damaged: {error}")
            return None
        return frame if rows else None

    @cached_property
    def changes(self) -> Changes:
        """The changes of its links, with letters for those within the time series."""
        return changes_of(self.plan, self.end_ns)

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """The named phases; one phase over the whole run if the scenario names none."""
        return self.plan.phases or (Phase(_WHOLE, 0, self.plan.end_ns),)

    @cached_property
    def tested(self) -> tuple[Flow, ...]:
        """Flows under test; all flows if the plan marks none."""
        return tuple(f for f in self.plan.flows if f.role == "test") or self.plan.flows

    def summary(self, metric: str) -> pl.DataFrame:
        """A metric in every phase, over all repeats of this combination of factors; empty if undefined."""
        own = [pl.col(f.name) == self.cell.factors.get(f.name) for f in self.run.factors]
        found = self.run.summary(metric)
        return found.filter(own) if own and not found.is_empty() else found

    @cached_property
    def repeats(self) -> Run:
        """The run with the repeats of this combination of factors alone."""
        run = self.run.run
        return run.with_cells(c for c in run.cells if c.factors == self.cell.factors)

    def by_flow(self, metric: str) -> pl.DataFrame:
        """A metric in every phase per flow under test, in the column ``flow``."""
        try:
            return compute(self.repeats, metric, by="flow", phase=windows_of(self.repeats))
        except (MetricError, RunError) as error:
            self.problems.append(f"{self.id}: metric {metric}: {error}")
            return pl.DataFrame(schema=_NO_SUMMARY)

    @property
    def few(self) -> bool:
        """Whether each flow under test can have a panel."""
        return len(self.tested) <= FEW_FLOWS

    @cached_property
    def directions(self) -> dict[str, tuple[Flow, ...]]:
        """The flows under test by direction; one entry if all have the same."""
        found = {way: tuple(f for f in self.tested if direction_of(f) == way) for way in DIRECTIONS}
        return {way: flows for way, flows in found.items() if flows}

    @property
    def both_ways(self) -> bool:
        """Whether flows of both directions are under test."""
        return len(self.directions) > 1

    def names(self) -> pl.DataFrame:
        """Columns ``flow`` and ``name`` of the flows under test."""
        return pl.DataFrame(
            {"flow": [f.id for f in self.tested], "name": [f.name for f in self.tested]},
            schema={"flow": pl.UInt32, "name": pl.String},
        )

    def of_tested(self, name: str) -> pl.LazyFrame | None:
        """Rows of a table that belong to flows under test."""
        frame = self.table(name)
        return None if frame is None else frame.filter(pl.col("flow").is_in([f.id for f in self.tested]))

    @cached_property
    def bottlenecks(self) -> tuple[Link, ...]:
        """The links worth a chart: up to three that dropped, marked or queued most, one per direction under test.

        Avoids the hosts' own links if possible.
        """
        frame = self.table("links")
        if frame is None:
            return ()
        bad = (pl.col("drop_packets") + pl.col("mark_packets")).sum().alias("bad")
        queued = pl.col("queue_max_bytes").cast(pl.Float64).mean().alias("queued")
        found = frame.group_by("link").agg(bad, queued, pl.col("in_bytes").sum()).collect().to_dicts()
        seen = {int(row["link"]): row for row in found if row["in_bytes"] > 0}
        links = [k for k in self.plan.links if k.id in seen]
        links.sort(key=lambda k: (is_nic(k), -seen[k.id]["bad"], -seen[k.id]["queued"], k.id))
        busy = [k for k in links if not is_nic(k) and (seen[k.id]["bad"] > 0 or seen[k.id]["queued"] > k.mtu_bytes * 2)]
        chosen = busy[:3] or links[:1]
        for flows in self.directions.values() if self.both_ways else ():
            path = {i for f in flows for i in f.path}
            if not path & {k.id for k in chosen}:
                chosen += [k for k in links if k.id in path][:1]
        return tuple(sorted(chosen, key=lambda k: k.id))


def axis_of(factors: Sequence[Factor]) -> Factor | None:
    """The one of ``factors`` for the x axis: the numeric one with most values."""
    return max((f for f in factors if f.numeric), key=lambda f: len(f.values), default=None)


def series_of(factors: Sequence[Factor]) -> Factor | None:
    """The one of ``factors`` to show by colour: the first categorical one, else another numeric one than the axis."""
    axis = axis_of(factors)
    left = [f for f in factors if f is not axis]
    return next((f for f in left if not f.numeric), left[0] if left else None)


def is_nic(link: Link) -> bool:
    """Whether this is the first link of a host."""
    return link.typed.host_nic


class RunView:
    """A run: its cells, and its factors as x axis, colour or panels."""

    def __init__(self, run: Run) -> None:
        self.problems: list[str] = []
        """Computation problems found so far."""
        self.run = run.with_cells([c for c in run.cells if self._readable(c)])
        """The run without the cells whose plan cannot be read."""
        self.cells = tuple(CellView(cell, self) for cell in self.run.cells)
        self.factors = _factors(self.run)
        self._summaries: dict[str, pl.DataFrame] = {}
        self._by_entry: dict[str, pl.DataFrame] = {}

    def _readable(self, cell: Cell) -> bool:
        try:
            return bool(cell.plan.raw)
        except RunError as error:
            self.problems.append(f"cell {cell.id} is left out: {error.path.name} {error.problem}")
            return False

    @cached_property
    def title(self) -> str:
        """Title of the scenario."""
        return str(self.cells[0].plan.title) if self.cells else self.run.path.name

    @cached_property
    def figures(self) -> tuple[Summarised, ...]:
        """The figures that lead the report; ``problems`` says which of the scenario's have no value."""
        found = lead_figures(self.run, several=bool(self.swept))
        self.problems += [f"summary: {one.reason}" for one in found if one.reason]
        return found

    @cached_property
    def combinations(self) -> tuple[CellView, ...]:
        """The first repeat of each combination of factors, in the order of the factors' values."""
        seen: dict[tuple[str, ...], CellView] = {}
        for view in sorted(self.cells, key=lambda v: v.cell.repeat):
            seen.setdefault(self.values(view), view)
        order = {f.name: {v: i for i, v in enumerate(f.values)} for f in self.factors}

        def rank(view: CellView) -> list[int]:
            return [order[f.name].get(view.cell.factors.get(f.name, ""), -1) for f in self.factors]

        return tuple(sorted(seen.values(), key=rank))

    def values(self, view: CellView) -> tuple[str, ...]:
        """The factor values of a cell, in the order of ``factors``."""
        return tuple(view.cell.factors.get(f.name, "") for f in self.factors)

    @property
    def repeats(self) -> int:
        """The number of repeats."""
        return len(self.run.repeats)

    @cached_property
    def counted(self) -> Counted:
        """The numbers of repeats of the combinations of factors."""
        return counted_repeats(self.run)

    @cached_property
    def standing(self) -> tuple[str, ...]:
        """What a reader must know before any figure: a smaller version than the title's, cells that are missing."""
        settings = self.run.intended.get("settings")
        try:
            text = self.run.scenario or ""
        except RunError as error:
            self.problems.append(str(error))
            text = ""
        found = (reduced(text, settings if isinstance(settings, Mapping) else {}), missing_cells(self.run))
        return tuple(text for text in found if text)

    @cached_property
    def swept(self) -> tuple[Factor, ...]:
        """The factors that distinguish the cells.

        Of factors swept in step, the numeric one stands for all. Factors implied by a name such as ``case`` are left
        out.
        """
        return self.telling([f.name for f in self.factors])

    def telling(self, names: Collection[str]) -> tuple[Factor, ...]:
        """Those of the factors ``names`` that distinguish their combinations, as ``swept`` does of all."""
        kept: list[Factor] = []
        for factor in (f for f in self.factors if f.name in names and len(f.values) > 1):
            twin = next((i for i, other in enumerate(kept) if self._in_step(factor, other)), None)
            if twin is None:
                kept.append(factor)
            elif factor.numeric and not kept[twin].numeric:
                kept[twin] = factor
        said = [f for f in kept if any(not g.numeric and self._says(g, f) for g in kept if g is not f)]
        return tuple(f for f in kept if f not in said)

    def free(self, one: Summarised) -> tuple[Factor, ...]:
        """The factors that distinguish the values of a figure: of those that its expression leaves free."""
        return self.telling(one.values[0].factors) if one.values else ()

    def in_order(self, one: Summarised) -> list[Value]:
        """The values of a figure in the order of the factors' values."""
        free = self.free(one)
        order = {f.name: {v: i for i, v in enumerate(f.values)} for f in free}
        return sorted(one.values, key=lambda v: [order[f.name].get(v.factors[f.name], -1) for f in free])

    def said_by(self, factor: Factor) -> tuple[Factor, ...]:
        """The factors left out of ``swept`` because this factor's values imply theirs."""
        left = [f for f in self.factors if len(f.values) > 1 and f not in self.swept]
        return tuple(f for f in left if next((g for g in self.swept if self._says(g, f)), None) is factor)

    def _in_step(self, one: Factor, other: Factor) -> bool:
        """Whether the values of two factors correspond one to one."""
        return self._says(one, other) and self._says(other, one)

    def _says(self, one: Factor, other: Factor) -> bool:
        """Whether each value of ``one`` implies a value of ``other``, in all cells that there are or should be."""
        if not self.run.complete:
            return False  # an unfinished grid can look so
        pairs = {(f.get(one.name), f.get(other.name)) for f in _listed(self.run)}
        return len(pairs) == len(one.values)

    @cached_property
    def listed(self) -> int:
        """The number of combinations of factors that the run should have."""
        names = [f.name for f in self.factors]
        return len({tuple(factors.get(name, "") for name in names) for factors in _listed(self.run)})

    @property
    def crossed(self) -> bool:
        """Whether the sweep is a full grid: every value of a factor occurs with every value of the others."""
        return math.prod(len(f.values) for f in self.swept) == self.listed

    @cached_property
    def axis(self) -> Factor | None:
        """The factor on the x axis: the numeric one with most values."""
        return axis_of(self.swept)

    @cached_property
    def series(self) -> Factor | None:
        """The factor shown by colour: the first categorical one, else another numeric one."""
        return series_of(self.swept)

    @cached_property
    def panels(self) -> tuple[Factor, ...]:
        """The remaining factors: each combination of their values has a panel."""
        return tuple(f for f in self.swept if f not in (self.axis, self.series))

    @cached_property
    def entries(self) -> tuple[str, ...]:
        """The workload entries of the flows under test."""
        return tuple(dict.fromkeys(flow.group for cell in self.combinations for flow in cell.tested))

    @cached_property
    def unlike(self) -> tuple[str, ...]:
        """The kinds of workload of the flows under test, if flows of the same direction have different ones."""
        kinds = [{f.kind for f in flows} for cell in self.combinations for flows in cell.directions.values()]
        mixed = [found for found in kinds if len(found) > 1]
        return tuple(sorted(set().union(*mixed)))

    def summary_by_entry(self, metric: str) -> pl.DataFrame:
        """As ``summary``, per workload entry, in the column ``group``."""
        if metric not in self._by_entry:
            self._by_entry[metric] = self._summarise(metric, ("group",))
        return self._by_entry[metric]

    def summary(self, metric: str) -> pl.DataFrame:
        """A metric over all combinations of factors and all phases; see `weir.metrics.compute`.

        Empty if the run cannot give it; ``problems`` says why. Cells without a table that it needs are left out.
        """
        if metric not in self._summaries:
            self._summaries[metric] = self._summarise(metric)
        return self._summaries[metric]

    def _summarise(self, metric: str, more: Sequence[str] = ()) -> pl.DataFrame:
        try:
            return self._compute((metric,), more)
        except (MetricError, RunError) as error:
            self.problems.append(f"metric {metric}: {error}")
            return pl.DataFrame(schema=_NO_SUMMARY)

    def prepare(self, metrics: Sequence[str]) -> None:
        """Computes metrics of the same cells in one pass over the tables; failures are left to `summary`."""
        groups: dict[tuple[str, ...], list[str]] = {}
        for metric in metrics:
            if metric not in self._summaries:
                groups.setdefault(tuple(cell.id for cell in self._usable((metric,))), []).append(metric)
        for group in groups.values():
            try:
                frame = self._compute(group)
            except (MetricError, RunError):
                continue
            for metric in group:
                part = frame.filter(pl.col("metric") == metric)
                bins = [c for c in ("bin_low", "bin_high") if c in part.columns and part[c].is_null().all()]
                self._summaries[metric] = part.drop(bins)

    def _usable(self, metrics: Sequence[str]) -> list[Cell]:
        """The cells that have what these metrics need."""
        asked = [parse_reference(m).metric for m in metrics]
        tables = {t for metric in asked for t in metric.tables}
        found = [v.cell for v in self.cells if all(v.table(t) is not None for t in tables)]
        timed = any(metric.name in _OF_QUEUES for metric in asked)
        return [cell for cell in found if not (timed and _waits_in_switch(cell))]

    def _compute(self, metrics: Sequence[str], more: Sequence[str] = ()) -> pl.DataFrame:
        usable = self._usable(metrics)
        if not usable:
            return pl.DataFrame(schema=_NO_SUMMARY)
        part = self.run.with_cells(usable)
        return compute(part, *metrics, by=[*split_of(part), *more], phase=windows_of(part))

    @cached_property
    def listed_failures(self) -> tuple[Mapping[str, Any], ...]:
        """Cells that the run's manifest lists and that have no result."""
        have = {view.id for view in self.cells}
        listed = self.run.manifest.get("cells", ())
        return tuple(c for c in listed if isinstance(c, Mapping) and str(c.get("id")) not in have)


def _waits_in_switch(cell: Cell) -> bool:
    """Whether packets wait for the bottleneck in the memory of a switch, where nothing measures their times."""
    return any(leaves_switch(cell.plan.typed, link.id) for link in window(CellData(cell)).links)


def _listed(run: Run) -> list[Mapping[str, str]]:
    """Factor values of the cells in the manifest, in the order of the sweep, and of the cells that exist."""
    listed = [c.get("factors", {}) for c in run.intended.get("cells", ()) if isinstance(c, Mapping)]
    return [*listed, *(cell.factors for cell in run.cells)]


def _factors(run: Run) -> tuple[Factor, ...]:
    values: dict[str, dict[str, None]] = {}
    for factors in _listed(run):
        for name, value in factors.items():
            if name in run.factors:
                values.setdefault(str(name), {})[str(value)] = None
    return tuple(_factor(name, list(found)) for name, found in values.items())


def _factor(name: str, values: Sequence[str]) -> Factor:
    parsed = [_number(v) for v in values]
    bases = {p[1] for p in parsed if p is not None}
    if any(p is None for p in parsed) or len(bases) != 1:
        ordered = values if len(values) < 20 else sorted(values, key=natural_key)
        return Factor(name, tuple(ordered), None, "")
    pairs = sorted((p[0], v) for p, v in zip(parsed, values, strict=True) if p is not None)
    return Factor(name, tuple(v for _, v in pairs), tuple(n for n, _ in pairs), bases.pop())


def _number(text: str) -> tuple[float, str] | None:
    """A factor value as a number and its base unit; a share of the BDP is a number, too."""
    share = text.strip().lower().removesuffix("bdp")
    quantity = parse_quantity(share) if share != text.strip().lower() else parse_quantity(text)
    if quantity is None:
        return None
    if share != text.strip().lower():
        return quantity.value, "BDP"
    base = {RATE: "bit/s", TIME: "s", SIZE: "bytes"}.get(quantity.dimension, "")
    return quantity.value / (8 if base == "bytes" else 1), base
