"""Aggregate goodput of all flows under test."""

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
    by_direction,
    named,
    relabel,
    shape,
    time_axis,
    value_scale,
    window,
)
from weir.report.charts._changes import marked
from weir.report.charts._series import band, scaled
from weir.report.downsample import bucket_ns, envelope, note
from weir.report.view import CellView

__all__ = ["CHART", "total_goodput"]


@marked
def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    frame = cell.of_tested("goodput")
    if frame is None:
        return None
    interval = cell.plan.interval_ns("goodput")
    width = bucket_ns(cell.end_ns, medium.buckets, interval)
    rows = total_goodput(cell, frame, width)
    capacity = _capacity(cell)
    highest = greatest(rows["high"])
    unit = unit_for(max(highest, greatest(capacity["rate"])), "bit/s")
    rows = scaled(rows, unit, ("low", "mean", "high"))
    data = {"total": rows}
    if not capacity.is_empty():
        data["capacity"] = scaled(capacity, unit, ("rate",))
    if cell.plan.phases:
        data["phases"] = _phases(cell)
    text = f"Aggregate goodput over {cell.end_s:g} s; at most {highest / unit.factor:.3g} {unit.label}."
    top = max(highest, greatest(capacity["rate"])) > 0
    spec = _spec(
        medium, cell.end_s, unit.label, tuple(p.name for p in cell.plan.phases), "capacity" in data, top, cell.both_ways
    )
    return Drawing(spec, data, text, note(width, interval))


def total_goodput(cell: CellView, frame: pl.LazyFrame, width_ns: int) -> pl.DataFrame:
    """The envelope of the flows' aggregate goodput, bit/s; of each direction if flows of both are under test."""
    by = ["direction"] if cell.both_ways else []
    if by:
        ways = {f.id: way for way, flows in cell.directions.items() for f in flows}
        schema = {"flow": pl.UInt32, "direction": pl.String}
        frame = frame.join(pl.LazyFrame(list(ways.items()), schema, orient="row"), on="flow")
    total = frame.group_by(*by, "time_ns").agg(pl.col("delivered_bytes").sum())
    return envelope(total, pl.col("delivered_bytes") * 8e9 / cell.plan.interval_ns("goodput"), by=by, width_ns=width_ns)


@shape
def _spec(
    medium: Medium, end_s: float, unit: str, phases: tuple[str, ...], capacity: bool, values: bool, both: bool
) -> Spec:
    title, scale = f"Goodput ({unit})", value_scale(values)
    series = band(end_s, medium, "total", title, y_scale=scale)
    colour = by_direction(medium)
    layers: list[alt.Chart | alt.LayerChart] = [s.encode(color=colour) if both else s for s in series]
    if phases:
        layers.insert(0, _windows(end_s, medium, phases))
    if capacity:
        line = alt.Chart(named("capacity")).mark_line(
            color=theme.SECOND, strokeDash=[4, 3], strokeWidth=1, interpolate="step-after", clip=True
        )
        line = line.encode(x=time_axis(end_s, medium), y=alt.Y("rate:Q"))
        layers.append(line.encode(color=colour) if both else line)
    return alt.layer(*layers).properties(height=medium.height).add_params(*window(end_s, medium))


def _capacity(cell: CellView) -> pl.DataFrame:
    """Rate of the bottleneck over time, of each direction; empty unless all flows under test share one bottleneck."""
    rows: list[tuple[str, float, float]] = []
    for way, flows in cell.directions.items():
        links = [k for k in cell.bottlenecks if all(k.id in f.path for f in flows)]
        if len(links) == 1:
            steps = [(0, links[0].rate_bps), *cell.plan.rate_changes.get(links[0].id, ())]
            rows += [(way, at / 1e9, float(rate)) for at, rate in steps]
            rows.append((way, cell.end_s, rows[-1][2]))
    found = pl.DataFrame(rows, {"direction": pl.String, "time_s": pl.Float64, "rate": pl.Float64}, orient="row")
    return found if cell.both_ways else found.drop("direction")


def _phases(cell: CellView) -> pl.DataFrame:
    phases = cell.plan.phases
    return pl.DataFrame(
        {
            "phase": [p.name for p in phases],
            "from_s": [p.from_ns / 1e9 for p in phases],
            "to_s": [p.to_ns / 1e9 for p in phases],
        },
        schema={"phase": pl.String, "from_s": pl.Float64, "to_s": pl.Float64},
    )


def _windows(end_s: float, medium: Medium, phases: tuple[str, ...]) -> alt.LayerChart:
    base = alt.Chart(named("phases")).encode(x=time_axis(end_s, medium, field="from_s"))
    shade = base.mark_rect(color=theme.NEUTRAL, opacity=0.13, clip=True, tooltip=None).encode(x2="to_s:Q")
    size = 11 if medium.page else 6
    label = base.mark_text(align="left", baseline="bottom", dx=3, fontSize=size, clip=True, opacity=0.75).encode(
        y=alt.value(medium.height - 3), text="shown:N"
    )
    label = label.transform_calculate(shown=relabel(phases, 24, "phase"))
    edge = base.mark_rule(color=theme.NEUTRAL, opacity=0.6, strokeWidth=1, clip=True)
    both: alt.LayerChart = shade + edge + label
    return both


CHART = CellChart(
    name="goodput-total",
    title="Aggregate goodput",
    section="Time series",
    needs=("goodput",),
    caption="Payload handed to the receiving applications of all flows under test in an interval of "
    "measure.goodput, divided by the interval. Shaded: the named phases; dashed: the rate of the bottleneck, "
    "including headers and framing, if all these flows cross the same one. Uploads and downloads are separate.",
    draw=_draw,
)
