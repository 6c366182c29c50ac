"""Round-trip time that the senders measure."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from weir.report import theme
from weir.report._text import greatest, least, quantity, unit_for
from weir.report.charts._base import CellChart, Drawing, Medium, Spec, named, shape, time_axis, tooltip, window
from weir.report.charts._changes import marked
from weir.report.charts._series import scaled
from weir.report.downsample import aggregate, bucket_ns
from weir.report.view import CellView

__all__ = ["CHART"]

_COLUMNS = ("low", "median", "high", "least")


@marked
def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    frame = cell.of_tested("samples")
    if frame is None:
        return None
    frame = frame.filter(pl.col("srtt_ns").is_not_null())
    width = bucket_ns(cell.end_ns, medium.buckets, cell.plan.interval_ns("samples"))
    rtt = pl.col("srtt_ns").cast(pl.Float64) / 1e9
    values = {
        "low": rtt.min(),
        "median": rtt.median(),
        "high": rtt.max(),
        "least": pl.col("min_rtt_ns").cast(pl.Float64).min() / 1e9,
    }
    rows = aggregate(frame, values, by=[], width_ns=width)
    if rows.is_empty():
        return None
    highest = greatest(rows["high"])
    unit = unit_for(highest, "s")
    rows = scaled(rows, unit, _COLUMNS)
    text = f"Smoothed round-trip time over {cell.end_s:g} s; at most {highest / unit.factor:.3g} {unit.label}."
    said = (f"Drawn in steps of {width / 1e9:.3g} s.",) if width > cell.plan.interval_ns("samples") else ()
    said = (*said, *_elsewhere(cell, least(rows["least"]) * unit.factor))
    return Drawing(_spec(medium, cell.end_s, unit.label), {"rtt": rows}, text, said)


_MUCH = 0.2
"""A delay of at least this share of the smallest round trip is worth a remark."""


def _elsewhere(cell: CellView, smallest_s: float) -> tuple[str, ...]:
    """Says in which phase most of the delay is not that of the bottleneck's queue."""
    means = {name: {r["phase"]: r["value"] for r in _whole(cell, name)} for name in ("rtt", "queue.delay")}
    for phase, rtt in means["rtt"].items():
        queued = means["queue.delay"].get(phase)
        if rtt is None or queued is None:
            continue
        above = rtt - smallest_s
        if above > max(_MUCH * smallest_s, 2 * queued):
            where = f"In phase {phase}" if phase else "In the mean"
            return (
                f"{where} it is {quantity(above, 's')} above the smallest, and the bottleneck's queue explains only "
                f"{quantity(queued, 's')}: packets wait elsewhere, such as in the queue of the sending host.",
            )
    return ()


def _whole(cell: CellView, metric: str) -> list[dict[str, Any]]:
    """The rows of a metric over all flows under test, by phase; empty if the run has it by direction."""
    found = cell.summary(metric)
    return [] if found.is_empty() or "direction" in found.columns else found.to_dicts()


@shape
def _spec(medium: Medium, end_s: float, unit: str) -> Spec:
    x = time_axis(end_s, medium)
    title = f"Smoothed RTT ({unit})"
    base = alt.Chart(named("rtt"))
    area = base.mark_area(opacity=0.25, color=theme.ACCENT, clip=True).encode(
        x=x, y=alt.Y("low:Q", title=title, scale=alt.Scale(zero=True, nice=True)), y2="high:Q"
    )
    shown = tooltip(medium, *((f"{c}:Q", f"{c}", ".4~g") for c in ("time_s", *_COLUMNS)))
    line = base.mark_line(color=theme.ACCENT, clip=True).encode(x=x, y="median:Q", tooltip=shown)
    smallest = base.mark_line(color=theme.SECOND, strokeDash=[4, 3], clip=True, strokeWidth=1).encode(x=x, y="least:Q")
    return alt.layer(area, line, smallest).properties(height=medium.height).add_params(*window(end_s, medium))


CHART = CellChart(
    name="rtt",
    title="Round-trip time",
    section="Time series",
    needs=("samples",),
    caption="Smoothed round-trip time (srtt) of the senders: median over all flows under test (line), smallest and "
    "largest (band); dashed: the smallest round-trip time that any of them has seen so far.",
    draw=_draw,
)
