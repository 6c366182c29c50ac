"""A metric against the swept parameters: a numeric factor is the x axis, a categorical one the colour.

One panel per phase (and combination of any further factors), as in the papers' figures against RTT. Panels in which all
curves are the same have nothing to tell: a remark has their values. A metric that is zero everywhere is not drawn.
Where curves lie close together, `metric_behind` shows their differences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

import altair as alt
import polars as pl

from weir.metrics import Category, parse_reference
from weir.report import theme
from weir.report._text import greatest, least, metric_unit, number, unit_for
from weir.report.charts._base import (
    CUT,
    Drawing,
    Medium,
    RunChart,
    beside,
    category_scale,
    header,
    is_cut,
    legend,
    named,
    own_axes,
    plain_spec,
    relabel,
    tooltip,
    value_scale,
)
from weir.report.view import Factor, RunView

__all__ = ["chart", "has_own_scales", "look_of", "multiple", "rows_of", "values_of", "zero_metrics"]


def chart(
    metric: str,
    title: str,
    caption: str,
    section: str = "Metrics against the swept parameters",
    *,
    entries: bool = False,
    undefined: str = "undefined there",
) -> RunChart:
    """The chart of ``metric``, a reference of `weir.metrics`; with ``entries``, one panel per workload entry.

    ``undefined`` says why a cell may lack a value.
    """
    return RunChart(
        name=_name(metric),
        title=title,
        section=section,
        needs=(metric,),
        caption=caption,
        draw=partial(_draw, metric=metric, title=title, entries=entries, undefined=undefined),
    )


def _name(metric: str) -> str:
    return f"by-{metric.replace('.', '-').replace('_', '-')}"


def zero_metrics(run: RunView, charts: Sequence[RunChart]) -> list[str]:
    """The titles of those of these charts that are not drawn because their metric is zero in every cell and phase."""
    if run.axis is None and run.series is None:
        return []
    own = [chart for chart in charts if chart.name == _name(chart.needs[0])]
    return [chart.title for chart in own if _is_zero(values_of(run, chart.needs[0], entries=False))]


def _is_zero(rows: pl.DataFrame) -> bool:
    return not rows.is_empty() and bool((rows["value"] == 0).all())


def _draw(run: RunView, medium: Medium, *, metric: str, title: str, entries: bool, undefined: str) -> Drawing | None:
    if (run.axis is None and run.series is None) or (medium.page and multiple(run, metric) is not None):
        return None
    summary = values_of(run, metric, entries=entries)
    if summary.is_empty() or _is_zero(summary):
        return None
    rows, label = rows_of(run, summary, metric, title)
    rows, folded = _telling(rows)
    names = {"value": label, "low": "95 % confidence, low", "high": "95 % confidence, high", "n": "repeats"}
    panels = list(dict.fromkeys(rows["panel"]))
    apart = has_own_scales(rows)
    layers = (
        _against(run, medium, run.axis, rows, label, apart=apart)
        if run.axis
        else _by_name(run, medium, rows, label, apart=apart)
    )
    if run.axis:
        names["x"] = f"{run.axis.name} ({unit_for(max(run.axis.numbers or (0,)), run.axis.base).label})"
    if run.series:
        names["series"] = run.series.name
    lacking = _without_value(run, metric, panels, undefined, entries=entries)
    said = (*_remark(run, rows, folded), *_multiples(run, medium, metric), *lacking)
    if run.unlike and parse_reference(metric).metric.category is Category.FAIRNESS:
        said = (*said, f"It compares unlike flows ({', '.join(run.unlike)}), for which equal shares are no aim.")
    if run.repeats > 1:
        how = "shaded" if run.axis else "barred"
        cut = CUT if run.axis and not apart and is_cut(rows, _height(rows, label)) else ""
        said = (*said, f"Mean over {run.counted.have}; {how}: 95 % confidence interval{cut}.")
    height = medium.height if run.axis else max(60, 22 * len(set(rows["series"])))
    layered = alt.layer(*layers, data=named("metric")).properties(height=height)
    text = _say(run, rows, title, label)
    if len(panels) == 1:
        return Drawing(plain_spec(layered), {"metric": rows}, text, said, half=True, csv_names=names)
    columns, gap = beside(len(panels)), 24 if run.axis else 40
    spec: alt.FacetChart = layered.facet(
        facet=alt.Facet("panel:N", sort=panels, title=None, header=header(panels)),
        columns=columns,
        spacing=(62 if medium.page else 34) if apart and run.axis else gap,
    )
    spec = own_axes(spec, len(panels))
    if apart:
        spec = spec.resolve_scale(y="independent") if run.axis else spec.resolve_scale(x="independent")
        label = f"{label}; each panel has its own scale"
    spec = spec.properties(title=alt.TitleParams(label, anchor="start")) if medium.page or apart else spec
    return Drawing(
        plain_spec(spec), {"metric": rows}, text, said, columns=columns, panel_width=300, span=2, csv_names=names
    )


_MANY_ENTRIES = 6
"""With more workload entries, a metric is over all of them."""


def values_of(run: RunView, metric: str, *, entries: bool) -> pl.DataFrame:
    """The defined values of a metric in every cell and phase; with ``entries``, of each of a few workload entries."""
    return _summary(run, metric, entries=entries).filter(pl.col("value").is_not_null())


def _summary(run: RunView, metric: str, *, entries: bool) -> pl.DataFrame:
    return run.summary_by_entry(metric) if entries and _by_entry(run) else run.summary(metric)


def _by_entry(run: RunView) -> bool:
    """Whether metrics of flows have a panel for each entry of the workload."""
    return 1 < len(run.entries) <= _MANY_ENTRIES


_MULTIPLES = {"goodput.aggregate.mean": "goodput.mean"}
"""Metrics that are a multiple of another one: by the number of flows."""


def multiple(run: RunView, metric: str) -> dict[str, float] | None:
    """By how much ``metric`` is larger than the one that it is a multiple of, by phase, if that is so in each cell.

    Then both have the same pictures, and the page has one of them. ``None`` if they differ.
    """
    other = _MULTIPLES.get(metric)
    if other is None or _by_entry(run):
        return None
    mine, its = (values_of(run, name, entries=False) for name in (metric, other))
    if mine.is_empty() or len(mine) != len(its):
        return None
    panels = [c for c in ("phase", "direction") if c in mine.columns]
    both = mine.join(its, on=[*panels, *(f.name for f in run.factors)], nulls_equal=True, suffix="_other")
    ratio = pl.col("value") / pl.col("value_other")
    found = both.filter(pl.col("value_other") != 0).group_by(panels, maintain_order=True)
    ratios = found.agg(low=ratio.min(), high=ratio.max())
    if len(both) < len(mine) or ratios.is_empty() or (ratios["high"] - ratios["low"] > SAME * ratios["high"]).any():
        return None
    return {", ".join(row[c] or "whole run" for c in panels): row["high"] for row in ratios.to_dicts()}


def _multiples(run: RunView, medium: Medium, metric: str) -> tuple[str, ...]:
    """Says which metrics are not drawn, because they are a multiple of this one."""
    if not medium.page:
        return ()
    found = [multiple(run, other) for other, one in _MULTIPLES.items() if one == metric]
    texts = [_times(times) for times in found if times]
    return tuple(f"The aggregate goodput is this mean times {text}; it is not drawn." for text in texts)


def _times(times: Mapping[str, float]) -> str:
    texts = {panel: f"{value:.4g}" for panel, value in times.items()}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return ", ".join(f"{text} ({panel})" for panel, text in texts.items())


SAME = 0.005
"""Values are the same if their range is at most this share of the largest."""


def _telling(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of panels in which curves differ, and those of the other panels.

    If curves differ in no panel, the rows of panels that are not zero throughout.
    """
    if rows["panel"].n_unique() == 1:
        return rows, rows.clear()
    v = pl.col("value")
    keys = ["panel", "x"] if {"x", "series"} <= set(rows.columns) else ["panel"]
    spread = rows.group_by(keys).agg(differs=(v.max() - v.min()) > SAME * v.abs().max())
    differing = spread.filter(pl.col("differs"))["panel"].unique()
    if differing.is_empty():
        differing = rows.filter(v != 0)["panel"].unique()
    telling = pl.col("panel").is_in(differing.to_list())
    return rows.filter(telling), rows.filter(~telling)


