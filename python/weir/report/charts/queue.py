"""Bytes waiting at the bottlenecks."""

from __future__ import annotations

import polars as pl

from weir.plan import leaves_switch
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
    frame = _with_memories(cell, link_rows(cell))
    if frame is None:
        return None
    width = link_width(cell, medium)
    waiting = pl.col("queue_bytes").cast(pl.Float64)
    values = {"low": waiting.min(), "mean": waiting.mean(), "high": pl.col("queue_max_bytes").cast(pl.Float64).max()}
    rows = aggregate(frame, values, by=["link"], width_ns=width)
    held = [k.name for k in cell.bottlenecks if leaves_switch(cell.plan.typed, k.id)]
    limits = {k.id: float(v) for k in cell.bottlenecks if k.name not in held and (v := k.typed.queue.limit.bytes)}
    highest = greatest(rows["high"])
    # A limit far above all values would flatten the queue.
    shown = {k: v for k, v in limits.items() if v <= 4 * max(highest, 1.0)}
    unit = unit_for(max([highest, *shown.values()]), "bytes")
    text = f"Queue of {', '.join(k.name for k in cell.bottlenecks)}; at most {highest / unit.factor:.3g} {unit.label}."
    rows = scaled(rows, unit, ("low", "mean", "high"))
    said = note(width, cell.plan.interval_ns("links"))
    if held:
        said += (f"In the memory of the switch, for {', '.join(held)}: the band ends at the largest sample.",)
    return link_panels(cell, medium, rows, "Queue", unit, limits=shown, alt_text=text, notes=said)


def _with_memories(cell: CellView, rows: pl.LazyFrame | None) -> pl.LazyFrame | None:
    """``rows`` of table ``links``, with what waits for a link out of a switch in the memory of the switch.

    ``None`` without table ``ports``, if packets wait there.
    """
    held = [k.id for k in cell.bottlenecks if leaves_switch(cell.plan.typed, k.id)]
    if rows is None or not held:
        return rows
    ports = cell.table("ports")
    if ports is None:
        return None
    own = ports.filter(pl.col("output").is_in(held)).group_by("time_ns", link=pl.col("output"))
    waiting = own.agg(pl.col("queue_bytes").sum().alias("held"))
    value = pl.when(pl.col("link").is_in(held)).then(pl.col("held").fill_null(0))
    both = rows.join(waiting, on=["time_ns", "link"], how="left")
    return both.with_columns(
        queue_bytes=value.otherwise(pl.col("queue_bytes")), queue_max_bytes=value.otherwise(pl.col("queue_max_bytes"))
    ).drop("held")


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
