"""One-way delay of each flow over time."""

from __future__ import annotations

import altair as alt
import polars as pl

from weir.report import theme
from weir.report._text import greatest, unit_for
from weir.report.charts._base import (
    CellChart,
    Drawing,
    Medium,
    Spec,
    header,
    named,
    shape,
    time_axis,
    tooltip,
    value_scale,
    window,
)
from weir.report.charts._changes import marked
from weir.report.charts._delays import PERCENTILES, delay_width, percentiles
from weir.report.charts._series import FlowSeries, flow_population, scaled
from weir.report.view import CellView

__all__ = ["CHART"]


@marked
def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    if not cell.few:
        return _population(cell, medium)
    width = delay_width(cell, medium.buckets)
    found = percentiles(cell, width)
    if found is None:
        return None
    highest = greatest(found["p95"])
    unit = unit_for(highest, "s")
    rows = scaled(found, unit, tuple(PERCENTILES)).join(cell.names(), on="flow").sort("flow", "time_s")
    rows = rows.select("name", "time_s", *PERCENTILES)
    order = tuple(dict.fromkeys(rows["name"]))
    spec = _spec(medium, cell.end_s, f"One-way delay ({unit.label})", order, highest > 0)
    text = f"One-way delay of {len(order)} flows; 95th percentile at most {highest / unit.factor:.3g} {unit.label}."
    said = (f"Percentiles of the packets of {width / 1e9:.3g} s each.",)
    return Drawing(spec, {"delays": rows}, text, said, span=2)


def _population(cell: CellView, medium: Medium) -> Drawing | None:
    frame = cell.of_tested("delays")
    if frame is None:
        return None
    mean = pl.col("delay_ns").cast(pl.Float64) / 1e9
    highest = float(frame.select(mean.max()).collect().item() or 0)
    return flow_population(cell, medium, FlowSeries("delays", mean, unit_for(highest, "s"), "One-way delay"))


@shape
def _spec(medium: Medium, end_s: float, title: str, order: tuple[str, ...], values: bool) -> Spec:
    x = time_axis(end_s, medium)
    height = min(max(medium.row_height, (480 if medium.page else 2 * medium.height) // len(order)), medium.height)
    scale = value_scale(values)
    axis = alt.Axis(tickCount=2 if height < 60 else 4)
    base = alt.Chart()
    shown = tooltip(medium, ("time_s:Q", "Time (s)", ".4~g"), ("p50:Q", "median", ".4~g"), ("p95:Q", "95 %", ".4~g"))
    band = base.mark_area(opacity=0.25, color=theme.ACCENT, clip=True).encode(
        x=x, y=alt.Y("p50:Q", title="", scale=scale, axis=axis), y2="p95:Q"
    )
    line = base.mark_line(color=theme.ACCENT, clip=True, strokeCap="round").encode(
        x=x, y=alt.Y("p50:Q", title="", scale=scale, axis=axis), tooltip=shown
    )
    upper = base.mark_line(color=theme.SECOND, strokeDash=[4, 3], strokeWidth=1, clip=True).encode(x=x, y="p95:Q")
    return (
        alt.layer(band, line, upper, data=named("delays"))
        .properties(height=height)
        .facet(
            facet=alt.Facet("name:N", sort=list(order), title=None, header=header(order, 100, labelPadding=1)),
            columns=1,
            spacing=4 if medium.page else 1,
        )
        .properties(title=alt.TitleParams(title, anchor="start"))
        .add_params(*window(end_s, medium))
    )


CHART = CellChart(
    name="delay-flows",
    title="One-way delay of each flow",
    section="Delays",
    needs=("delay_bins", "delays"),
    caption="Time from the queue of the sending host's first link to the last bit at the receiving host, for the data "
    "packets that arrived in an interval of measure.delay: median (line) and 95th percentile (dashed), to 0.4 %. With "
    "many flows: percentiles over the flows of their mean delays, and one row per flow below.",
    draw=_draw,
)
