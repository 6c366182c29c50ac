"""The input of a metric function: one cell, some of its flows, and a window of time.

This module alone defines the semantics that all metrics share:

- a phase is ``from_ns`` inclusive to ``to_ns`` exclusive; an interval that is not wholly inside is left out;
- a flow counts only while it is active: from its start until its source stops (``stop_ns``), its last transfer
  completes, or the run ends; intervals not wholly inside are left out;
- an aggregate over flows takes every interval of the window (without a phase: from the first start to the last end),
  however long a flow was active in it, even if none was;
- an interval in which nothing passed a link has no row in ``links``: it counts with zeros.

Each column of a cell's tables is read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from weir.metrics.errors import MetricError, nearest
from weir.metrics.results import Floats, Ints, Series
from weir.metrics.selection import select_flows, select_links
from weir.plan import TransfersSource, class_groups, queue_classes, recorded_links
from weir.run import TABLES, Cell, Flow, Link, Plan
from weir.run.bounds import check_times, latest_ns
from weir.run.parquet import decoding
from weir.run.plan import MEASURE

__all__ = ["CellData", "Grouped", "Window", "class_members", "widths_ns", "window"]

_NULLABLE = frozenset(column.name for column in TABLES["links"].columns if column.nullable)
_OF_LINKS = frozenset({"links", "classes"})


class Grouped:
    """Columns of a table, sorted by a key (``flow`` or ``link``) and then by time."""

    def __init__(self, cell: Cell, table: str, key: str, ids: frozenset[int] | None, of_class: int | None) -> None:
        self._file = cell.path / f"{table}.parquet"
        scan = cell.table(table)
        scan = scan if of_class is None else scan.filter(pl.col("class") == of_class)
        self._scan = scan if ids is None else scan.filter(pl.col(key).is_in(sorted(ids)))
        with decoding(self._file):
            head = self._scan.select(key, "time_ns").collect()
        check_times(self._file, head["time_ns"], latest_ns(cell.plan, table))
        keys = head[key].to_numpy()
        times = head["time_ns"].to_numpy().astype(np.int64)
        self._order = _stable_order(keys, times)
        if self._order is not None:
            keys, times = keys[self._order], times[self._order]
        self._keys = keys
        self.times_ns: Ints = times
        self._columns: dict[str, Floats] = {}

    def rows(self, key: int) -> slice:
        """The rows of one flow or link."""
        lo, hi = np.searchsorted(self._keys, [key, key + 1])
        return slice(int(lo), int(hi))

    def column(self, name: str) -> Floats:
        """One column as floats, null as nan; shape (rows,)."""
        if name not in self._columns:
            with decoding(self._file):
                values = self._scan.select(pl.col(name).cast(pl.Float64)).collect()[name].to_numpy()
            self._columns[name] = values if self._order is None else values[self._order]
        return self._columns[name]


def _stable_order(keys: Ints, times: Ints) -> Ints | None:
    """The permutation that sorts by key, then by time; ``None`` if the rows are sorted already."""
    if len(keys) == 0:
        return None
    step = np.diff(keys.astype(np.int64))
    if np.all((step > 0) | ((step == 0) & (np.diff(times) >= 0))):
        return None
    if np.all(np.diff(times) >= 0):
        # 16-bit keys sort by radix, in one pass over the rows
        return np.argsort(keys.astype(np.uint16) if keys.max() < 65_536 else keys, kind="stable")
    return np.lexsort((times, keys))


class CellData:
    """A cell and the columns read from it so far."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.plan: Plan = cell.plan
        self._grouped: dict[tuple[str, frozenset[int] | None, int | None], Grouped] = {}

    def grouped(self, table: str, ids: Sequence[int], of_class: int | None = None) -> Grouped:
        """Rows of ``table`` (one with intervals) that belong to ``ids``; those of one class in table ``classes``.

        Raises:
            MetricError: the table was not recorded.
            RunError: the table cannot be read.
        """
        if self.plan.interval_ns(table) == 0:
            raise MetricError(
                f"is computed from table {table!r}, which this run did not record (set `measure.{MEASURE[table]}`)"
            )
        if not self.cell.has(table):
            raise MetricError(
                f"is computed from table {table!r}, which this cell lacks: the method that executed it does not "
                "measure that"
            )
        of_links = table in _OF_LINKS
        number = len(self.plan.links if of_links else self.plan.flows)
        some = None if len(ids) == number else frozenset(ids)
        if (table, some, of_class) not in self._grouped:
            key = "link" if of_links else "flow"
            self._grouped[table, some, of_class] = Grouped(self.cell, table, key, some, of_class)
        return self._grouped[table, some, of_class]

    @cached_property
    def transfers(self) -> pl.DataFrame:
        """Table ``flows``: one row per transfer."""
        return self._all("flows", "start_ns", "established_ns", "end_ns")

    @cached_property
    def pages(self) -> pl.DataFrame:
        """The objects of all pages of the plan.

        Columns ``owner`` (the user's first flow in the plan), ``page``, and ``flow`` and ``transfer`` of the object.
        """
        owners: dict[tuple[str, int], int] = {}
        rows = [
            (owners.setdefault((flow.group, flow.index), flow.id), page, flow.id, transfer)
            for flow in self.plan.flows
            for transfer, page in enumerate(flow.pages)
            if page is not None
        ]
        schema = {"owner": pl.UInt32, "page": pl.UInt32, "flow": pl.UInt32, "transfer": pl.UInt32}
        return pl.DataFrame(rows, schema=schema, orient="row")

    @cached_property
    def ports(self) -> pl.DataFrame:
        """Table ``ports``: one row per interval and pair of ports of a switch.

        Raises:
            MetricError: it was not recorded.
        """
        if self.plan.interval_ns("ports") == 0:
            raise MetricError("is computed from table 'ports', which this run did not record (set `measure.links`)")
        if not self.cell.has("ports"):
            raise MetricError("is computed from table 'ports', which methods write of plans with a switch")
        return self._all("ports", "time_ns")

    @cached_property
    def processor(self) -> pl.DataFrame:
        """Table ``processor``: one row per process and interval.

        Raises:
            MetricError: it was not recorded.
        """
        if self.plan.interval_ns("processor") == 0:
            raise MetricError(
                "is computed from table 'processor', which this run did not record (set `measure.goodput`)"
            )
        if not self.cell.has("processor"):
            raise MetricError(
                "is computed from table 'processor', which only methods in real time write: elsewhere processor time "
                "says nothing of a host"
            )
        return self._all("processor", "time_ns")

    @cached_property
    def events(self) -> pl.DataFrame:
        """Table ``events``, with ``kind`` as a string."""
        return self._all("events", "time_ns").with_columns(pl.col("kind").cast(pl.String))

    def _all(self, table: str, *instants: str) -> pl.DataFrame:
        file = self.cell.path / f"{table}.parquet"
        scan = self.cell.table(table)
        with decoding(file):
            found = scan.collect()
        for name in instants:
            check_times(file, found[name], latest_ns(self.plan, table))
        return found

    @cached_property
    def flow_ends_ns(self) -> Ints:
        """Time at which each flow stops being active; shape (flows,)."""
        ends = np.full(len(self.plan.flows), self.plan.end_ns, dtype=np.int64)
        last = self.transfers.group_by("flow").agg(
            pl.col("end_ns").max(), pl.col("end_ns").is_null().any().alias("open"), pl.len().alias("count")
        )
        done = {row["flow"]: row for row in last.iter_rows(named=True)}
        for flow in self.plan.flows:
            row = done.get(flow.id)
            if flow.stop_ns is not None:
                ends[flow.id] = min(ends[flow.id], flow.stop_ns)
            if flow.kind not in {"transfers", "command"} or not row or row["open"]:
                continue
            # A program is one transfer; it is over when the program exits.
            source = flow.typed.source
            count = len(source.transfers) if isinstance(source, TransfersSource) else 1
            if row["count"] == count or flow.stop_ns is not None:
                ends[flow.id] = min(self.plan.end_ns, row["end_ns"])
        return ends


