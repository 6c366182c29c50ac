"""Time that the packets of each class spend in the queue of a link with a scheduler."""

from __future__ import annotations

import polars as pl

from weir.report._text import greatest, unit_for
from weir.report.charts._base import CellChart, Drawing, Medium
from weir.report.charts._changes import marked
from weir.report.charts._classes import class_lines, class_values, links_drawn
from weir.report.charts._links import link_width
from weir.report.charts._series import scaled
from weir.report.view import CellView

__all__ = ["CHART"]


@marked
def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    links, left_out = links_drawn(cell)
    if not links:
        return None
    width, step = link_width(cell, medium), cell.plan.interval_ns("classes")
    delay, sent = pl.col("queue_delay_ns").cast(pl.Float64) / 1e9, pl.col("out_packets").cast(pl.Float64)
    mean = ((delay * sent).sum() / pl.when(delay.is_not_null()).then(sent).sum()).fill_nan(None)
    # Buckets without a packet stay, with null values: the line must not cross them.
    rows = pl.concat([class_values(cell, link, mean, width) for link in links])
    if rows["value"].is_null().all():
        return None
    highest = greatest(rows["value"])
    unit = unit_for(highest, "s")
    names = ", ".join(link.name for link in links)
    text = f"Queueing delay of each class of {names}; at most {highest / unit.factor:.3g} {unit.label}."
    notes = (f"Each point is the mean of {width / 1e9:.3g} s.",) if width > step else ()
    title, rows = f"Queueing delay ({unit.label})", scaled(rows, unit, ("value",))
    return class_lines(cell, medium, links, rows, title, top=highest, alt_text=text, notes=(*notes, *left_out))


CHART = CellChart(
    name="class-delay",
    title="Queueing delay of each class",
    section="Classes",
    needs=("classes",),
    caption="Mean queueing time of the packets of each class whose transmission began in an interval of measure.links. "
    "A line breaks where a class sent nothing.",
    draw=_draw,
)
