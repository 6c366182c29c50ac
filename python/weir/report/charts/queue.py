"""Bytes waiting at the bottlenecks."""

from __future__ import annotations

import polars as pl

from weir.report._text import greatest, unit_for
from weir.report.charts._base import CellChart, Drawing, Medium
from weir.report.charts._changes import marked
from weir.report.charts._links import link_panels, link_rows, link_width
from weir.report.charts._series import scaled
from weir.report.downsample import aggregate, note
from weir.report.view import CellView

__all__ = ["CHART"]


@marked
def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    frame = link_rows(cell)
    if frame is None:
        return None
    width = link_width(cell, medium)
    waiting = pl.col("queue_bytes").cast(pl.Float64)
    values = {"low": waiting.min(), "mean": waiting.mean(), "high": pl.col("queue_max_bytes").cast(pl.Float64).max()}
    rows = aggregate(frame, values, by=["link"], width_ns=width)
    limits = {k.id: float(v) for k in cell.bottlenecks if (v := k.typed.queue.limit.bytes)}
    highest = greatest(rows["high"])
    # A limit far above all values would flatten the queue.
    shown = {k: v for k, v in limits.items() if v <= 4 * max(highest, 1.0)}
    unit = unit_for(max([highest, *shown.values()]), "bytes")
    text = f"Queue of {', '.join(k.name for k in cell.bottlenecks)}; at most {highest / unit.factor:.3g} {unit.label}."
    rows = scaled(rows, unit, ("low", "mean", "high"))
    said = note(width, cell.plan.interval_ns("links"))
    return link_panels(cell, medium, rows, "Queue", unit, limits=shown, alt_text=text, notes=said)


CHART = CellChart(
    name="queue",
    title="Queue at the bottleneck",
    section="Time series",
    needs=("links",),
    caption="IP bytes waiting in the queue before a link, without the packet in transmission: mean of the "
    "samples taken every measure.links (line), smallest sample and largest value at any instant (band); "
    "dashed: the queue's limit.",
    draw=_draw,
)
