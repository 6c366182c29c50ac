"""The figures that lead a report, as small multiples: one panel each, over the swept factors that it leaves free.

A numeric factor with several values is the x axis. Otherwise each combination of factors is a row with a dot, so that
its name stands beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from textwrap import wrap

import altair as alt
import polars as pl

from weir.metrics.expect import Value
from weir.metrics.summary import Summarised
from weir.report import theme
from weir.report._text import Unit, greatest, least, shortened, unit_for
from weir.report.charts._base import (
    CUT,
    Drawing,
    Medium,
    RunChart,
    category_scale,
    is_cut,
    legend,
    named,
    plain_spec,
    relabel,
    tooltip,
)
from weir.report.lead import DIFFERS, direction, origin
from weir.report.view import Factor, RunView, axis_of, series_of

__all__ = ["CHART", "chart_of"]

_FEW_VALUES = 3
"""A numeric factor with more values is an axis."""
_SHORT = 12
"""Characters of the longest name of a row, up to which three panels fit beside each other on a sheet of paper."""
_LABELLED = 10
"""Up to so many rows have their values beside the dots."""
_MANY_ROWS = 60
_MANY_COLOURS = 7
_MANY_PANELS = 12
_NO_FACTOR = "the run"
"""Names the row of a figure whose expression leaves no factor free."""
_TOLD = 4
"""Places without a value that a remark names."""
_WIDE = 2
"""An interval that is wider than so many times the range of the values and zero is cut."""
_FLAT = 0.6
"""If the smallest value is at least this share of the largest, a scale does not begin at zero."""


@dataclass(frozen=True)
class _Layout:
    """What the factors are in the picture."""

    x: Factor | None
    rows: tuple[Factor, ...]
    colour: Factor | None
    panels: tuple[Factor, ...] = ()


def _layout(run: RunView, one: Summarised, figures: Sequence[Summarised]) -> _Layout:
    """A numeric factor of many values as x axis, the factor with the largest effect on the figures as colour.

    Without such an axis, names are rows, and the factor with the largest effect among the others is the colour. Only
    the factors that the expression of ``one`` leaves free count.
    """
    free = run.free(one)
    numeric = axis_of(free)
    axis = numeric if numeric is not None and len(numeric.values) > _FEW_VALUES else None
    first = axis or series_of(free) or numeric
    left = sorted((f for f in free if f is not first), key=lambda f: -effect(f, figures))
    colour = next((f for f in left if len(f.values) <= _MANY_COLOURS or axis is not None), None)
    rest = tuple(f for f in left if f is not colour)
    if axis is not None:
        return _Layout(axis, (), colour, rest)
    return _Layout(None, tuple(f for f in (first, *rest) if f is not None), colour)


def effect(factor: Factor, figures: Sequence[Summarised]) -> float:
    """How much the figures change with a factor: the range of the means at its values, relative to the largest."""
    found = [0.0]
    for one in figures:
        means = [
            fmean(values)
            for value in factor.values
            if (values := [v.value for v in one.known if v.factors.get(factor.name) == value])
        ]
        largest = max(map(abs, means), default=0.0)
        found.append((max(means) - min(means)) / largest if largest else 0.0)
    return max(found)


def _draw(run: RunView, medium: Medium, figures: Sequence[Summarised] | None = None) -> Drawing | None:
    shown = [one for one in (run.figures if figures is None else figures) if one.known]
    if not shown or not run.swept:
        return None
    panels, said = _panels(run, shown)
    if not panels:
        return None
    rows = pl.concat([panel.rows for panel in panels])
    parts = [_panel(medium, k, panel) for k, panel in enumerate(panels)]
    narrow = all(panel.layout.x is None for panel in panels)
    columns = 1 if len(parts) == 1 else 3 if len(parts) % 3 == 0 and narrow else 2
    spec = parts[0] if len(parts) == 1 else alt.concat(*parts, columns=columns)
    if len({panel.layout.colour.name for panel in panels if panel.layout.colour}) > 1:
        spec = spec.resolve_scale(color="independent")
    lacking = [text for one in shown for text in _without_value(run, one)]
    if lacking and not medium.page:
        spec = spec.properties(title=_footnote(lacking, 1 if len(parts) == 1 else 2))
    said += lacking
    said += [f"{one.figure.name}: {good}." for one in shown if (good := direction(one.figure))]
    if run.repeats > 1:
        cut = CUT if any(is_cut(panel.rows, _scale(panel.rows)) for panel in panels) else ""
        said.append(f"Mean over {run.counted.have} with its 95 % confidence interval{cut}.")
    longest = max(len(name) for name in rows["row"])
    width = 300 if not narrow else 180 if longest <= _SHORT else 220
    names = {"value": "value", "low": "95 % confidence, low", "high": "95 % confidence, high", "n": "repeats"}
    return Drawing(
        plain_spec(spec), {"summary": rows}, _say(panels), tuple(said), columns=columns,
        panel_width=width, span=1 if len(parts) == 1 else 2, csv_names=names,
        caption=f"{origin(run.run, shown)} {CHART.caption}" if figures is None else "",
    )  # fmt: skip


@dataclass(frozen=True)
class _Panel:
    title: str
    rows: pl.DataFrame
    layout: _Layout


def _panels(run: RunView, figures: Sequence[Summarised]) -> tuple[list[_Panel], list[str]]:
    """The panels of each figure, and remarks."""
    found: list[_Panel] = []
    said: list[str] = []
    for one in figures:
        unit, layout = _unit(one), _layout(run, one, figures)
        values = run.in_order(one)
        if layout.x is None and len(values) > _MANY_ROWS:
            said.append(f"The first {_MANY_ROWS} of {len(values)} cells.")
            values = values[:_MANY_ROWS]
        for key in dict.fromkeys(_texts(value, layout.panels) for value in values):
            title = ", ".join([one.figure.name, *(f"{f.name} {v}" for f, v in zip(layout.panels, key, strict=True))])
            own = [value for value in values if _texts(value, layout.panels) == key]
            rows = _rows(own, one, layout, unit, len(found))
            if rows["value"].is_not_null().any():
                found.append(_Panel(f"{title} ({unit.label})" if unit.label else title, rows, layout))
    said = list(dict.fromkeys(said))
    if len(found) > _MANY_PANELS:
        said.append(f"The first {_MANY_PANELS} of {len(found)} panels.")
    titles = shortened([panel.title for panel in found[:_MANY_PANELS]], 60)
    return [replace(panel, title=title) for title, panel in zip(titles, found, strict=False)], said


def _without_value(run: RunView, one: Summarised) -> list[str]:
    """Says which places of the sweep have no value of a figure, and why; a remark for each reason."""
    places: dict[str, list[str]] = {}
    for value in one.values:
        if value not in one.known:
            reason = (value.note or "undefined").removeprefix(f"{one.figure.value}: ")
            places.setdefault(reason, []).append(_row(value, run.free(one)))
    return [
        f"{one.figure.name}: no value for {_listed(several)}: {reason.rstrip('.')}."
        for reason, several in places.items()
    ]


def _footnote(texts: Sequence[str], span: int) -> alt.TitleParams:
    """``texts`` below a figure for paper: nobody reads the remarks of the page beside it."""
    lines = [line for text in texts for line in wrap(text, 62 if span == 1 else 140)]
    return alt.TitleParams(lines, orient="bottom", anchor="start", fontSize=6, fontWeight="normal", offset=6)


def _listed(places: Sequence[str]) -> str:
    more = len(places) - _TOLD
    told = "; ".join(shortened(places[:_TOLD], 40))
    return f"{told}; and {more} more" if more > 0 else told


def _texts(value: Value, factors: Sequence[Factor]) -> tuple[str, ...]:
    return tuple(value.factors[f.name] for f in factors)


def _unit(one: Summarised) -> Unit:
    """The display unit of a figure."""
    first = one.known[0]
    if first.percent:
        return Unit("%", 0.01, "percent")
    return unit_for(max(abs(first.amount(v.value)) for v in one.known), first.unit)


_SCHEMA = {"panel": pl.Int64, "figure": pl.String, "row": pl.String, "x": pl.Float64, "series": pl.String,
           "value": pl.Float64, "low": pl.Float64, "high": pl.Float64, "n": pl.Int64, "label": pl.String}  # fmt: skip


def _rows(values: Sequence[Value], one: Summarised, layout: _Layout, unit: Unit, panel: int) -> pl.DataFrame:
    """A row for each of ``values``."""
    numbers = dict(zip(layout.x.values, layout.x.numbers or (), strict=True)) if layout.x else {}
    x_unit = unit_for(max(numbers.values(), default=0), layout.x.base) if layout.x else None
    rows = []
    for found in values:
        if found in one.known or layout.x is None:  # a row without a dot is a missing value
            value, low, high = (found.amount(b) / unit.factor for b in (found.value, found.low, found.high))
            rows.append({
                "panel": panel,
                "figure": one.figure.name,
                "row": _row(found, layout.rows) or _NO_FACTOR,
                "x": numbers[found.factors[layout.x.name]] / x_unit.factor if layout.x and x_unit else None,
                "series": found.factors[layout.colour.name] if layout.colour else None,
                "value": value,
                "low": low,
                "high": high,
                "n": found.repeats,
                "label": unit.text(value * unit.factor),
            })  # fmt: skip
    return pl.DataFrame(rows, schema=_SCHEMA).with_columns(pl.col("value", "low", "high").fill_nan(None))


def _row(value: Value, factors: Sequence[Factor]) -> str:
    return ", ".join(f"{f.name} {value.factors[f.name]}" if f.numeric else value.factors[f.name] for f in factors)


def _panel(medium: Medium, number: int, panel: _Panel) -> alt.LayerChart:
    layout, title, frame = panel.layout, panel.title, panel.rows
    base = alt.Chart(named("summary")).transform_filter(f"datum.panel === {number}")
    colour: alt.Color | alt.Value[str] = alt.value(theme.ACCENT)
    if layout.colour is not None:
        names = layout.colour.values
        key = legend(names, medium, symbolOpacity=1)
        colour = alt.Color("series:N", title=layout.colour.name, scale=category_scale(names, "color"), legend=key)
    scale = _scale(frame)
    if layout.x is not None:
        return _lines(layout, medium, base, colour, scale, title, frame)
    return _dots(layout, medium, base, colour, scale, title, frame)


def _scale(frame: pl.DataFrame) -> alt.Scale:
    """From zero, or around the values if they are all far from it, with room for the intervals.

    An interval that is wider than twice the range of the values and zero would flatten them: it is cut at 60 % of the
    values' own range beyond them.
    """
    low, high = least(frame["value"]), greatest(frame["value"])
    flat = low > 0 and low >= _FLAT * high
    reach = max(0.0, high) - min(0.0, low)
    room = 0.6 * (high - low or abs(high) or 1.0)
    known = frame.filter(pl.col("low").is_not_null(), pl.col("high").is_not_null())
    wide = pl.col("high") - pl.col("low") > _WIDE * reach
    fits, cut = known.filter(~wide), known.filter(wide)
    bottom = min([low, *fits["low"], *(max(end, low - room) for end in cut["low"])])
    top = max([high, *fits["high"], *(min(end, high + room) for end in cut["high"])])
    margin = 0.08 * (top - bottom or abs(high) or 1.0)
    if flat:
        # what is no difference in the sentences must not fill the picture either
        margin = max(margin, (DIFFERS * high - (top - bottom)) / 2)
        return alt.Scale(domain=[bottom - margin, top + margin], nice=False, zero=False)
    return alt.Scale(domain=[min(0.0, bottom), max(0.0, top) + margin], nice=False)


_INTERVAL = ("low:Q", "95 % from", ".4~g"), ("high:Q", "to", ".4~g"), ("n:Q", "repeats")


def _dots(
    layout: _Layout, medium: Medium, base: alt.Chart, colour: alt.Color | alt.Value[str], scale: alt.Scale,
    title: str, frame: pl.DataFrame,
) -> alt.LayerChart:  # fmt: skip
    names = list(dict.fromkeys(frame["row"]))
    labels = alt.Axis(grid=True, labelExpr=relabel(names, 28), labelLimit=220 if medium.page else 110)
    rows = alt.Scale(domain=names, paddingInner=0.5) if layout.colour else alt.Scale(domain=names)
    y = alt.Y("row:N", sort=names, title=None, axis=labels, scale=rows)
    # One above the other within a row, so that equal values do not hide each other.
    beside = {"yOffset": alt.YOffset("series:N", sort=list(layout.colour.values))} if layout.colour else {}
    x = alt.X("value:Q", title=title, scale=scale, axis=alt.Axis(grid=True, tickCount=4, labelSeparation=8))
    series = (("series:N", layout.colour.name),) if layout.colour else ()
    tips = tooltip(medium, ("row:N", "at"), *series, ("label:N", title), *_INTERVAL)
    layers: list[alt.Chart] = []
    if frame["low"].is_not_null().any():
        layers.append(
            base.mark_rule(clip=True, opacity=0.5).encode(
                x=alt.X("low:Q", title=title, scale=scale), x2="high:Q", y=y, color=colour, **beside
            )
        )
    size = 64 if medium.page else 18
    layers.append(base.mark_point(opacity=1, size=size).encode(x=x, y=y, color=colour, tooltip=tips, **beside))
    if layout.colour is None and len(names) <= _LABELLED:
        layers.append(base.mark_text(dy=-10 if medium.page else -6).encode(x=x, y=y, text="label:N"))
    colours = len(layout.colour.values) if layout.colour else 0
    step = max(24 if colours else 30, 12 * colours) if medium.page else max(13, 6 * colours)
    layered: alt.LayerChart = alt.layer(*layers)  # type: ignore[assignment]  # no layer is a facet
    return layered.properties(height=max(3 * step // 2, step * len(names)))


def _lines(
    layout: _Layout, medium: Medium, base: alt.Chart, colour: alt.Color | alt.Value[str], scale: alt.Scale,
    title: str, frame: pl.DataFrame,
) -> alt.LayerChart:  # fmt: skip
    assert layout.x is not None
    unit = unit_for(max(layout.x.numbers or (0,)), layout.x.base)
    ticks = [n / unit.factor for n in layout.x.numbers or ()]
    x = alt.X(
        "x:Q",
        title=f"{layout.x.name} ({unit.label})" if unit.label else layout.x.name,
        axis=alt.Axis(values=ticks, format=".6~g", grid=False),
        scale=alt.Scale(nice=False, padding=6),
    )
    y = alt.Y("value:Q", title=title, scale=scale, axis=alt.Axis(tickCount=5))
    tips = tooltip(medium, ("label:N", title), *_INTERVAL)
    layers: list[alt.Chart] = []
    if frame["low"].is_not_null().any():
        low = alt.Y("low:Q", title=title, scale=scale)
        layers.append(base.mark_area(opacity=0.14, clip=True).encode(x=x, y=low, y2="high:Q", color=colour))
    layers += [
        base.mark_line(clip=True).encode(x=x, y=y, color=colour),
        base.mark_point(opacity=1).encode(x=x, y=y, color=colour, tooltip=tips),
    ]
    layered: alt.LayerChart = alt.layer(*layers)  # type: ignore[assignment]  # no layer is a facet
    return layered.properties(height=medium.height)


def _say(panels: Sequence[_Panel]) -> str:
    parts = [f"{p.title}: from {least(p.rows['value']):.3g} to {greatest(p.rows['value']):.3g}" for p in panels]
    return "; ".join(parts) + "."


def chart_of(figures: Sequence[Summarised]) -> RunChart:
    """The picture of other figures than the run's own, such as those of the command line."""
    return RunChart("chart", "Chart", CHART.section, ("goodput",), CHART.caption, partial(_draw, figures=figures))


CHART = RunChart(
    name="summary",
    title="The leading figures",
    section="Summary",
    needs=("goodput",),
    caption="A scale begins at zero, unless the smallest value is at least 60 % of the largest; it then spans at least "
    "2 % of them.",
    draw=_draw,
)
