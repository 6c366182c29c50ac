"""The summary tables: metric by cell, with confidence intervals over repeats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from weir.metrics import MetricInfo, catalogue
from weir.metrics.selection import DIRECTIONS
from weir.metrics.statistics import student_t
from weir.report._text import Unit, count, greatest, metric_unit, number, unit_for
from weir.report.view import CellView, Factor, RunView

__all__ = [
    "SUMMARY",
    "Field",
    "Grid",
    "Part",
    "cell_tables",
    "field_of",
    "repeats_note",
    "summary_metrics",
    "summary_tables",
]

SUMMARY: tuple[str, ...] = (
    "goodput.mean",
    "goodput.aggregate.mean",
    "goodput.aggregate.max",
    "jain",
    "goodput.sd",
    "goodput.cov",
    "utilisation",
    "queue.delay",
    "link.loss",
    "rtt",
    "delay.mean",
    "delay.p95",
    "delay.jitter.mean",
    "retransmissions.rate",
    "timeouts.rate",
    "loss.synchronisation",
    "completion.mean",
    "completion.sd",
    "completion.cov",
    "completion.unfinished",
    "page.completion.mean",
    "page.completion.median",
    "page.completion.p95",
    "page.completion.p99",
    "page.unfinished",
)
"""Metrics of the summary, if a run has them."""

_OPEN = 2
_FEW_REPEATS = 4
_FEW = 8
"""Up to this many combinations are columns of one table."""


@dataclass(frozen=True)
class Field:
    """One field of a table."""

    text: str
    interval: str = ""
    numeric: bool = True


@dataclass(frozen=True)
class Part:
    """One table of a fold."""

    title: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Field, ...]], ...]


@dataclass(frozen=True)
class Grid:
    """A fold with one or several tables beside each other."""

    title: str
    note: str
    caption: str
    parts: tuple[Part, ...]
    open: bool = True
    wide: bool = False
    """Whether a table takes the whole width."""


Metric = tuple[str, MetricInfo | None, pl.DataFrame]
"""Name of a metric of the summary, its declaration, and its values."""


def summary_metrics(run: RunView) -> list[Metric]:
    """The metrics of the summary that have at least one value: name, declaration, values."""
    known = {info.name: info for info in catalogue()}
    found = []
    for name in SUMMARY:
        frame = run.summary(name)
        if not frame.is_empty() and frame["value"].is_not_null().any():
            info = next(
                (known[n] for n in sorted(known, key=len, reverse=True) if name == n or name.startswith(f"{n}.")), None
            )
            found += [(label, info, part) for label, part in _ways(name, frame)]
    return found


def _ways(name: str, frame: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    """A metric's values by direction, if there are two."""
    if "direction" not in frame.columns:
        return [(name, frame)]
    ways = [(way, frame.filter(pl.col("direction") == way)) for way in DIRECTIONS]
    return [(f"{name}, {way}", part) for way, part in ways if part["value"].is_not_null().any()]


def summary_tables(run: RunView) -> list[Grid]:
    """A matrix of the cells per metric and phase; with few combinations, all metrics in one table."""
    metrics = summary_metrics(run)
    if not run.swept:
        return [_single(run, metrics)] if metrics else []
    if len(run.combinations) <= _FEW:
        return [_beside(run, metrics)] if metrics else []
    return [_matrices(run, name, info, frame, k < _OPEN) for k, (name, info, frame) in enumerate(metrics)]


def cell_tables(run: RunView, cell: CellView) -> list[Grid]:
    """Metrics of one combination, and of its flows."""
    grids = []
    if run.swept:
        wanted = [pl.col(f.name) == cell.cell.factors.get(f.name) for f in run.factors]
        own = [(name, info, frame.filter(wanted)) for name, info, frame in summary_metrics(run)]
        own = [entry for entry in own if not entry[2].is_empty()]
        if own:
            grids.append(_single(run, own))
    return [*grids, *(grid for grid in (_flows(cell), _delays(cell)) if grid)]


def field_of(row: Mapping[str, object], unit: Unit) -> Field:
    """The value of a row of `weir.metrics.compute` in ``unit``, with its interval."""
    value, low, high = (row[c] for c in ("value", "ci_low", "ci_high"))
    if not isinstance(value, float):
        return Field("–")
    text = unit.text(value)
    if row.get("censored"):
        text = f"> {text}"
    if not isinstance(low, float) or not isinstance(high, float):
        return Field(text)
    return Field(text, _spread(value / unit.factor, low / unit.factor, high / unit.factor, text))


