"""Time that packets spend in the queues of the bottlenecks."""

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
    frame = link_rows(cell)
    # Packets for a link out of a switch wait in the memory of the switch, where nothing measures their times.
    shown = [k for k in cell.bottlenecks if not leaves_switch(cell.plan.typed, k.id)]
    if frame is None or not shown:
        return None
    frame = frame.filter(pl.col("link").is_in([k.id for k in shown]))
    width = link_width(cell, medium)
    delay = pl.col("queue_delay_ns").cast(pl.Float64) / 1e9
    most = pl.col("queue_delay_max_ns").cast(pl.Float64).max() / 1e9
    sent = pl.col("out_packets").cast(pl.Float64)
    mean = (delay * sent).sum() / pl.when(delay.is_not_null()).then(sent).sum()
    # Buckets without a packet stay, with null values: the line must not cross them.
    values = {"low": delay.min(), "mean": mean.fill_nan(None), "high": most}
    rows = aggregate(frame, values, by=["link"], width_ns=width)
    if rows["mean"].is_null().all():
        return None
    highest = greatest(rows["high"])
    unit = unit_for(highest, "s")
    names = ", ".join(k.name for k in shown)
    text = f"Queueing delay of {names}; at most {highest / unit.factor:.3g} {unit.label}."
    rows = scaled(rows, unit, ("low", "mean", "high"))
    said = note(width, cell.plan.interval_ns("links"))
    return link_panels(cell, medium, rows, "Queueing delay", unit, alt_text=text, notes=said)


CHART = CellChart(
    name="queue-delay",
    title="Queueing delay at the bottleneck",
    section="Time series",
    needs=("links",),
    caption="Queueing time of the packets whose transmission began in an interval of measure.links: mean "
    "over the packets (line), smallest interval mean and longest time of any packet (band).",
    draw=_draw,
)
