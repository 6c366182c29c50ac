"""Aggregate goodput over time in every cell of a sweep."""

from __future__ import annotations

import altair as alt
import polars as pl

from weir.metrics.selection import DIRECTIONS
from weir.report import theme
from weir.report._text import greatest, unit_for
from weir.report.charts import _grid
from weir.report.charts._base import Drawing, Medium, RunChart, by_direction, value_scale
from weir.report.charts._changes import mark_changes
from weir.report.charts.goodput_total import total_goodput
from weir.report.downsample import bucket_ns
from weir.report.view import CellView, RunView

__all__ = ["CHART"]

_STEPS = 90

_NOTHING = {"time_s": 0.0, "low": None, "mean": None, "high": None}


def _draw(run: RunView, medium: Medium) -> Drawing | None:
    grid = _grid.grid_of(run)
    frames = []
    for place in grid.places if grid else ():
        rows = _total(place.view, _STEPS)
        if rows is not None:
            frames.append(rows.with_columns(row=pl.lit(place.row), column=pl.lit(place.column)))
    if grid is None or not frames:
        return None
    data = pl.concat(frames, how="diagonal")
    unit = unit_for(greatest(data["high"]), "bit/s")
    data = data.with_columns([pl.col(c) / unit.factor for c in ("low", "mean", "high")])
    ticks = 2 if grid.across(medium) > 4 else 5
    x = alt.X("time_s:Q", title="Time (s)", scale=alt.Scale(nice=False), axis=alt.Axis(tickCount=ticks, grid=False))
    axis, scale = alt.Axis(tickCount=2), value_scale(greatest(data["high"]))
    base = alt.Chart()
    band = base.mark_area(color=theme.ACCENT, opacity=0.25).encode(
        x=x, y=alt.Y("low:Q", title=None, axis=axis, scale=scale), y2="high:Q"
    )
    line = base.mark_line(color=theme.ACCENT, strokeWidth=1).encode(
        x=x, y=alt.Y("mean:Q", title=None, axis=axis, scale=scale)
    )
    layers = [band, line]
    if "direction" in data.columns:
        data = data.with_columns(pl.col("direction").fill_null(DIRECTIONS[0]))
        layers = [layer.encode(color=by_direction(medium)) for layer in layers]
    text = f"Aggregate goodput over time in {len(frames)} cells; all with the same scales."
    thinned = any(p.view.end_ns > _STEPS * p.view.plan.interval_ns("goodput") for p in grid.places)
    said = (
        (f"Thinned for drawing: a panel has at most {_STEPS} steps, the band spans the extremes.",) if thinned else ()
    )
    title = f"Aggregate goodput ({unit.label}) over time"
    alike = len({p.view.changes for p in grid.places}) == 1
    if not alike:
        said = (*said, "Changes of links are not marked, because they differ between the cells.")
    drawing = _grid.facet(layers, grid, data, medium, nothing=_NOTHING, title=title, alt_text=text, notes=said)
    return mark_changes(drawing, grid.places[0].view.changes, medium) if alike else drawing


def _total(view: CellView, buckets: int) -> pl.DataFrame | None:
    frame = view.of_tested("goodput")
    if frame is None:
        return None
    return total_goodput(view, frame, bucket_ns(view.end_ns, buckets, view.plan.interval_ns("goodput")))


CHART = RunChart(
    name="goodput-grid",
    title="Aggregate goodput in every cell",
    section="The sweep at a glance",
    needs=("goodput",),
    caption="Payload handed to the receiving applications of all flows under test in an interval of "
    "measure.goodput, divided by the interval; first repeat of each cell, all panels with the same "
    "scales.",
    draw=_draw,
)