_APART = 5
"""Panels have scales of their own if their largest values differ by more than this factor."""


def has_own_scales(rows: pl.DataFrame, column: str = "value") -> bool:
    """Whether each panel has its own scale, because a common one would flatten some."""
    highest = rows.group_by("panel").agg(pl.col(column).abs().max())[column]
    return highest.len() > 1 and least(highest) * _APART < greatest(highest)


def _remark(run: RunView, rows: pl.DataFrame, folded: pl.DataFrame) -> tuple[str, ...]:
    """Says the values of the panels without differences, and the panel that is left."""
    if folded.is_empty():
        return ()
    over = f" over {run.axis.name}" if run.axis and run.series else ""
    parts = []
    for panel in dict.fromkeys(folded["panel"]):
        values = folded.filter(pl.col("panel") == panel)["value"]
        low, high = number(least(values)), number(greatest(values))
        parts.append(f"{panel} ({low})" if low == high else f"{panel} ({low} to {high}{over})")
    left = f"Drawn: {rows['panel'][0]}. " if rows["panel"].n_unique() == 1 else ""
    if run.axis and run.series:
        same = f"every {run.series.name} has nearly the same value at each {run.axis.name}"
    else:
        same = "all values are nearly the same"
    return (f"{left}Not drawn, because {same}: {', '.join(parts)}.",)