def _spread(value: float, low: float, high: float, text: str) -> str:
    """The interval around ``value``, with at most the decimals of ``text``.

    Half its width or, if it is cut at a bound (a share at 1) and so asymmetric, both ends.
    """
    if low == high:
        return "="
    decimals = len(text.partition(".")[2])
    least = 10.0**-decimals
    if abs((high - value) - (value - low)) > 1e-6 * (high - low):
        return f"[{low:.{decimals}f} {high:.{decimals}f}]"
    half = (high - low) / 2
    return f"± <{least:.{decimals}f}" if 0 < half < least / 2 else f"± {half:.{decimals}f}"


def _caption(info: MetricInfo | None, unit: Unit) -> str:
    said = [info.summary.rstrip(".") + "." if info else "", f"Formula: {info.formula}." if info else ""]
    said.append(f"In {unit.label}." if unit.label else "Without unit.")
    return " ".join(s for s in said if s)


def _single(run: RunView, metrics: Sequence[Metric]) -> Grid:
    phases = list(dict.fromkeys(p for _, _, frame in metrics for p in frame["phase"]))
    rows = []
    for name, _, frame in metrics:
        unit = metric_unit(name.split(",")[0], frame)
        by_phase = {row["phase"]: row for row in frame.iter_rows(named=True)}
        fields = [field_of(by_phase[p], unit) if p in by_phase else Field("–") for p in phases]
        label = f"{name} ({unit.label})" if unit.label else name
        rows.append((label, tuple(fields)))
    columns = tuple(p or "whole run" for p in phases)
    return Grid("Metrics", "", repeats_note(run), (Part("", "Metric", columns, tuple(rows)),))


def _beside(run: RunView, metrics: Sequence[Metric]) -> Grid:
    """All metrics as rows, the combinations as columns, one table per phase."""
    phases: list[str | None] = list(dict.fromkeys(p for _, _, frame in metrics for p in frame["phase"]))
    keys = [run.values(view) for view in run.combinations]
    shown = [[f.name for f in run.factors].index(f.name) for f in run.swept]
    columns = tuple(", ".join(key[i] for i in shown) for key in keys)
    parts = []
    for phase in phases:
        rows = []
        for name, _, frame in metrics:
            unit = metric_unit(name.split(",")[0], frame)
            part = frame.filter(pl.col("phase").eq_missing(pl.lit(phase, pl.String)))
            fields = {tuple(r[f.name] for f in run.factors): r for r in part.iter_rows(named=True)}
            values = tuple(field_of(fields[k], unit) if k in fields else Field("–") for k in keys)
            if any(v.text != "–" for v in values):
                rows.append((f"{name} ({unit.label})" if unit.label else name, values))
        parts.append(Part(phase or "", "Metric", columns, tuple(rows)))
    return Grid("Metrics", f"by {', '.join(f.name for f in run.swept)}", repeats_note(run), tuple(parts))


def repeats_note(run: RunView) -> str:
    """Says what the intervals of a table are."""
    if run.repeats == 1:
        return "One repeat: no confidence interval."
    return (
        f"± half of the 95 % interval over {run.counted.have} (Student's t), or [from to] if a bound of the metric "
        f"cuts it; =: the same in all repeats. {wide_interval(run.counted.least)}"
    ).strip()


def wide_interval(repeats: int) -> str:
    """Says what an interval over so few ``repeats`` is, if its ends may surprise; empty if they should not.

    Student's interval is one of the mean of a normal distribution, which has no bounds. It is not cut at a link's rate:
    a cut interval would look as if more had been measured.
    """
    if not 2 <= repeats <= _FEW_REPEATS:
        return ""
    factor = student_t(0.95, repeats - 1)
    return (
        f"With {repeats} repeats, an interval is ± {factor:.1f} standard errors wide, and its ends may lie beyond what "
        "is possible, such as a link's rate: it says how little so few repeats tell."
    )


def _matrices(run: RunView, name: str, info: MetricInfo | None, frame: pl.DataFrame, opened: bool) -> Grid:
    unit = metric_unit(name.split(",")[0], frame)
    across = run.axis or (run.series if len(run.swept) > 1 else None)
    downs = [f for f in run.swept if f is not across]
    phases: list[str | None] = list(dict.fromkeys(frame["phase"]))
    if across is None:
        parts = [_by_phase(run, frame, unit, phases)]
    else:
        parts = [
            _matrix(frame.filter(pl.col("phase").eq_missing(pl.lit(p, pl.String))), unit, downs, across, p)
            for p in phases
        ]
    note = ", ".join(s for s in (unit.label, f"by {', '.join(f.name for f in run.swept)}") if s)
    caption = f"{_caption(info, unit)} {repeats_note(run)}"
    return Grid(name, note, caption, tuple(parts), opened)


