"""A comparison as rows of text, for the terminal and the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weir.metrics import parse_reference
from weir.metrics.registry import UNIT
from weir.run.quantity import format_quantity, format_share

if TYPE_CHECKING:
    from weir.compare._comparison import Comparison

__all__ = ["DifferenceRow", "TraceRow", "difference_rows", "percent", "relative_text", "size_of", "trace_rows"]


@dataclass(frozen=True)
class DifferenceRow:
    """One metric in one cell: its value in each run, and their difference."""

    cell: int
    factors: tuple[str, ...]
    phase: str
    metric: str
    flow: str
    values: tuple[str, ...]
    """In the order of the runs; a dash for a missing value."""
    relative: str
    """Of the last run minus the first, and to the metric's floor where the first is below it; of several runs, the
    largest of any pair.
    """
    ratio: str
    interval: str
    """Of the relative difference, or that all repeats are equal; empty without one."""
    nearest: str
    """With three runs or more: the two closest runs, and their difference."""
    size: float
    """Absolute relative difference, for order and colour; ``nan`` if undefined."""
    significant: bool | None
    """Whether the interval excludes zero; ``None`` without one."""
    steady: bool
    """Whether the interval is narrower than a hundredth of the difference: the repeats hardly differ."""
    floored: bool
    """Whether the difference is relative to the metric's floor."""


@dataclass(frozen=True)
class TraceRow:
    """One series in one cell, and the distance of two runs."""

    cell: int
    factors: tuple[str, ...]
    trace: str
    member: str
    runs: str
    distance: str
    value_distance: str
    noise: str
    size: float
    """Of the distance of values, for the colour: a series that is only shifted in time is no alarm."""


def percent(value: float | None) -> str:
    """Formats a relative difference for people: ``+3.1 %``."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(100 * value)
    if 0 < size < 0.005:
        return "<0.01 %"
    text = f"{100 * value:+.0f}" if size >= 99.5 else f"{100 * value:+.2g}" if size < 9.95 else f"{100 * value:+.3g}"
    return ("0 %" if value == 0 or float(text) == 0 else f"{text} %").replace("-", "−")


def size_of(row: Mapping[str, Any]) -> float:
    """The absolute relative difference of a row of ``Comparison.differences``; 0 if it is negligible."""
    if row["relative"] is None:
        return math.nan
    return 0.0 if row["negligible"] else abs(float(row["relative"]))


def relative_text(row: Mapping[str, Any]) -> str:
    """The relative difference of a row of ``Comparison.differences``, and the floor where it is relative to that."""
    text = percent(row["relative"])
    if not _floored(row):
        return text
    floor = _value(row["floor"], row["unit"], censored=False, share=parse_reference(row["metric"]).percent)
    return f"both below {floor}" if row["negligible"] else f"{text} of {floor}"


def _floored(row: Mapping[str, Any]) -> bool:
    return bool(row["relative"]) and abs(row["a_value"]) < row["floor"]


def difference_rows(comparison: Comparison) -> list[DifferenceRow]:
    """The differences, one row per measured quantity, for any number of runs.

    Significant differences come first, the largest first; then those whose interval includes zero; equal values last.
    """
    frame = comparison.differences
    keys = ["cell", "metric", "phase", "flow"]
    rows = []
    for part in frame.partition_by(keys, maintain_order=True):
        pairs = part.to_dicts()
        rows.append(_difference(comparison, pairs))

    def rank(row: DifferenceRow) -> tuple[bool, float]:
        return row.size > 0 and row.significant is not False, -1.0 if math.isnan(row.size) else row.size

    return sorted(rows, key=rank, reverse=True)


def _difference(comparison: Comparison, pairs: Sequence[Mapping[str, Any]]) -> DifferenceRow:
    worst = max(pairs, key=lambda row: -1.0 if math.isnan(size_of(row)) else size_of(row))
    values: dict[str, float | None] = {}
    for row in pairs:
        values |= {row["a"]: row["a_value"], row["b"]: row["b_value"]}
    unit = worst["unit"]
    censored = any(row["censored"] for row in pairs)
    share = parse_reference(worst["metric"]).percent
    return DifferenceRow(
        cell=worst["cell"],
        factors=tuple(comparison.groups[worst["cell"]].shown.values()),
        phase=worst["phase"] or "",
        metric=worst["metric"],
        flow=worst["flow"] or "",
        values=tuple(_value(values.get(label), unit, censored=censored, share=share) for label in comparison.labels),
        relative=relative_text(worst),
        ratio=_ratio(worst["ratio"]),
        interval=_interval(worst),
        nearest=_nearest(pairs) if len(pairs) > 1 else "",
        size=size_of(worst),
        significant=_significant(worst),
        steady=_steady(worst),
        floored=_floored(worst),
    )


def _value(value: float | None, unit: str, *, censored: bool, share: bool) -> str:
    if value is None:
        return "–"
    if share:
        return ("≥ " if censored else "") + format_share(value)
    scale, dimension = UNIT.get(unit, (1.0, (0, 0)))
    return ("≥ " if censored else "") + format_quantity(value * scale, dimension)


def _ratio(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "–"
    return "∞" if math.isinf(value) else f"{value:.3g}"


def _significant(row: Mapping[str, Any]) -> bool | None:
    """Whether the interval of the difference excludes zero, or there is no difference; ``None`` without one."""
    if row["ci_low"] is None:
        return None
    return bool(row["ci_low"] == row["ci_high"] or not row["ci_low"] <= 0 <= row["ci_high"])


def _steady(row: Mapping[str, Any]) -> bool:
    if row["ci_low"] is None:
        return False
    middle = (row["ci_low"] + row["ci_high"]) / 2
    return bool(row["ci_high"] - row["ci_low"] <= abs(middle) / 100)


def _interval(row: Mapping[str, Any]) -> str:
    if row["ci_low"] is None:
        return ""
    if row["ci_low"] == row["ci_high"]:
        pairs = f"{row['n_a']} pairs" if row["interval"] == "paired" else "repeats"
        return f"the same in all {pairs}"
    if row["relative_low"] is None or row["relative_high"] is None:
        return ""
    return f"{percent(row['relative_low'])} to {percent(row['relative_high'])}"


def _nearest(pairs: Sequence[Mapping[str, Any]]) -> str:
    known = [row for row in pairs if not math.isnan(size_of(row))]
    if not known:
        return "–"
    best = min(known, key=size_of)
    return f"{best['a']} and {best['b']} ({relative_text(best)})"


def trace_rows(comparison: Comparison) -> list[TraceRow]:
    """The distances of time series, the largest first."""
    frame = comparison.traces.sort("distance", descending=True, nulls_last=True, maintain_order=True)
    return [
        TraceRow(
            cell=row["cell"],
            factors=tuple(comparison.groups[row["cell"]].shown.values()),
            trace=row["trace"],
            member=row["member"] or "all flows",
            runs=f"{row['a']}, {row['b']}",
            distance=_share(row["distance"]),
            value_distance=_share(row["value_distance"]),
            noise=_share(row["noise"]) if row["noise"] is not None else "",
            size=row["value_distance"],
        )
        for row in frame.iter_rows(named=True)
    ]


def _share(value: float | None) -> str:
    return percent(value).removeprefix("+")