_TOLD = 4
"""Cells without a value that a remark names."""


def _without_value(
    run: RunView, metric: str, panels: Sequence[str], undefined: str, *, entries: bool
) -> tuple[str, ...]:
    """Says which cells have no value in the panels that are drawn, and why."""
    summary = _summary(run, metric, entries=entries)
    lacking = summary.with_columns(_panel(run, summary).alias("panel")).filter(
        pl.col("value").is_null(), pl.col("panel").is_in(panels)
    )
    if lacking.is_empty():
        return ()
    places = []
    for row in lacking.iter_rows(named=True):
        parts = [(f, row[f.name]) for f in (run.series, run.axis) if f is not None]
        place = ", ".join(f"{f.name} {text}" if f.numeric else text for f, text in parts)
        places.append(place if len(panels) == 1 else f"{place} ({row['panel']})")
    more = len(places) - _TOLD
    told = "; ".join([*places[:_TOLD], *([f"and {more} more"] if more > 0 else [])])
    return (f"No value for {told}: {undefined}.",)


def rows_of(run: RunView, summary: pl.DataFrame, metric: str, title: str) -> tuple[pl.DataFrame, str]:
    unit = metric_unit(metric, summary)
    label = f"{title} ({unit.label})" if unit.label else title
    exprs = [
        _panel(run, summary).alias("panel"),
        (pl.col("value") / unit.factor).alias("value"),
        (pl.col("ci_low") / unit.factor).alias("low"),
        (pl.col("ci_high") / unit.factor).alias("high"),
        pl.col("n"),
    ]
    if run.series:
        exprs.insert(0, pl.col(run.series.name).alias("series"))
    if run.axis:
        exprs.insert(0, _axis_number(run.axis).alias("x"))
    return summary.select(exprs), label


def _axis_number(axis: Factor) -> pl.Expr:
    numbers = axis.numbers or ()
    unit = unit_for(max(numbers, default=0), axis.base)
    shown = {value: number / unit.factor for value, number in zip(axis.values, numbers, strict=True)}
    return pl.col(axis.name).replace_strict(shown, return_dtype=pl.Float64, default=None)


def _panel(run: RunView, summary: pl.DataFrame) -> pl.Expr:
    parts: list[pl.Expr] = [pl.col("phase").fill_null("whole run")]
    if "direction" in summary.columns:
        parts += [pl.lit(", "), pl.col("direction")]
    if "group" in summary.columns and summary["group"].n_unique() > 1:
        parts += [pl.lit(", "), pl.col("group")]
    for factor in run.panels:
        parts += [pl.lit(f", {factor.name} "), pl.col(factor.name)]
    return pl.concat_str(parts)


def look_of(run: RunView, medium: Medium) -> dict[str, alt.Color | alt.StrokeDash | alt.Shape]:
    """Colour, dashes and point shape of the factor shown by colour; empty without one."""
    if run.series is None:
        return {}
    names = run.series.values
    key = legend(names, medium, symbolOpacity=1)  # without the band's opacity
    title = run.series.name
    return {
        "color": alt.Color("series:N", title=title, scale=category_scale(names, "color"), legend=key),
        "strokeDash": alt.StrokeDash("series:N", title=title, scale=category_scale(names, "strokeDash"), legend=key),
        "shape": alt.Shape("series:N", title=title, scale=category_scale(names, "shape"), legend=key),
    }


