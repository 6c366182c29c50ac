"""Share of a link that each class of its scheduler uses."""

from __future__ import annotations

import altair as alt
import polars as pl

from weir.plan import queue_classes
from weir.report.charts._base import (
    CellChart,
    Drawing,
    Medium,
    Spec,
    category_scale,
    header,
    legend,
    named,
    shape,
    time_axis,
    tooltip,
    window,
)
from weir.report.charts._links import link_width
from weir.report.downsample import aggregate
from weir.report.view import CellView
from weir.run import Link

__all__ = ["CHART"]


def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    frame = cell.table("classes")
    step = cell.plan.interval_ns("classes")
    links = [link for link in cell.bottlenecks if queue_classes(link.typed.queue)]
    if frame is None or not links or not step:
        return None
    width = link_width(cell, medium)
    parts = [_shares(cell, frame, link, width, step) for link in links]
    rows = pl.concat(parts).drop_nulls("share")
    if rows.is_empty():
        return None
    order = tuple(dict.fromkeys(name for link in links for name, _ in queue_classes(link.typed.queue)))
    shown = tuple(link.name for link in links)
    text = f"Share of {', '.join(shown)} that each class uses over {cell.end_s:g} s: {', '.join(order)}."
    notes = (f"Each point is the mean of {width / 1e9:.3g} s.",) if width > step else ()
    return Drawing(_spec(medium, cell.end_s, shown, order), {"classes": rows}, text, notes)


def _shares(cell: CellView, frame: pl.LazyFrame, link: Link, width_ns: int, step_ns: int) -> pl.DataFrame:
    """Columns ``link``, ``class``, ``time_s`` and ``share``: bits on the wire over the capacity of each bucket."""
    names = [name for name, _ in queue_classes(link.typed.queue)]
    own = frame.filter(pl.col("link") == link.id).select("time_ns", "class", "out_packets", "out_bytes")
    ends = pl.LazyFrame({"time_ns": pl.int_range(step_ns, cell.end_ns + 1, step_ns, dtype=pl.UInt64, eager=True)})
    classes = pl.LazyFrame({"class": range(len(names))}, schema={"class": pl.UInt32})
    whole = ends.join(classes, how="cross").join(own, on=["time_ns", "class"], how="left").fill_null(0)
    steps = [(0, link.rate_bps), *cell.plan.rate_changes.get(link.id, ())]
    rate = pl.lit(float(link.rate_bps))
    for at_ns, rate_bps in steps[1:]:
        rate = pl.when(pl.col("time_ns") > at_ns).then(pl.lit(float(rate_bps))).otherwise(rate)
    wire = 8 * (pl.col("out_bytes").cast(pl.Float64) + link.overhead_bytes * pl.col("out_packets").cast(pl.Float64))
    whole = whole.with_columns(sent=wire, could=rate * (step_ns / 1e9))
    share = pl.when(pl.col("could").sum() > 0).then(pl.col("sent").sum() / pl.col("could").sum())
    rows = aggregate(whole, {"share": share}, by=["class"], width_ns=width_ns)
    label = pl.col("class").replace_strict(dict(enumerate(names)), return_dtype=pl.String)
    return rows.select(pl.lit(link.name).alias("link"), label.alias("class"), "time_s", "share")


@shape
def _spec(medium: Medium, end_s: float, links: tuple[str, ...], classes: tuple[str, ...]) -> Spec:
    several = len(links) > 1
    shown = tooltip(medium, ("class:N", "class"), ("time_s:Q", "Time (s)", ".4~g"), ("share:Q", "share", ".3~f"))
    y = alt.Y("share:Q", title="Share of the link", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=5))
    colour = alt.Color(
        "class:N", title=None, scale=category_scale(classes, "color"), legend=legend(classes, medium, symbolOpacity=1)
    )
    base = alt.Chart() if several else alt.Chart(named("classes"))
    line = base.mark_line(clip=True, strokeCap="round").encode(
        x=time_axis(end_s, medium), y=y, color=colour, tooltip=shown
    )
    if not several:
        alone: alt.Chart = line.properties(height=medium.height).add_params(*window(end_s, medium))
        return alone
    facet = alt.Facet("link:N", sort=list(links), title=None, header=header(links, labelPadding=1))
    return (
        alt.layer(line, data=named("classes"))
        .properties(height=medium.height // 2)
        .facet(facet=facet, columns=1, spacing=6)
        .add_params(*window(end_s, medium))
    )


CHART = CellChart(
    name="classes",
    title="Classes of the bottleneck",
    section="Time series",
    needs=("classes",),
    caption="Share of the link's capacity that each class of its scheduler uses, counted on the wire, in an interval "
    "of measure.links.",
    draw=_draw,
)
