"""How far a metric is behind its best value at each place of the axis, where its curves lie close together."""

from __future__ import annotations

from functools import partial
from typing import Literal

import altair as alt
import polars as pl

from weir.metrics import Category, parse_reference
from weir.report._text import greatest, unit_for
from weir.report.charts._base import (
    Drawing,
    Medium,
    RunChart,
    beside,
    header,
    named,
    own_axes,
    plain_spec,
    tooltip,
    value_scale,
)
from weir.report.charts.metric_by_factor import has_own_scales, look_of, multiple, rows_of, values_of
from weir.report.view import Factor, RunView

__all__ = ["chart"]

Better = Literal["more", "less"]

_CLOSE = 0.2
"""Curves lie close together if they are at most this share of the largest value apart at each place of the axis."""
_APART = 0.005
"""They differ if they are at least this share apart at some place."""


def chart(
    metric: str,
    title: str,
    better: Better,
    section: str = "Metrics against the swept parameters",
    *,
    entries: bool = False,
) -> RunChart:
    """The differences of ``metric`` to its best value, the largest or the smallest.

    With ``entries``, one panel per workload entry.
    """
    return RunChart(
        name=f"behind-{metric.replace('.', '-').replace('_', '-')}",
        title=f"{title}: behind the best",
        section=section,
        needs=(metric,),
        caption="The same, as the difference to the best of the curves at each place of the axis, where they lie close "
        "together: 0 is the best.",
        draw=partial(_draw, metric=metric, title=title, better=better, entries=entries),
    )


def _draw(run: RunView, medium: Medium, *, metric: str, title: str, better: Better, entries: bool) -> Drawing | None:
    if run.axis is None or run.series is None or (medium.page and multiple(run, metric) is not None):
        return None
    if run.unlike and parse_reference(metric).metric.category is Category.FAIRNESS:
        return None  # equal shares are no aim of unlike flows, so that none is the best
    summary = values_of(run, metric, entries=entries)
    if summary.is_empty():
        return None
    rows, label = rows_of(run, summary, metric, title)
    rows = _behind(rows, better)
    if rows.is_empty():
        return None
    panels = list(dict.fromkeys(rows["panel"]))
    layers = _layers(run, run.axis, medium, rows, f"Behind the best: {label}", several=len(panels) > 1)
    layered = alt.layer(*layers, data=named("behind")).properties(height=medium.height)
    text = f"{title} behind the best by {run.axis.name} and {run.series.name}: up to {greatest(rows['behind']):.3g}."
    if len(panels) == 1:
        said = (f"Drawn: {panels[0]}.",)
        return Drawing(plain_spec(layered), {"behind": rows}, text, said, half=True, csv_names={"behind": label})
    columns = beside(len(panels))
    facet = alt.Facet("panel:N", sort=panels, title=None, header=header(panels))
    apart = has_own_scales(rows, "behind")
    spacing = (62 if medium.page else 34) if apart else 24
    spec: alt.FacetChart = own_axes(layered.facet(facet=facet, columns=columns, spacing=spacing), len(panels))
    spec = spec.resolve_scale(y="independent") if apart else spec
    heading = f"Behind the best: {label}" + ("; each panel has its own scale" if apart else "")
    spec = spec.properties(title=alt.TitleParams(heading, anchor="start")) if medium.page or apart else spec
    return Drawing(
        plain_spec(spec), {"behind": rows}, text, columns=columns, panel_width=300, span=2, csv_names={"behind": label}
    )


def _behind(rows: pl.DataFrame, better: Better) -> pl.DataFrame:
    """The distance of each value to the best at its place, in panels whose curves lie close together and differ."""
    v = pl.col("value")
    best = (v.max() if better == "more" else v.min()).over("panel", "x")
    apart = (v.max() - v.min()).over("panel", "x").max().over("panel") / v.abs().max().over("panel")
    found = rows.with_columns((v - best).abs().alias("behind"), apart.alias("apart"))
    shown = found.filter(pl.col("apart").is_between(_APART, _CLOSE))
    return shown.select("panel", "series", "x", "behind")


def _layers(
    run: RunView, axis: Factor, medium: Medium, rows: pl.DataFrame, label: str, *, several: bool
) -> list[alt.Chart]:
    unit = unit_for(max(axis.numbers or (0,)), axis.base)
    ticks = [n / unit.factor for n in axis.numbers or ()]
    x = alt.X(
        "x:Q",
        title=f"{axis.name} ({unit.label})" if unit.label else axis.name,
        axis=alt.Axis(values=ticks, format=".6~g", grid=False),
        scale=alt.Scale(nice=False, padding=6),
    )
    y = alt.Y("behind:Q", title=None if several and medium.page else label, scale=value_scale(greatest(rows["behind"])))
    look = look_of(run, medium)
    base = alt.Chart()
    line = base.mark_line(clip=True).encode(x=x, y=y, color=look["color"], strokeDash=look["strokeDash"])
    tips = tooltip(medium, ("series:N", "of"), ("behind:Q", label, ".4~g"))
    point = base.mark_point(opacity=1).encode(x=x, y=y, color=look["color"], shape=look["shape"], tooltip=tips)
    return [line, point]