def _height(rows: pl.DataFrame, label: str) -> alt.Scale:
    """A scale from zero to just above the largest value: huge intervals of two repeats must not flatten the lines."""
    values = rows["value"]
    low, high = least(values), greatest(values)
    if low < 0:
        return alt.Scale(zero=True)
    if high == 0:
        return value_scale(high)
    band = greatest(rows["high"])
    top = max(high, min(band, 1.25 * high))
    limit = 100.0 if label.endswith("(%)") else math.inf if label.endswith(")") else 1.0
    if high <= limit:
        top = min(top * 1.02, limit)
    return alt.Scale(domain=[0, top], nice=band <= 0 and top < limit)


def _tips(medium: Medium, label: str) -> object:
    interval = ("low:Q", "95 % from", ".4~g"), ("high:Q", "to", ".4~g")
    return tooltip(medium, ("value:Q", label, ".4~g"), *interval, ("n:Q", "repeats"))


def _against(
    run: RunView, medium: Medium, axis: Factor, rows: pl.DataFrame, label: str, *, apart: bool
) -> list[alt.Chart]:
    unit = unit_for(max(axis.numbers or (0,)), axis.base)
    x_title = f"{axis.name} ({unit.label})" if unit.label else axis.name
    ticks = [n / unit.factor for n in axis.numbers or ()]
    x = alt.X(
        "x:Q",
        title=x_title,
        axis=alt.Axis(values=ticks, format=".6~g", grid=False),
        scale=alt.Scale(nice=False, padding=6),
    )
    several = rows["panel"].n_unique() > 1 and medium.page
    scale = alt.Scale(zero=True, nice=True) if apart else _height(rows, label)
    y = alt.Y("value:Q", title=None if several or apart else label, scale=scale)
    base, look = alt.Chart(), look_of(run, medium)
    layers = []
    if rows["low"].is_not_null().any():
        shade = base.mark_area(opacity=0.14, clip=True).encode(
            x=x, y=alt.Y("low:Q", title=y["title"], scale=y["scale"]), y2="high:Q"
        )
        layers.append(shade.encode(color=look["color"]) if look else shade.encode(color=alt.value(theme.ACCENT)))
    line = base.mark_line(clip=True).encode(x=x, y=y)
    point = base.mark_point(opacity=1).encode(x=x, y=y, tooltip=_tips(medium, label))
    if look:
        line = line.encode(color=look["color"], strokeDash=look["strokeDash"])
        point = point.encode(color=look["color"], shape=look["shape"])
    if look and medium.page:
        chosen = alt.selection_point(name="legend_pick", fields=["series"], bind="legend")
        dim = alt.condition(chosen, alt.value(1.0), alt.value(0.15))
        line = line.encode(opacity=dim).add_params(chosen)
        point = point.encode(opacity=dim)
    return [*layers, line, point]


def _by_name(run: RunView, medium: Medium, rows: pl.DataFrame, label: str, *, apart: bool) -> list[alt.Chart]:
    """Without a numeric factor: a dot and its interval for each name."""
    assert run.series is not None
    names = [v for v in run.series.values if v in set(rows["series"])]
    y = alt.Y("series:N", sort=names, title=run.series.name, axis=alt.Axis(grid=True, labelExpr=relabel(names, 32)))
    base, values = alt.Chart(), rows["value"]
    scale = alt.Scale(zero=True) if apart else value_scale(max(greatest(values), -least(values)))
    x = alt.X("value:Q", title=label, scale=scale, axis=alt.Axis(grid=True, tickCount=5))
    dot = base.mark_point(color=theme.ACCENT, opacity=1).encode(x=x, y=y, tooltip=_tips(medium, label))
    bar = base.mark_rule(color=theme.ACCENT).encode(x=alt.X("low:Q", title=label), x2="high:Q", y=y)
    return [bar, dot] if rows["low"].is_not_null().any() else [dot]


def _say(run: RunView, rows: pl.DataFrame, title: str, label: str) -> str:
    axes = " and ".join(f.name for f in (run.axis, run.series) if f is not None)
    low, high = least(rows["value"]), greatest(rows["value"])
    return f"{title} by {axes}: from {low:.3g} to {high:.3g} ({label})."
