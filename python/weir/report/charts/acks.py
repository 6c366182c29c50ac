"""The window after every acknowledgement and transmission, below the queue of the bottleneck."""

from __future__ import annotations

import altair as alt
import polars as pl

from weir.report import theme
from weir.report._text import Unit, greatest, unit_for
from weir.report.charts._base import (
    CellChart,
    Drawing,
    Medium,
    Spec,
    category_scale,
    legend,
    named,
    shape,
    time_axis,
    tooltip,
    value_scale,
    window,
)
from weir.report.charts._changes import marked
from weir.report.downsample import bucket_ns, samples
from weir.report.view import CellView

__all__ = ["CHART"]

_FLOWS = 6
"""Most flows of a drawing."""
_CLOSER = 10
"""Points of the page's drawing for each of another time series, so that a part of it can be enlarged."""


@marked
def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    frame = cell.table("acks")
    if frame is None:
        return None
    flows = frame.select(pl.col("flow").unique().sort()).collect()["flow"].to_list()
    names = {flow.id: flow.name for flow in cell.plan.flows if flow.id in flows[:_FLOWS]}
    width = bucket_ns(cell.end_ns, medium.buckets * (_CLOSER if medium.page else 1), 1)
    chosen = frame.filter(pl.col("flow").is_in(list(names)))
    windows = samples(chosen, pl.col("cwnd"), by=["flow"], width_ns=width)
    label = pl.col("flow").replace_strict(names, return_dtype=pl.String)
    windows = windows.select(label.alias("name"), "time_s", "value")
    queue, unit = _queue(cell, width)
    order = tuple(names.values())
    text = (
        f"Window of {len(order)} flows at {frame.select(pl.len()).collect().item()} acknowledgements and transmissions."
    )
    data = {"windows": windows} if queue is None else {"queue": queue, "windows": windows}
    link = "" if queue is None else cell.bottlenecks[0].name
    return Drawing(_spec(medium, cell.end_s, order, link, unit), data, text, _notes(cell, frame, flows, width), span=2)


def _queue(cell: CellView, width: int) -> tuple[pl.DataFrame | None, Unit]:
    """The bytes waiting at the first bottleneck, if links were recorded."""
    frame = cell.table("links")
    if frame is None or not cell.bottlenecks:
        return None, unit_for(0, "bytes")
    own = frame.filter(pl.col("link") == cell.bottlenecks[0].id).with_columns(flow=0)
    rows = samples(own, pl.col("queue_bytes"), by=["flow"], width_ns=width).select("time_s", "value")
    if rows.is_empty():
        return None, unit_for(0, "bytes")
    unit = unit_for(greatest(rows["value"]), "bytes")
    return rows.with_columns(pl.col("value") / unit.factor), unit


def _notes(cell: CellView, frame: pl.LazyFrame, flows: list[int], width: int) -> tuple[str, ...]:
    notes = []
    if len(flows) > _FLOWS:
        notes.append(f"The first {_FLOWS} of {len(flows)} recorded flows are drawn; table acks has all.")
    acks = cell.plan.raw["measure"].get("acks") or {}
    rows, last = frame.select(pl.len(), pl.col("time_ns").max().alias("last")).collect().row(0)
    if rows >= acks.get("max_rows", 1 << 62):
        notes.append(f"The record ends at {last / 1e9:.6g} s, with the {rows} rows of measure.acks.max_rows.")
    notes.append(f"Of the samples in {width / 1e6:.3g} ms, the smallest and the largest are drawn.")
    return tuple(notes)


@shape
def _spec(medium: Medium, end_s: float, order: tuple[str, ...], link: str, unit: Unit) -> Spec:
    shown = tooltip(medium, ("name:N", "flow"), ("time_s:Q", "Time (s)", ".9~g"), ("value:Q", "packets"))
    cwnd = (
        alt.Chart(named("windows"))
        .mark_line(clip=True, interpolate="step-after", strokeWidth=1.2 if medium.page else 0.7)
        .encode(
            x=time_axis(end_s, medium),
            y=alt.Y("value:Q", title="cwnd (packets)", scale=value_scale(1), axis=alt.Axis(tickCount=5)),
            color=alt.Color(
                "name:N",
                title=None,
                scale=category_scale(order, "color"),
                legend=legend(order, medium, symbolOpacity=1),
            ),
            tooltip=shown,
        )
        .properties(height=medium.height)
    )
    if not link:
        alone: alt.Chart = cwnd.add_params(*window(end_s, medium))
        return alone
    queue = (
        alt.Chart(named("queue"))
        .mark_line(clip=True, interpolate="step-after", color=theme.NEUTRAL, strokeWidth=1)
        .encode(
            x=time_axis(end_s, medium, title=None),
            y=alt.Y("value:Q", title=f"queue ({unit.label})", scale=value_scale(1), axis=alt.Axis(tickCount=3)),
            tooltip=tooltip(medium, ("time_s:Q", "Time (s)", ".9~g"), ("value:Q", f"queue ({unit.label})", ".4~g")),
        )
        .properties(height=medium.height // 2, title=alt.TitleParams(link, anchor="start", frame="group"))
    )
    both: alt.VConcatChart = alt.vconcat(queue, cwnd, spacing=10).add_params(*window(end_s, medium))
    return both


CHART = CellChart(
    name="acks",
    title="Window at every acknowledgement",
    section="Time series",
    needs=("acks",),
    caption="The congestion window after every acknowledgement and transmission of the flows of measure.acks, in "
    "packets; above it the bytes waiting at the bottleneck, at the samples of measure.links.",
    draw=_draw,
)
