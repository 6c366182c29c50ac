"""Reduces an executed cell to what is stored of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from weir.metrics import series
from weir.metrics.completion import completed
from weir.metrics.expect import Expectation, Wanted
from weir.metrics.window import CellData, window
from weir.run import Cell, Run
from weir.scenario import Scenario
from weir.study.claims._papers import Drawn, Recorded

__all__ = ["checks_of", "drawn_of", "needed_names", "skeleton", "wanted_drawings", "wanted_of"]

_DIGITS = 4
_TIMES = "completion"
_TRANSFERS = "transfers"
"""The drawing of a cell with transfers one after the other: when each ended, and how long it took."""
_SEQUENCE = "sequence"
"""The drawing of a cell with a trace: numbers of packets at their receiver."""


def skeleton(scenario: Scenario) -> Run:
    """The run of all cells of ``scenario``, without tables: the sweep on which checks are evaluated."""
    cells = [Cell(cell.id, Path(), cell.factors, cell.repeat, {}) for cell in scenario.cells()]
    return Run(Path(), cells, {"stored": True}, ())


def checks_of(scenario: Scenario, recorded: Recorded | None) -> list[Expectation]:
    """The claims of ``scenario``, and the values of its figures in the form of checks."""
    extra = () if recorded is None else recorded.metrics
    claims = [Expectation(e.check, e.claim, e.source, e.where) for e in scenario.expect]
    return [*claims, *(Expectation(f"{metric} >= 0") for metric in extra)]


def wanted_of(run: Run, scenario: Scenario, recorded: Recorded | None) -> Wanted:
    """What claims and figures need of each cell of ``run``, which is the `skeleton` of ``scenario``."""
    return Wanted(run, checks_of(scenario, recorded))


def needed_names(wanted: Wanted, cell: Cell, recorded: Recorded | None) -> set[str]:
    """Names of the values and drawings that are stored of ``cell``."""
    return wanted.names(cell) | {one.name for one in wanted_drawings(cell, recorded)}


def wanted_drawings(cell: Cell, recorded: Recorded | None) -> list[Drawn]:
    """The drawings that are kept of ``cell``."""
    if recorded is None:
        return []
    return [
        one
        for one in recorded.drawn
        if all(cell.factors.get(name) in values for name, values in one.where.items())
        and (cell.repeat == 0 or one.metric == _TIMES)
    ]


def drawn_of(cell: Cell, recorded: Recorded | None) -> dict[str, Any]:
    """The drawings of ``cell`` by name; see `_over_time` and `_distribution`."""
    run = Run(cell.path, [cell], {"stored": True}, ())
    return {one.name: _drawn(run, one) for one in wanted_drawings(cell, recorded)}


def _drawn(run: Run, one: Drawn) -> dict[str, Any]:
    if one.metric == _TIMES:
        _, times, _ = completed(window(CellData(run.cells[0]), None, None, False))
        return {"times": [_short(value) for value in sorted(times.tolist())]}
    if one.metric == _TRANSFERS:
        return _transfers(run.cells[0])
    if one.metric == _SEQUENCE:
        return _sequence(run.cells[0])
    return _distribution(run, one) if one.bins else _over_time(run, one)


def _transfers(cell: Cell) -> dict[str, Any]:
    """Of each completed transfer, in the order of their ends: ``end_s`` since the beginning, ``took_s``, ``bytes``."""
    _, times, table = completed(window(CellData(cell), None, None, False))
    frame = table.with_columns(took_s=pl.Series(times)).sort("end_ns")
    ends = [round(value / 1e9, 6) for value in frame["end_ns"]]
    return {"end_s": ends, "took_s": [_short(value) for value in frame["took_s"]], "bytes": frame["bytes"].to_list()}


def _sequence(cell: Cell) -> dict[str, Any]:
    """``flows``: for each the instants of its received packets, us since the start of the trace, and their numbers."""
    types = {"link": pl.Int64, "sack": pl.String, "flags": pl.String}
    log = pl.read_csv(cell.path / "packets.csv", schema_overrides=types)
    packets = log.filter(pl.col("event") == "received", pl.col("from") == "sender")
    begin = log["time_ns"].min()
    flows = {}
    for index, flow in enumerate(cell.plan.flows):
        own = packets.filter(pl.col("flow") == index)
        times = [round((time - begin) / 1000, 1) for time in own["time_ns"]]
        flows[flow.name] = {"time_us": times, "number": own["number"].to_list()}
    return {"flows": flows}


def _over_time(run: Run, drawn: Drawn) -> dict[str, Any]:
    """``end_s``, and by flow (or ``total``) the means of ``points`` equal intervals; null where there is no value."""
    frame = series(run, drawn.metric)
    end_ns = int(run.cells[0].plan.end_ns)
    label = next((name for name in ("flow", "node", "link") if name in frame.columns), None)
    curves = {}
    groups = [("total", frame)] if label is None else [(key[0], part) for key, part in _groups(frame, label)]
    for name, part in groups:
        times = part["time_ns"].to_numpy().astype(np.float64)
        values = part["value"].to_numpy().astype(np.float64)
        curves[str(name)] = _binned(times, values / drawn.scale, end_ns, drawn.points)
    return {"end_s": end_ns / 1e9, "curves": curves}


def _groups(frame: Any, label: str) -> list[tuple[tuple[Any, ...], Any]]:
    return list(frame.group_by(label, maintain_order=True))


def _binned(times: Any, values: Any, end_ns: int, points: int) -> list[float | None]:
    fine = np.isfinite(values)
    # An interval belongs to the bin in which it ends; its end is inclusive.
    places = np.clip(np.ceil(times[fine] / end_ns * points).astype(int) - 1, 0, points - 1)
    sums = np.bincount(places, values[fine], points)
    counts = np.bincount(places, minlength=points)
    return [_short(sums[i] / counts[i]) if counts[i] else None for i in range(points)]


def _distribution(run: Run, drawn: Drawn) -> dict[str, Any]:
    """``top``, the upper end, and ``shares``: the share of all intervals of all flows in each bin, in per mille."""
    top = drawn.top or min(link.rate_bps for link in run.cells[0].plan.links) / drawn.scale
    values = series(run, drawn.metric)["value"].drop_nulls().to_numpy().astype(np.float64) / drawn.scale
    counts, _ = np.histogram(np.minimum(values, top * (1 - 1e-12)), drawn.bins, (0, top))
    return {"top": top, "shares": [_short(1000 * n / max(len(values), 1)) for n in counts]}


def _short(value: float) -> float | int:
    """Rounds to the digits that a drawing shows."""
    if value == 0 or not math.isfinite(value):
        return 0
    rounded = round(value, _DIGITS - 1 - math.floor(math.log10(abs(value))))
    return int(rounded) if rounded == int(rounded) else rounded