def _matrix(part: pl.DataFrame, unit: Unit, downs: Sequence[Factor], across: Factor, phase: str | None) -> Part:
    fields = {tuple(r[f.name] for f in (*downs, across)): r for r in part.iter_rows(named=True)}
    keys = list(dict.fromkeys(k[:-1] for k in sorted(fields, key=_order((*downs, across)))))
    rows = []
    for key in keys:
        values = [fields.get((*key, v)) for v in across.values]
        rows.append((", ".join(key) or "all", tuple(Field("–") if v is None else field_of(v, unit) for v in values)))
    corner = " · ".join([*(f.name for f in downs), f"{across.name} →"])
    return Part(phase or "", corner, across.values, tuple(rows))


def _order(factors: Sequence[Factor]) -> Callable[[tuple[str, ...]], tuple[int, ...]]:
    places = [{v: i for i, v in enumerate(f.values)} for f in factors]
    return lambda key: tuple(p.get(v, -1) for p, v in zip(places, key, strict=True))


def _by_phase(run: RunView, frame: pl.DataFrame, unit: Unit, phases: list[str | None]) -> Part:
    factor = run.swept[0]
    fields = {(r[factor.name], r["phase"]): r for r in frame.iter_rows(named=True)}
    rows = []
    for value in factor.values:
        row = [fields.get((value, p)) for p in phases]
        rows.append((value, tuple(Field("–") if r is None else field_of(r, unit) for r in row)))
    return Part("", factor.name, tuple(p or "whole run" for p in phases), tuple(rows))


_MAX_FLOWS = 250


def _flows(cell: CellView) -> Grid | None:
    frame = cell.table("flows")
    if frame is None:
        return None
    sums = [
        pl.col(c).sum()
        for c in ("delivered_bytes", "sent_packets", "retransmitted_packets", "lost_packets", "timeouts")
    ]
    done = pl.col("end_ns").is_not_null().sum().alias("done")
    found = frame.group_by("flow").agg(pl.len().alias("transfers"), done, *sums).sort("flow").collect()
    by_flow = {row["flow"]: row for row in found.iter_rows(named=True)}
    rows = []
    for flow in [f for f in cell.plan.flows if f.id in by_flow][:_MAX_FLOWS]:
        row = by_flow[flow.id]
        lost = 100 * row["lost_packets"] / row["sent_packets"] if row["sent_packets"] else None
        kind = f"{flow.protocol}, {flow.cc}" if flow.cc else flow.protocol
        texts = [
            number(flow.start_ns / 1e9, 4),
            f"{row['done']} of {row['transfers']}",
            number(row["delivered_bytes"] / 1e6, 4),
            count(row["retransmitted_packets"]),
            number(lost, 2),
            count(row["timeouts"]),
        ]
        rows.append((flow.name, (Field(kind, numeric=False), *map(Field, texts))))
    columns = (
        "Transport",
        "Start (s)",
        "Transfers done",
        "Delivered (MB)",
        "Retransmitted (packets)",
        "Lost (%)",
        "Timeouts",
    )
    more = len(by_flow) - len(rows)
    caption = "Of this repeat, whole run." + (
        f" {more} more flows are in the table `flows` of the run." if more > 0 else ""
    )
    return Grid("Flows", f"{len(by_flow)}", caption, (Part("", "Flow", columns, tuple(rows)),), False, True)


_DELAYS = ("delay.mean", "delay.p50", "delay.p95", "delay.p99", "delay.max", "delay.jitter.mean")


def _delays(cell: CellView) -> Grid | None:
    """One-way delays of each flow, one table per phase."""
    if cell.table("delay_bins") is None:
        return None
    found = [cell.by_flow(name) for name in _DELAYS]
    found = [frame for frame in found if "flow" in frame.columns and frame["value"].is_not_null().any()]
    if not found:
        return None
    frame = pl.concat(found)
    parts = []
    for phase in dict.fromkeys(frame["phase"]):
        part = frame.filter(pl.col("phase").eq_missing(pl.lit(phase, pl.String)), pl.col("value").is_not_null())
        unit = unit_for(greatest(part["value"]), "s")
        fields = {(r["flow"], r["metric"]): field_of(r, unit) for r in part.iter_rows(named=True)}
        names = [f.name for f in cell.tested if any(flow == f.name for flow, _ in fields)][:_MAX_FLOWS]
        rows = tuple((name, tuple(fields.get((name, m), Field("–")) for m in _DELAYS)) for name in names)
        columns = tuple(f"{m.removeprefix('delay.')} ({unit.label})" for m in _DELAYS)
        parts.append(Part(phase or "whole run", "Flow", columns, rows))
    caption = "One-way delays of the data packets, from host to host, and their jitter. " + repeats_note(cell.run)
    return Grid("One-way delays of each flow", "", caption, tuple(parts))
