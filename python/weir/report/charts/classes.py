"""Share of a link that each class of its scheduler uses."""

from __future__ import annotations

import polars as pl

from weir.report._text import greatest
from weir.report.charts._base import CellChart, Drawing, Medium
from weir.report.charts._changes import marked
from weir.report.charts._classes import class_lines, class_values, links_drawn, with_guarantees
from weir.report.charts._links import link_width
from weir.report.view import CellView
from weir.run import Link

__all__ = ["CHART"]


@marked
def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    links, left_out = links_drawn(cell)
    if not links:
        return None
    width, step = link_width(cell, medium), cell.plan.interval_ns("classes")
    rows = pl.concat([class_values(cell, link, _share(link), width) for link in links]).drop_nulls("value")
    if rows.is_empty():
        return None
    text = f"Share of {', '.join(link.name for link in links)} that each class uses over {cell.end_s:g} s."
    notes = (f"Each point is the mean of {width / 1e9:.3g} s.",) if width > step else ()
    top = greatest(rows["value"])
    rows = with_guarantees(cell, links, rows)
    return class_lines(
        cell, medium, links, rows, "Share of the link", top=top, share=True, alt_text=text, notes=(*notes, *left_out)
    )


def _share(link: Link) -> pl.Expr:
    """Bits on the wire over the capacity."""
    wire = 8 * (pl.col("out_bytes").cast(pl.Float64) + link.overhead_bytes * pl.col("out_packets").cast(pl.Float64))
    return pl.when(pl.col("could").sum() > 0).then(wire.sum() / pl.col("could").sum())


CHART = CellChart(
    name="classes",
    title="Share of each class",
    section="Classes",
    needs=("classes",),
    caption="Share of the link's capacity that each class of its scheduler uses, counted on the wire, in an interval "
    "of measure.links.",
    draw=_draw,
)
