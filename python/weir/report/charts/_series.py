"""Shapes shared by the time series: a band around a line, a row of panels, and bands with a heat map for many flows."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, cast

import altair as alt
import polars as pl

from weir.report import theme
from weir.report._text import Unit, greatest
from weir.report.charts._base import (
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
from weir.report.downsample import aggregate, bucket_ends, bucket_ns, envelope, note, samples, steps_note
from weir.report.view import CellView

__all__ = ["FlowSeries", "band", "flow_panels", "flow_population", "flow_steps", "scaled"]

_QUANTILES = {"p05": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}


@dataclass(frozen=True)
class FlowSeries:
    """One value per flow over time."""

    table: str
    value: pl.Expr
    """In base units."""
    unit: Unit
    name: str
    """Name of the quantity, for axis titles."""

    @property
    def title(self) -> str:
        """Axis title with the unit."""
        return f"{self.name} ({self.unit.label})" if self.unit.label else self.name


def scaled(frame: pl.DataFrame, unit: Unit, columns: tuple[str, ...]) -> pl.DataFrame:
    """``columns`` in ``unit`` instead of base units."""
    return frame.with_columns([pl.col(c) / unit.factor for c in columns if c in frame.columns])


def band(
    end_s: float,
    medium: Medium,
    data: str | None,
    title: str,
    *,
    x_title: str | None = "Time (s)",
    colour: Any = theme.ACCENT,
    y_scale: alt.Scale | None = None,
    values: list[float] | None = None,
    ticks: int = 5,
) -> list[alt.Chart]:
    """Layers of data set ``data`` (an envelope): the band of its extremes and the line of its mean.

    Without ``data``, the layers use the data of the enclosing facet.
    """
    x = time_axis(end_s, medium, title=x_title)
    y_axis = alt.Axis(values=values) if values else alt.Axis(tickCount=ticks)
    scale = y_scale or alt.Scale(zero=True, nice=True)
    base = alt.Chart(named(data)) if data else alt.Chart()
    shown = tooltip(
        medium,
        ("time_s:Q", "Time (s)", ".4~g"),
        ("mean:Q", "mean", ".4~g"),
        ("low:Q", "least", ".4~g"),
        ("high:Q", "most", ".4~g"),
    )
    area = base.mark_area(opacity=0.25, color=colour, clip=True, line=False, tooltip=None).encode(
        x=x, y=alt.Y("low:Q", title=title, scale=scale, axis=y_axis), y2="high:Q"
    )
    # Round ends draw an isolated value between gaps as a dot.
    line = base.mark_line(color=colour, clip=True, strokeCap="round").encode(
        x=x, y=alt.Y("mean:Q", title=title, scale=scale, axis=y_axis), tooltip=shown
    )
    return [area, line]


def flow_panels(cell: CellView, medium: Medium, series: FlowSeries) -> Drawing | None:
    """One panel per flow, stacked, all with the same scales."""
    frame = cell.of_tested(series.table)
    if frame is None:
        return None
    interval = cell.plan.interval_ns(series.table)
    width = bucket_ns(cell.end_ns, medium.buckets, interval)
    rows = envelope(frame, series.value, by=["flow"], width_ns=width)
    if rows.is_empty():
        return None
    columns = ("low", "mean", "high")
    rows = scaled(rows, series.unit, columns).join(cell.names(), on="flow").sort("flow", "time_s")
    rows = rows.select("name", "time_s", *columns)
    order = list(dict.fromkeys(rows["name"]))
    top = _round_up(greatest(rows["high"]))
    spec = _panels(medium, cell.end_s, series.title, tuple(order), top)
    text = f"{series.name} of {len(order)} flows over {cell.end_s:g} s, one panel per flow."
    return Drawing(spec, {"series": rows}, text, note(width, interval), span=2)


def flow_steps(cell: CellView, medium: Medium, series: FlowSeries, dashed: tuple[str, pl.Expr]) -> Drawing | None:
    """As `flow_panels`, of a quantity that changes in steps: drawn at its samples.

    ``dashed`` is a second quantity of the same unit, by its name.
    """
    frame = cell.of_tested(series.table)
    if frame is None:
        return None
    interval = cell.plan.interval_ns(series.table)
    # Two samples of a bucket are drawn.
    width = bucket_ns(cell.end_ns, medium.buckets, interval)
    kinds = {series.name: series.value, dashed[0]: dashed[1]}
    parts = [
        samples(frame, value, by=["flow"], width_ns=width).with_columns(kind=pl.lit(kind))
        for kind, value in kinds.items()
    ]
    if parts[0].is_empty():
        return None
    rows = scaled(pl.concat(parts), series.unit, ("value",)).join(cell.names(), on="flow")
    rows = rows.sort("flow", "kind", "time_s").select("name", "kind", "time_s", "value")
    order = list(dict.fromkeys(rows["name"]))
    top = _round_up(greatest(rows.filter(pl.col("kind") == series.name)["value"]))
    spec = _steps(medium, cell.end_s, series.title, tuple(order), top, (series.name, dashed[0]))
    text = f"{series.name} of {len(order)} flows over {cell.end_s:g} s, one panel per flow."
    return Drawing(spec, {"series": rows}, text, steps_note(width, interval), span=2)


@shape
def _panels(medium: Medium, end_s: float, title: str, order: tuple[str, ...], top: float) -> Spec:
    height, values = _height(medium, order, top)
    layers = band(end_s, medium, None, "", y_scale=alt.Scale(domain=[0, top], nice=False), values=values)
    return _stacked(layers, medium, end_s, title, order, height)


@shape
def _steps(
    medium: Medium, end_s: float, title: str, order: tuple[str, ...], top: float, kinds: tuple[str, str]
) -> Spec:
    height, values = _height(medium, order, top)
    x = time_axis(end_s, medium)
    y = alt.Y("value:Q", title="", scale=alt.Scale(domain=[0, top], nice=False), axis=alt.Axis(values=values))
    shown = tooltip(medium, ("kind:N", "of"), ("time_s:Q", "Time (s)", ".6~g"), ("value:Q", title, ".4~g"))
    looks: list[dict[str, Any]] = [
        {"color": theme.ACCENT},
        {"color": theme.SECOND, "strokeDash": [4, 3], "strokeWidth": 1},
    ]
    layers = [
        alt.Chart()
        .transform_filter(f"datum.kind === {json.dumps(kind)}")
        .mark_line(clip=True, interpolate="step-after", **look)
        .encode(x=x, y=y, tooltip=shown)
        for kind, look in zip(kinds, looks, strict=True)
    ]
    return _stacked(layers, medium, end_s, title, order, height)


def _height(medium: Medium, order: tuple[str, ...], top: float) -> tuple[int, list[float]]:
    """The height of a panel, and the labels of its axis."""
    height = min(max(medium.row_height, (480 if medium.page else 2 * medium.height) // len(order)), medium.height)
    return height, [0, top] if height < 60 else [0, top / 2, top]


def _stacked(
    layers: list[alt.Chart], medium: Medium, end_s: float, title: str, order: tuple[str, ...], height: int
) -> Spec:
    """``layers`` in a panel for each name, one above the other."""
    return (
        alt.layer(*layers, data=named("series"))
        .properties(height=height)
        .facet(
            facet=alt.Facet("name:N", sort=list(order), title=None, header=header(order, 100, labelPadding=1)),
            columns=1,
            spacing=4 if medium.page else 1,
        )
        .properties(title=alt.TitleParams(title, anchor="start"))
        .add_params(*window(end_s, medium))
    )


def _round_up(value: float) -> float:
    """Rounds up to a good end of an axis."""
    if value <= 0:
        return 1.0
    scale = 10.0 ** math.floor(math.log10(value))
    return next(
        float(step * scale) for step in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if step * scale >= value * 0.9999
    )


def flow_population(cell: CellView, medium: Medium, series: FlowSeries) -> Drawing | None:
    """Many flows: percentiles over the flows against time, and a heat map with one row per flow (or a few flows)."""
    frame = cell.of_tested(series.table)
    if frame is None:
        return None
    interval = cell.plan.interval_ns(series.table)
    width = bucket_ns(cell.end_ns, medium.map_columns, interval)
    mean = {"value": series.value.cast(pl.Float64).mean() / series.unit.factor}
    cells = aggregate(bucket_ends(frame, width), mean, by=["flow"], width_ns=width).drop_nulls("value")
    if cells.is_empty():
        return None
    quantiles = [pl.col("value").quantile(q, "linear").alias(name) for name, q in _QUANTILES.items()]
    bands = cells.group_by("time_s").agg(quantiles).sort("time_s")
    heat = _heat(cell, cells, width)
    names = cell.names()["name"].to_list()
    # A few fast flows would leave the rest in one colour.
    bright = float(heat["value"].quantile(0.98) or 1.0)
    values = greatest(cells["value"]) > 0
    spec = _population(medium, cell.end_s, series.title, tuple(names), _round_up(bright), values)
    text = f"{series.name} of {len(names)} flows over {cell.end_s:g} s: percentiles over the flows, and a heat map."
    said = (f"Each column of the heat map is the mean of {width / 1e9:.3g} s; its colours end at the 98th percentile.",)
    return Drawing(spec, {"bands": bands, "heat": heat}, text, said, span=2)


def _heat(cell: CellView, cells: pl.DataFrame, width: int) -> pl.DataFrame:
    order = pl.DataFrame(
        {"flow": [f.id for f in cell.tested], "row": range(len(cell.tested))},
        schema={"flow": pl.UInt32, "row": pl.Int64},
    )
    edges = [
        (pl.col("time_s") - width / 1e9).clip(lower_bound=0).alias("from_s"),
        pl.col("time_s").clip(upper_bound=cell.end_s).alias("to_s"),
    ]
    rows = cells.join(order, on="flow").join(cell.names(), on="flow").with_columns(edges)
    return rows.select("row", "name", "from_s", "to_s", "value").sort("row", "from_s")


@shape
def _population(medium: Medium, end_s: float, title: str, names: tuple[str, ...], bright: float, values: bool) -> Spec:
    quiet = time_axis(end_s, medium, title=None)
    base = alt.Chart(named("bands"))
    outer = base.mark_area(opacity=0.18, color=theme.ACCENT, clip=True).encode(
        x=quiet, y=alt.Y("p05:Q", title=title, scale=value_scale(values)), y2="p95:Q"
    )
    inner = base.mark_area(opacity=0.3, color=theme.ACCENT, clip=True).encode(x=quiet, y="p25:Q", y2="p75:Q")
    shown = tooltip(medium, *((f"{c}:Q", f"{c}", ".4~g") for c in ("time_s", *_QUANTILES)))
    median = base.mark_line(color=theme.ACCENT, clip=True).encode(x=quiet, y="p50:Q", tooltip=shown)
    layers = [outer, inner, median]
    picked = alt.selection_point(
        name="flow_picked",
        fields=["name"],
        bind=cast(
            Any, {"name": alt.binding_select(options=[None, *names], labels=["none", *names], name="Highlight flow ")}
        ),
        on="click",
        clear=False,
        empty=False,
    )
    if medium.page:
        chosen = alt.Chart(named("heat")).transform_filter(picked)
        layers.append(
            chosen.mark_line(color=theme.SECOND, clip=True, interpolate="step").encode(
                x=time_axis(end_s, medium, title=None, field="from_s"), y="value:Q"
            )
        )
    top = alt.layer(*layers).properties(height=medium.height)
    heat = (
        alt.Chart(named("heat"))
        .mark_rect(clip=True, strokeWidth=0)
        .encode(
            x=time_axis(end_s, medium, field="from_s"),
            x2="to_s:Q",
            y=alt.Y(
                "row:Q",
                title="Flow, in the order of the plan" if medium.page else "Flow",
                scale=alt.Scale(domain=[0, len(names)], nice=False),
                axis=alt.Axis(grid=False, tickCount=5),
            ),
            y2=alt.Y2("row_end:Q"),
            color=alt.Color("value:Q", title=title, scale=alt.Scale(scheme="viridis", domain=[0, bright], clamp=True)),
            tooltip=tooltip(
                medium,
                ("name:N", "flow"),
                ("from_s:Q", "from (s)", ".4~g"),
                ("value:Q", title, ".4~g"),
            ),
        )
        .transform_calculate(row_end="datum.row + 1")
        .properties(height=max(medium.height, min(420, 2 * len(names)) if medium.page else medium.height))
    )
    if medium.page:
        heat = heat.add_params(picked)
    both: alt.VConcatChart = (
        alt.vconcat(top, heat).resolve_scale(color="independent").add_params(*window(end_s, medium))
    )
    return both
