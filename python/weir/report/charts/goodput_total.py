"""Goodput of all flows under test together."""

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
    named,
    relabel,
    shape,
    time_axis,
    value_scale,
    window,
)
from weir.report.charts._series import band, scaled
from weir.report.downsample import bucket_ns, envelope, note
from weir.report.view import CellView

__all__ = ["CHART"]


def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    frame = cell.of_tested("goodput")
    if frame is None:
        return None
    interval = cell.plan.interval_ns("goodput")
    width = bucket_ns(cell.end_ns, medium.buckets, interval)
    total = frame.group_by("time_ns").agg(pl.col("delivered_bytes").sum())
    rows = envelope(total, pl.col("delivered_bytes") * 8e9 / interval, by=[], width_ns=width)
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
    spec = _spec(medium, cell.end_s, unit.label, tuple(p.name for p in cell.plan.phases), "capacity" in data, top)
    return Drawing(spec, data, text, note(width, interval))


@shape
def _spec(medium: Medium, end_s: float, unit: str, phases: tuple[str, ...], capacity: bool, values: bool) -> Spec:
    title, scale = f"Goodput ({unit})", value_scale(values)
    layers: list[alt.Chart | alt.LayerChart] = [*band(end_s, medium, "total", title, y_scale=scale)]
    if phases:
        layers.insert(0, _windows(end_s, medium, phases))
    if capacity:
        line = alt.Chart(named("capacity")).mark_line(
            color=theme.SECOND, strokeDash=[4, 3], strokeWidth=1, interpolate="step-after", clip=True
        )
        layers.append(line.encode(x=time_axis(end_s, medium), y=alt.Y("rate:Q")))
    return alt.layer(*layers).properties(height=medium.height).add_params(*window(end_s, medium))


def _capacity(cell: CellView) -> pl.DataFrame:
    """Rate of the bottleneck over time; empty unless one link is the bottleneck of all flows under test."""
    rows: list[tuple[float, float]] = []
    if len(cell.bottlenecks) == 1 and all(cell.bottlenecks[0].id in f.path for f in cell.tested):
        link = cell.bottlenecks[0]
        steps = [(0, link.rate_bps), *cell.plan.rate_changes.get(link.id, ())]
        rows = [(at / 1e9, float(rate)) for at, rate in steps]
        rows.append((cell.end_s, rows[-1][1]))
    return pl.DataFrame(rows, schema={"time_s": pl.Float64, "rate": pl.Float64}, orient="row")


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
    "headers and framing included, where all these flows cross the same one.",
    draw=_draw,
)
