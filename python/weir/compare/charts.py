"""The charts of a comparison: overlaid time series, and one run's metrics against another's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import altair as alt
import numpy as np
import polars as pl

from weir.compare._align import Group
from weir.compare._comparison import Comparison
from weir.compare._traces import Key, Trace, apart, traces_of
from weir.metrics import parse_reference
from weir.report.charts import (
    Chart,
    Drawing,
    Medium,
    Spec,
    Unit,
    category_scale,
    named,
    plain_spec,
    shape,
    time_axis,
    tooltip,
    unit_for,
    window,
)

__all__ = ["OVERLAYS", "SCATTER", "Overlay", "scatter"]

PERCENT = Unit("%", 0.01, "percent")

MAX_PANELS = 8
"""Largest number of flows with a panel each; of more, those that differ most are shown."""


class Overlay:
    """One series of one cell, overlaid for all runs."""

    def __init__(self, trace: str, title: str, base: str, caption: str) -> None:
        self.trace = trace
        self.base = base
        self.chart = Chart(f"overlay-{trace.replace('.', '-')}", title, "Overlaid runs", (trace,), caption)

    def draw(self, comparison: Comparison, group: Group, medium: Medium) -> Drawing | None:
        """Makes the drawing; ``None`` if fewer than two runs recorded the series."""
        series = _first_repeats(comparison, group)
        keys = _chosen(self.trace, series)
        if not keys:
            return None
        parts = [(key, label, found[key]) for key in keys for label, found in series.items() if key in found]
        rows = pl.concat([_rows(key, label, trace, medium) for key, label, trace in parts])
        unit = unit_for(_top(rows), self.base)
        rows = rows.with_columns(pl.col("value") / unit.factor)
        labels = tuple(label for label in comparison.labels if label in set(rows["run"]))
        panels = tuple(dict.fromkeys(rows["name"]))
        end_s = _top(rows, "time_s")
        title = f"{self.chart.title} ({unit.label})" if unit.label else self.chart.title
        spec = _overlay(medium, end_s, title, labels, panels)
        alt_text = f"{self.chart.title} of {', '.join(panels)} over {end_s:g} s, by {' and '.join(labels)}."
        return Drawing(spec, {"series": rows}, alt_text, self._notes(series, keys, group), span=2)

    def _notes(self, series: dict[str, dict[Key, Trace]], keys: Sequence[Key], group: Group) -> tuple[str, ...]:
        said = []
        all_keys = {key for found in series.values() for key in found if key[0] == self.trace}
        if len(all_keys) > len(keys):
            said.append(f"The {len(keys)} of {len(all_keys)} flows that differ most.")
        if any(len(cells) > 1 for cells in group.cells.values()):
            said.append("The first repeat of each run.")
        return tuple(said)


OVERLAYS = (
    Overlay(
        "goodput.aggregate",
        "Aggregate goodput",
        "bit/s",
        "Goodput of all flows under test together in each interval of measure.goodput.",
    ),
    Overlay(
        "goodput", "Goodput of each flow", "bit/s", "Goodput in each interval of measure.goodput, one panel per flow."
    ),
    Overlay("cwnd", "Congestion window", "packets", "Congestion window of each flow at the instants of measure.tcp."),
    Overlay("queue", "Queue at the bottleneck", "bytes", "Bytes waiting at the end of each interval of measure.links."),
)


@lru_cache(maxsize=8)
def _cached(comparison: Comparison, number: int) -> dict[str, dict[Key, Trace]]:
    group = comparison.groups[number]
    return {label: traces_of(cells[0]) for label, cells in group.cells.items()}


def _first_repeats(comparison: Comparison, group: Group) -> dict[str, dict[Key, Trace]]:
    return _cached(comparison, group.number)


def _chosen(trace: str, series: dict[str, dict[Key, Trace]]) -> list[Key]:
    """The flows to show: all, or those that differ most, in the order of the plan."""
    keys = [key for key in dict.fromkeys(k for found in series.values() for k in found) if key[0] == trace]
    shared = [key for key in keys if sum(key in found for found in series.values()) > 1]
    if len(shared) <= MAX_PANELS:
        return shared

    def far(key: Key) -> float:
        sides = [found[key] for found in series.values() if key in found]
        return float(np.nan_to_num(max(apart(sides[0], other).trace for other in sides[1:])))

    farthest = set(sorted(shared, key=far, reverse=True)[:MAX_PANELS])
    return [key for key in shared if key in farthest]


def _rows(key: Key, label: str, trace: Trace, medium: Medium) -> pl.DataFrame:
    """The series reduced to a drawable number of points, each the mean of a bucket."""
    begin, end = trace.span_ns
    count = max(1, (end - begin) // max(trace.step_ns, 1))
    step = trace.step_ns * max(1, -(-count // medium.buckets))
    rate = trace.values / (trace.step_ns / 1e9) if trace.kind == "rate" else trace.values
    frame = pl.DataFrame({"time_ns": trace.times_ns, "value": rate})
    thin = frame.group_by(((pl.col("time_ns") - 1) // step).alias("bucket"), maintain_order=True).agg(pl.all().mean())
    columns = [(pl.col("time_ns") / 1e9).alias("time_s"), pl.col("value")]
    return thin.select(pl.lit(key[1] or "all flows").alias("name"), pl.lit(label).alias("run"), *columns)


def _top(rows: pl.DataFrame, column: str = "value") -> float:
    found = rows[column].max()
    return float(found) if isinstance(found, int | float) else 0.0


@shape
def _overlay(medium: Medium, end_s: float, title: str, labels: tuple[str, ...], panels: tuple[str, ...]) -> Spec:
    height = max(medium.row_height * 2, min(medium.height, (560 if medium.page else 260) // len(panels)))
    look = {
        "color": alt.Color("run:N", title=None, scale=category_scale(labels, "color")),
        "strokeDash": alt.StrokeDash("run:N", title=None, scale=category_scale(labels, "strokeDash")),
    }
    shown = tooltip(medium, ("run:N", "run"), ("time_s:Q", "Time (s)", ".4~g"), ("value:Q", title, ".4~g"))
    base = alt.Chart(named("series")) if len(panels) == 1 else alt.Chart()
    y_title = title if len(panels) == 1 else ""
    y = alt.Y("value:Q", title=y_title, scale=alt.Scale(zero=True, nice=True), axis=alt.Axis(tickCount=4))
    line = base.mark_line(clip=True, strokeCap="round").encode(x=time_axis(end_s, medium), y=y, tooltip=shown, **look)
    line = line.properties(height=height)
    if len(panels) == 1:
        single: alt.Chart = line.add_params(*window(end_s, medium))
        return single
    header = alt.Header(labelAnchor="start", labelPadding=1, title=None)
    drawn: Spec = (
        alt.layer(line, data=named("series"))
        .properties(height=height)
        .facet(
            facet=alt.Facet("name:N", sort=list(panels), title=None, header=header),
            columns=1,
            spacing=6 if medium.page else 2,
        )
        .properties(title=alt.TitleParams(title, anchor="start"))
        .add_params(*window(end_s, medium))
    )
    return drawn


SCATTER = Chart(
    "metric-against-metric",
    "Each metric of one run against the other's",
    "All cells",
    (),
    "One point per cell and phase (and flow; the pointer on it shows which): on the dashed diagonal both runs have the "
    "same value.",
)


def scatter(comparison: Comparison, medium: Medium) -> Drawing | None:
    """Panels of the metrics, the first run on the x axis; ``None`` without a pair of values."""
    first = comparison.labels[0]
    frame = comparison.differences.filter(
        (pl.col("a") == first) & pl.col("a_value").is_not_null() & pl.col("b_value").is_not_null()
    )
    if frame.is_empty():
        return None
    parts, panels, zeros = [], [], []
    for metric in dict.fromkeys(frame["metric"]):
        own = frame.filter(pl.col("metric") == metric)
        if (own["a_value"] == 0).all() and (own["b_value"] == 0).all():
            zeros.append(metric)
            continue
        part, panel = _points(comparison, own)
        parts.append(part)
        panels.append(panel)
    if not parts:
        return None
    rows = pl.concat(parts)
    said = (f"Not drawn, because zero everywhere: {', '.join(zeros)}.",) if zeros else ()
    others = comparison.labels[1:]
    spec = plain_spec(_scatter(medium, first, others, panels))
    text = f"{len(panels)} metrics of {first} against those of {' and '.join(others)}."
    columns = 3 if medium.page else 4
    return Drawing(spec, {"points": rows}, text, said, columns=min(columns, len(panels)), panel_width=220, span=2)


def _points(comparison: Comparison, own: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    metric = own["metric"][0]
    flows = own.filter(pl.col("flow").is_not_null())
    own = flows if not flows.is_empty() else own
    values = [v for column in ("a_value", "b_value") for v in own[column].to_list()]
    unit = PERCENT if parse_reference(metric).percent else _unit(own["unit"][0], max(map(abs, values)))
    panel = f"{metric} ({unit.label})" if unit.label else metric
    places = [comparison.groups[row["cell"]].name for row in own.iter_rows(named=True)]
    points = own.select(
        pl.lit(panel).alias("panel"),
        pl.lit("point").alias("kind"),
        pl.col("b").alias("run"),
        pl.Series("place", places),
        pl.col("phase").fill_null("whole run"),
        pl.col("flow").fill_null("all flows"),
        (pl.col("a_value") / unit.factor).alias("x"),
        (pl.col("b_value") / unit.factor).alias("y"),
    )
    low, high = min(values) / unit.factor, max(values) / unit.factor
    # values that hardly differ would leave a panel without a diagonal and with one line of the grid
    margin = max(0.06 * (high - low), 0.01 * max(abs(low), abs(high))) or 1.0
    floor = 0.0 if low >= 0 and low < 0.5 * high else max(low - margin, 0.0) if low >= 0 else low - margin
    ends = [floor, high + margin]
    blank = {name: ["", ""] for name in ("run", "place", "phase", "flow")}
    diagonal = pl.DataFrame({"panel": [panel] * 2, "kind": ["diagonal"] * 2, **blank, "x": ends, "y": ends})
    return pl.concat([points, diagonal.select(points.columns)]), panel


def _unit(unit: str, largest: float) -> Unit:
    return unit_for(largest, {"B": "bytes"}.get(unit, unit))


def _scatter(medium: Medium, first: str, others: Sequence[str], panels: Sequence[str]) -> Spec:
    free = alt.Scale(zero=False, nice=False)
    axis = alt.Axis(tickCount=4, grid=True)
    x = alt.X("x:Q", title=first, scale=free, axis=axis)
    y = alt.Y("y:Q", title=others[0] if len(others) == 1 else "the others", scale=free, axis=axis)
    diagonal = alt.Chart().transform_filter("datum.kind == 'diagonal'").mark_line(strokeDash=[4, 3], strokeWidth=1)
    diagonal = diagonal.encode(x=x, y=y, color=alt.value("#8a8f98"))
    look: dict[str, alt.Color | alt.Shape] = {}
    if len(others) > 1:
        look = {
            "color": alt.Color("run:N", title=None, scale=category_scale(others, "color")),
            "shape": alt.Shape("run:N", title=None, scale=category_scale(others, "shape")),
        }
    shown = tooltip(
        medium,
        ("place:N", "cell"),
        ("phase:N", "phase"),
        ("flow:N", "flow"),
        ("x:Q", first, ".4~g"),
        *((("run:N", "against"),) if len(others) > 1 else ()),
        ("y:Q", others[0] if len(others) == 1 else "there", ".4~g"),
    )
    points = alt.Chart().transform_filter("datum.kind == 'point'").mark_point(opacity=0.75, filled=len(others) == 1)
    points = points.encode(x=x, y=y, tooltip=shown, **look)
    header = alt.Header(labelAnchor="start", title=None)
    drawn: Spec = (
        alt.layer(diagonal, points, data=named("points"))
        .properties(height=medium.height)
        .facet(facet=alt.Facet("panel:N", sort=list(panels), title=None, header=header), columns=3, spacing=26)
        .resolve_scale(x="independent", y="independent")
    )
    return drawn
