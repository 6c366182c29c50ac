"""Share of packets dropped at the bottlenecks."""

from __future__ import annotations

import polars as pl

from weir.report import theme
from weir.report._text import Unit
from weir.report.charts._base import CellChart, Drawing, Medium
from weir.report.charts._changes import marked
from weir.report.charts._links import link_panels, link_rows, link_width
from weir.report.downsample import aggregate
from weir.report.view import CellView

__all__ = ["CHART"]

_PERCENT = Unit("% of packets", 1, "percent")


@marked
def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    frame = link_rows(cell)
    if frame is None:
        return None
    width = link_width(cell, medium)
    dropped, came = pl.col("drop_packets").cast(pl.Float64), pl.col("in_packets").cast(pl.Float64)
    share = 100 * dropped.sum() / came.sum()
    most = (100 * dropped / came).filter(came > 0).max()
    # Buckets without a packet stay, with null values: the line must not cross them.
    values = {"low": pl.when(came.sum() > 0).then(0.0), "mean": share.fill_nan(None), "high": most}
    rows = aggregate(frame, values, by=["link"], width_ns=width)
    if rows.is_empty() or not rows["high"].max():
        return None
    total = frame.select(pl.col("drop_packets").sum()).collect().item()
    text = f"Packets dropped at {', '.join(k.name for k in cell.bottlenecks)}: {total} in all."
    interval = cell.plan.interval_ns("links")
    said = (f"The line is the share over {width / 1e9:.3g} s; the band reaches the worst interval in it.",)
    return link_panels(
        cell, medium, rows, "Loss", _PERCENT, alt_text=text, notes=said if width > interval else (), colour=theme.SECOND
    )


CHART = CellChart(
    name="loss",
    title="Loss at the bottleneck",
    section="Time series",
    needs=("links",),
    caption="Packets dropped by a link (losses, queue, MTU) over packets that arrived at it, in percent.",
    draw=_draw,
)
