"""Completion times across a sweep: one curve per name, one panel per value of the axis."""

from __future__ import annotations

import altair as alt
import polars as pl

from weir.report._text import greatest, unit_for
from weir.report.charts import _grid
from weir.report.charts._base import Drawing, Medium, RunChart, Spec, category_scale, header, legend, named, plain_spec
from weir.report.charts.completion import cumulative
from weir.report.view import RunView

__all__ = ["CHART"]


def _draw(run: RunView, medium: Medium) -> Drawing | None:
    frames = []
    grid = _grid.grid_of(run)
    for place in grid.places if grid else ():
        rows = cumulative(place.view)
        if rows is not None and not rows.is_empty():
            frames.append(rows.with_columns(row=pl.lit(place.row or "all"), column=pl.lit(place.column)))
    if grid is None or not frames:
        return None
    data = pl.concat(frames)
    longest = greatest(data["seconds"])
    unit = unit_for(longest, "s")
    data = data.with_columns(time=pl.col("seconds") / unit.factor).drop("seconds")
    names = [row or "all" for row in grid.rows]
    columns = list(grid.columns)
    text = f"Completion times of {len(frames)} cells, up to {longest / unit.factor:.3g} {unit.label}."
    spec = plain_spec(_spec(medium, names, columns, unit.label))
    across, titles = min(_ACROSS, len(columns)), {"time": f"time ({unit.label})"}
    return Drawing(spec, {"completion": data}, text, columns=across, panel_width=220, span=2, csv_names=titles)


_ACROSS = 4


def _spec(medium: Medium, names: list[str], columns: list[str], unit: str) -> Spec:
    key = legend(names, medium) if len(names) > 1 else None
    line = alt.Chart().mark_line(interpolate="step-after", strokeWidth=1.2)
    encoded = line.encode(
        x=alt.X("time:Q", title=f"Completion time ({unit})", axis=alt.Axis(grid=False, tickCount=4)),
        y=alt.Y("percent:Q", title=None, scale=alt.Scale(domain=[0, 100]), axis=alt.Axis(tickCount=5)),
        color=alt.Color("row:N", title=None, scale=category_scale(names, "color"), legend=key),
        strokeDash=alt.StrokeDash("row:N", title=None, scale=category_scale(names, "strokeDash"), legend=key),
        detail="group:N",
    )
    spec: Spec = (
        alt.layer(encoded, data=named("completion"))
        .properties(height=medium.height if medium.page else int(0.7 * medium.height))
        .facet(
            facet=alt.Facet("column:N", sort=columns, title=None, header=header(columns, 24)),
            columns=min(_ACROSS, len(columns)),
            spacing=18,
        )
        .properties(title=alt.TitleParams("Transfers completed (%)", anchor="start"))
    )
    return spec


CHART = RunChart(
    name="completion-sweep",
    title="Completion times across the sweep",
    section="Distributions across the sweep",
    needs=("flows",),
    caption="Share of the transfers of known size that completed within a time of their request; first "
    "repeat of each cell. A curve that ends below 100 % has transfers that did not complete.",
    draw=_draw,
)