@dataclass(frozen=True)
class Window:
    """One cell, the selected flows, the selected links (if any), and a window of time."""

    data: CellData
    flows: tuple[Flow, ...]
    chosen_links: tuple[Link, ...]
    phase: str | None
    from_ns: int
    to_ns: int

    @property
    def plan(self) -> Plan:
        """The plan of the cell."""
        return self.data.plan

    @property
    def flow_ids(self) -> list[int]:
        """Indices of the selected flows, in the order of the plan."""
        return [flow.id for flow in self.flows]

    def span(self, flow: Flow) -> tuple[int, int]:
        """The part of the window in which the flow is active; empty if the end is not after the beginning."""
        return max(self.from_ns, flow.start_ns), min(self.to_ns, int(self.data.flow_ends_ns[flow.id]))

    @property
    def active_flows(self) -> tuple[Flow, ...]:
        """The selected flows that are active at some time in the window."""
        return tuple(flow for flow in self.flows if self.span(flow)[0] < self.span(flow)[1])

    @property
    def whole_span(self) -> tuple[int, int]:
        """The window; without a phase, from the first start to the last end of the selected flows."""
        if self.phase is not None or not self.flows:
            return self.from_ns, self.to_ns
        spans = [self.span(flow) for flow in self.flows]
        return min(s[0] for s in spans), max(s[1] for s in spans)

    @property
    def links(self) -> tuple[Link, ...]:
        """The selected links, else the bottleneck of the selected flows.

        The bottleneck is the link named ``bottleneck`` if one of the flows crosses it, else its other direction
        ``bottleneck.reverse``. Without either, it is the slowest of the links that the most flows cross; of several,
        the first in the plan. If flows of both directions are selected, only those from source to sink count.
        """
        if self.chosen_links:
            return self.chosen_links
        crossed = [link for flow in self.one_way for link in flow.path]
        if not crossed:
            return ()
        for name in ("bottleneck", "bottleneck.reverse"):
            named = [link for link in self.plan.links if link.name == name and link.id in crossed]
            if named:
                return (named[0],)
        return (
            min((self.plan.links[i] for i in set(crossed)), key=lambda x: (-crossed.count(x.id), x.rate_bps, x.id)),
        )

    @property
    def one_way(self) -> tuple[Flow, ...]:
        """The selected flows from source to sink; all of them if every flow goes from sink to source."""
        return tuple(flow for flow in self.flows if not flow.reverse) or self.flows

    @property
    def nodes(self) -> list[list[int]]:
        """The selected flows by node, as lists of flow indices: parallel streams have the same group and number."""
        found: dict[tuple[str, int], list[int]] = {}
        for flow in self.flows:
            found.setdefault((flow.group, flow.index), []).append(flow.id)
        return list(found.values())

    def intervals(
        self, table: str, key: int, from_ns: int, to_ns: int, ids: Sequence[int], of_class: int | None = None
    ) -> tuple[slice, Ints, Floats]:
        """Rows of one flow or link whose interval lies within ``from_ns`` to ``to_ns``: rows, ends, widths in s."""
        grouped = self.data.grouped(table, ids, of_class)
        rows = grouped.rows(key)
        ends = grouped.times_ns[rows]
        step = self.plan.interval_ns(table)
        widths = widths_ns(ends, step)
        inside = np.flatnonzero((ends - widths >= from_ns) & (ends <= to_ns) & (widths >= step / 2))
        if len(inside) == 0:
            return slice(rows.start, rows.start), ends[:0], np.zeros(0)
        first, last = int(inside[0]), int(inside[-1]) + 1
        return slice(rows.start + first, rows.start + last), ends[first:last], widths[first:last] / 1e9

    def rates(self, column: str, whole: bool = False) -> Series:
        """Bit/s of each flow in each interval of ``goodput``; ``column`` counts bytes.

        Includes intervals in which the flow is active; with ``whole``, all intervals of :attr:`whole_span`.
        """
        times, values = [], []
        for flow in self.flows:
            begin, end = self.whole_span if whole else self.span(flow)
            rows, ends, widths = self.intervals("goodput", flow.id, begin, end, self.flow_ids)
            counted = self.data.grouped("goodput", self.flow_ids).column(column)[rows]
            times.append(ends)
            values.append(8.0 * counted / widths)
        return Series("flow", self.flow_ids, times, values)

    def ends(self, table: str) -> Ints:
        """Ends of all intervals of :attr:`whole_span`, with or without a row; empty if no flow is active in it."""
        begin, end = self.whole_span
        step = self.plan.interval_ns(table)
        if not self.active_flows:
            return np.zeros(0, dtype=np.int64)
        return np.arange(-(-begin // step) + 1, end // step + 1, dtype=np.int64) * step

    def samples(self, column: str, scale: float = 1.0) -> Series:
        """A column of ``samples`` at the instants of the window in which each TCP flow is active."""
        times, values = [], []
        flows = [flow for flow in self.flows if flow.has_window]
        ids = [flow.id for flow in flows]
        grouped = self.data.grouped("samples", ids)
        for flow in flows:
            begin, end = self.span(flow)
            rows = grouped.rows(flow.id)
            lo, hi = np.searchsorted(grouped.times_ns[rows], [begin, max(begin, end)])
            part = slice(rows.start + int(lo), rows.start + int(hi))
            times.append(grouped.times_ns[part])
            values.append(grouped.column(column)[part] * scale)
        return Series("flow", ids, times, values)

    def link_intervals(self, *columns: str) -> list[tuple[Link, Ints, Floats, list[Floats]]]:
        """For each link: ends and widths (s) of the intervals of the window, and the columns asked for.

        Intervals in which nothing passed count with zeros, or with nan if a column may be null. A link that was not
        recorded has no interval.
        """
        ids = [link.id for link in self.links]
        return [(link, *self._link_rows(link, "links", ids, columns)) for link in self.links]

    def class_intervals(self, name: str, *columns: str) -> list[tuple[Link, Ints, Floats, list[Floats]]]:
        """As :meth:`link_intervals`, of the class ``name`` of each link's queue, or of the classes inside it together.

        Raises:
            MetricError: the queue of a link has no such class.
        """
        return [(link, *self._class_rows(link, name, columns)) for link in self.links]

    def _class_rows(self, link: Link, name: str, columns: Sequence[str]) -> tuple[Ints, Floats, list[Floats]]:
        asked = (*columns, "out_packets")
        parts = [self._link_rows(link, "classes", [link.id], asked, k) for k in class_members(link, name)]
        if len(parts) == 1:
            ends, widths, values = parts[0]
            return ends, widths, values[:-1]
        return _together(parts, columns)

    def _link_rows(
        self, link: Link, table: str, ids: Sequence[int], columns: Sequence[str], of_class: int | None = None
    ) -> tuple[Ints, Floats, list[Floats]]:
        begin, end = self.whole_span
        rows, ends, widths = self.intervals(table, link.id, begin, end, ids, of_class)
        grouped = self.data.grouped(table, ids, of_class)
        values = [grouped.column(c)[rows] for c in columns]
        if link.id in recorded_links(self.plan.typed):
            silent = np.setdiff1d(self.ends(table), ends)
            order = np.argsort(np.concatenate([ends, silent]), kind="stable")
            ends = np.concatenate([ends, silent])[order]
            widths = np.concatenate([widths, np.full(len(silent), self.plan.interval_ns(table) / 1e9)])[order]
            empty = [np.full(len(silent), np.nan if c in _NULLABLE else 0.0) for c in columns]
            values = [np.concatenate([v, e])[order] for v, e in zip(values, empty, strict=True)]
        return ends, widths, values


def _together(
    parts: Sequence[tuple[Ints, Floats, list[Floats]]], columns: Sequence[str]
) -> tuple[Ints, Floats, list[Floats]]:
    """The intervals of several classes as those of one: counts are added, means are weighted by the last column."""
    every = np.concatenate([ends for ends, _, _ in parts])
    ends, first, place = np.unique(every, return_index=True, return_inverse=True)
    widths = np.concatenate([widths for _, widths, _ in parts])[first]
    *own, packets = (np.concatenate(column) for column in zip(*(values for _, _, values in parts), strict=True))
    found: list[Floats] = []
    for name, values in zip(columns, own, strict=True):
        mean = name in _NULLABLE
        weights = np.where(np.isnan(values), 0.0, packets) if mean else np.ones(len(values))
        total = np.zeros(len(ends))
        np.add.at(total, place, np.nan_to_num(values) * weights)
        if mean:
            weight, known = np.zeros(len(ends)), np.full(len(ends), np.nan)
            np.add.at(weight, place, weights)
            total = np.divide(total, weight, out=known, where=weight > 0)
        found.append(total)
    return ends, widths, found


def widths_ns(ends_ns: Ints, step_ns: int) -> Ints:
    """The lengths of intervals of ``step_ns`` that end at ``ends_ns``; shape (intervals,).

    Before a gap, rows are missing; they were not merged into the next one.
    """
    widths = np.diff(ends_ns, prepend=ends_ns[0] - step_ns) if len(ends_ns) else ends_ns
    return np.where(widths > 1.5 * step_ns, step_ns, widths)


def class_members(link: Link, name: str) -> Sequence[int]:
    """The numbers of the classes that ``name`` means in ``link``'s queue: its own, or those of the classes inside it.

    Raises:
        MetricError: the queue has no such class.
    """
    known = [known for known, _ in queue_classes(link.typed.queue)]
    if name in known:
        return [known.index(name)]
    groups = {group.name: group.members for group in class_groups(link.typed.queue)}
    if name in groups:
        return groups[name]
    have = f"its classes are {', '.join(known)}" if known else "its queue has no classes"
    raise MetricError(f"link {link.name!r} has no class {name!r}; {have}.{nearest(name, [*known, *groups])}")


def window(data: CellData, phase: str | None = None, selector: str | None = None, link: bool = False) -> Window:
    """The window of a phase (``None``: the whole run) on the flows, or the links, that ``selector`` names.

    Raises:
        MetricError: the phase, flow or link does not exist.
    """
    plan = data.plan
    flows = select_flows(plan, None if link else selector)
    links = select_links(plan, selector) if link and selector else ()
    if phase is None:
        return Window(data, flows, links, None, 0, plan.end_ns)
    for candidate in plan.phases:
        if candidate.name == phase:
            return Window(data, flows, links, phase, candidate.from_ns, min(candidate.to_ns, plan.end_ns))
    have = [p.name for p in plan.phases]
    known = ", ".join(have) or "it has none"
    raise MetricError(f"no phase {phase!r} in this run ({known}).{nearest(phase, have)}")
