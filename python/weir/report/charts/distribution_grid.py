"""Goodput distributions of all cells of a sweep."""

from __future__ import annotations

import altair as alt
import polars as pl

from weir.metrics.selection import DIRECTIONS
from weir.report import theme
from weir.report.charts import _grid
from weir.report.charts._base import Drawing, Medium, RunChart, by_direction
from weir.report.charts.distribution import METRIC, shares, upper_end
from weir.report.view import RunView

__all__ = ["CHART"]

_NOTHING = dict.fromkeys(("from_percent", "to_percent", "share_percent"), 0.0)


def _draw(run: RunView, medium: Medium) -> Drawing | None:
    grid = _grid.grid_of(run)
    summary = run.summary(METRIC) if grid else None
    if grid is None or summary is None or summary.is_empty():
        return None
    phase = summary["phase"].drop_nulls()
    last = phase[-1] if len(phase) else None
    frames = []
    for place in grid.places:
        own = place.view.summary(METRIC)
        rows = shares(own.filter(pl.col("phase").eq_missing(pl.lit(last, pl.String))))
        if not rows.is_empty():
            frames.append(rows.with_columns(row=pl.lit(place.row), column=pl.lit(place.column)))
    if not frames:
        return None
    data = pl.concat(frames, how="diagonal").drop("phase")
    end = upper_end(data)
    x = alt.X("from_percent:Q", title="Goodput (%)", scale=alt.Scale(domain=[0, end], nice=False),
              axis=alt.Axis(values=[0, int(end // 2)], grid=False))  # fmt: skip
    y = alt.Y("share_percent:Q", title=None, axis=alt.Axis(tickCount=2))
    bars = alt.Chart().mark_rect(color=theme.ACCENT, strokeWidth=0).transform_calculate(floor="0")
    layer = bars.encode(x=x, x2="to_percent:Q", y=y, y2="floor:Q")
    if "direction" in data.columns:
        data = data.with_columns(pl.col("direction").fill_null(DIRECTIONS[0]))
        layer = layer.encode(color=by_direction(medium), opacity=alt.value(0.7))
    where = f", phase {last}" if last else ""
    text = f"Goodput distributions of {len(frames)} cells{where}, in bins of 1 %."
    title = f"Share of time (%){where}"
    return _grid.facet([layer], grid, data, medium, nothing=_NOTHING, title=title, alt_text=text)


CHART = RunChart(
    name="distribution-grid",
    title="Goodput distribution in every cell",
    section="Distributions across the sweep",
    needs=(METRIC,),
    caption="Share of time that a flow's goodput spends in each 1 % of the rate of the slowest link on its "
    "path, averaged over the flows and repeats, in the last phase of the scenario.",
    draw=_draw,
)
