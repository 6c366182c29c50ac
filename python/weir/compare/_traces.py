"""The time series of a cell that are compared: goodput, congestion window, and the bottleneck's queue.

Goodput is compared over the time in which either run has it; after the end of a run's flow it is 0. Congestion windows
and queues are states; windows are compared while both runs have one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from weir.compare._distance import grid, hold, rates, trace_distance, value_distance
from weir.metrics import MetricError
from weir.metrics.results import Floats, Ints
from weir.metrics.selection import select_flows
from weir.metrics.window import CellData, window
from weir.run import Cell, RunError
from weir.run.bounds import check_times, latest_ns
from weir.run.parquet import decoding

__all__ = ["TRACES", "Distance", "Trace", "apart", "mean_apart", "on_one_grid", "traces_of"]

TRACES = ("goodput.aggregate", "goodput", "cwnd", "queue")
"""The compared series, in the order of reports."""

_STALE = 3
"""Intervals after which a state is unknown because the connection was closed. Samples of real hosts may be late."""

Key = tuple[str, str | None]
"""A series, and its flow or link (``None``: all flows under test)."""


@dataclass(frozen=True)
class Trace:
    """One series of one cell."""

    name: str
    member: str | None
    unit: str
    kind: Literal["rate", "state", "sparse"]
    """``rate``: amounts of intervals; ``state``: samples; ``sparse``: 0 in every interval without a sample."""
    times_ns: Ints
    values: Floats
    step_ns: int
    floor: float = 0.0
    """In the unit of the values: distances of series with a smaller mean are relative to it."""

    @property
    def span_ns(self) -> tuple[int, int]:
        """From the beginning of the first interval to the end of the last."""
        return int(self.times_ns[0]) - self.step_ns, int(self.times_ns[-1])

    def at(self, instants_ns: Ints) -> Floats:
        """Values at evenly spaced instants (of a rate: in the intervals that end there)."""
        if self.kind == "rate":
            return rates(self.times_ns, self.values, self.step_ns, instants_ns)
        held = hold(self.times_ns, self.values, instants_ns)
        age = instants_ns - hold(self.times_ns, self.times_ns.astype(np.float64), instants_ns)
        if self.kind == "state":
            return np.where(age < _STALE * self.step_ns, held, np.nan)
        return np.where(age < 1.5 * self.step_ns, held, 0.0)


@dataclass(frozen=True)
class Distance:
    """The distances of two series; see :mod:`weir.compare._distance`."""

    trace: float
    values: float
    mean_a: float
    mean_b: float


def traces_of(cell: Cell) -> dict[Key, Trace]:
    """The recorded series of a cell."""
    found: dict[Key, Trace] = {}
    for part in (_goodput, _cwnd, _queue):
        try:
            for trace in part(cell):
                if len(trace.times_ns):
                    found[trace.name, trace.member] = trace
        except (RunError, MetricError):
            continue
    return found


def on_one_grid(a: Trace, b: Trace) -> tuple[Ints, Floats, Floats]:
    """Instants at the coarser of the two intervals, and both series at them."""
    (from_a, to_a), (from_b, to_b) = a.span_ns, b.span_ns
    both = a.kind == "state"
    begin, end = (max(from_a, from_b), min(to_a, to_b)) if both else (min(from_a, from_b), max(to_a, to_b))
    instants = grid(begin, end, max(a.step_ns, b.step_ns, 1))
    x, y = a.at(instants), b.at(instants)
    known = ~(np.isnan(x) | np.isnan(y))
    return instants[known], x[known], y[known]


def apart(a: Trace, b: Trace) -> Distance:
    """The distances of two series of the same kind; undefined (nan) without a common instant."""
    instants, x, y = on_one_grid(a, b)
    if len(instants) == 0:
        return Distance(np.nan, np.nan, np.nan, np.nan)
    return Distance(trace_distance(x, y, a.floor), value_distance(x, y, a.floor), float(np.mean(x)), float(np.mean(y)))


def mean_apart(pairs: Sequence[tuple[Trace, Trace]]) -> Distance | None:
    """Mean distances over several pairs of repeats, without undefined ones; ``None`` if all are undefined."""
    found = [d for d in (apart(a, b) for a, b in pairs) if not np.isnan(d.trace)]
    if not found:
        return None
    return Distance(*(float(np.mean([getattr(d, name) for d in found])) for name in Distance.__dataclass_fields__))


def _goodput(cell: Cell) -> Iterator[Trace]:
    flows = select_flows(cell.plan, None)
    step = cell.plan.interval_ns("goodput")
    if step == 0:
        return
    rows = cell.table("goodput").filter(pl.col("flow").is_in([flow.id for flow in flows]))
    frame = _collected(cell, "goodput", rows.select("flow", "time_ns", bits=pl.col("delivered_bytes") * 8.0))
    total = frame.group_by("time_ns").agg(pl.col("bits").sum()).sort("time_ns")
    yield Trace("goodput.aggregate", None, "bit/s", "rate", _times(total), total["bits"].to_numpy(), step)
    parts = frame.partition_by("flow", as_dict=True)
    for flow in flows:
        part = parts.get((flow.id,))
        if part is not None:
            yield Trace("goodput", flow.name, "bit/s", "rate", _times(part), part["bits"].to_numpy(), step)


def _cwnd(cell: Cell) -> Iterator[Trace]:
    flows = [flow for flow in select_flows(cell.plan, None) if flow.protocol == "tcp"]
    step = cell.plan.interval_ns("samples")
    if step == 0:
        return
    rows = cell.table("samples").filter(pl.col("flow").is_in([flow.id for flow in flows]))
    frame = _collected(cell, "samples", rows.select("flow", "time_ns", pl.col("cwnd").cast(pl.Float64)))
    parts = frame.partition_by("flow", as_dict=True)
    for flow in flows:
        part = parts.get((flow.id,))
        if part is not None:
            yield Trace("cwnd", flow.name, "packets", "state", _times(part), part["cwnd"].to_numpy(), step)


def _queue(cell: Cell) -> Iterator[Trace]:
    step = cell.plan.interval_ns("links")
    links = window(CellData(cell)).links
    if step == 0 or not links:
        return
    rows = cell.table("links").filter(pl.col("link") == links[0].id)
    frame = _collected(cell, "links", rows.select("time_ns", pl.col("queue_bytes").cast(pl.Float64)))
    packet = float(links[0].mtu_bytes)
    yield Trace("queue", links[0].name, "B", "sparse", _times(frame), frame["queue_bytes"].to_numpy(), step, packet)


def _collected(cell: Cell, table: str, rows: pl.LazyFrame) -> pl.DataFrame:
    """The rows by time; by flow first, if there are several."""
    file = cell.path / f"{table}.parquet"
    with decoding(file):
        frame = rows.collect()
    check_times(file, frame["time_ns"], latest_ns(cell.plan, table))
    return frame.sort([name for name in ("flow", "time_ns") if name in frame.columns])


def _times(frame: pl.DataFrame) -> Ints:
    return frame["time_ns"].to_numpy().astype(np.int64)
