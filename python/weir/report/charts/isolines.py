"""Lines of equal output over input over the rates of two constant-rate flows: figures 11 and 12 of LIP 2006-38.

Shown if the sweep has exactly two rates, with at least three values each, and all flows under test send at constant
rates: for them, input is what the scenario offers, through a switch or any other network. Each workload entry and each
combination of the other factors has a panel, up to six.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from weir.report._text import Unit, distinct, unit_for
from weir.report.charts._base import Drawing, Medium, RunChart, header, named, plain_spec, tooltip
from weir.report.contours import isolines, length
from weir.report.view import Factor, RunView

__all__ = ["CHART"]

METRIC = "port.ratio"

_LEAST = 3
"""Values of each rate; between fewer, lines say nothing."""
_PANELS = 6
_LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)
"""Above the last one all packets count as passed: some are under way when a phase ends."""
_LABELLED = 0.15
"""Part of an axis that a line is long at least if its level stands on it: the text would cover a shorter one."""


def _rates(run: RunView) -> tuple[Factor, Factor] | None:
    """The two rates of the sweep; ``None``: there are fewer, more, or those of too few values."""
    rates = [f for f in run.swept if f.base == "bit/s"]
    if len(rates) != 2 or any(len(f.values) < _LEAST for f in rates):
        return None
    return rates[0], rates[1]


def _constant(run: RunView) -> bool:
    return all(flow.kind == "cbr" for view in run.combinations for flow in view.tested)


def _draw(run: RunView, medium: Medium) -> Drawing | None:
    rates = _rates(run)
    if rates is None or not _constant(run):
        return None
    summary = run.summary_by_entry(METRIC).drop_nulls("value")
    if summary.is_empty():
        return None
    phases = summary["phase"].drop_nulls()
    last = phases[-1] if len(phases) else None
    summary = summary.filter(pl.col("phase").eq_missing(pl.lit(last, pl.String)))
    units = [unit_for(max(rate.numbers or (0,)), rate.base) for rate in rates]
    others = [f.name for f in run.swept if f not in rates]
    keys = ["group", *others]
    found = summary.partition_by(keys, as_dict=True)
    order = sorted(found, key=lambda key: _rank(run, key, others))
    names = dict(zip(order, distinct([", ".join(map(str, key)) for key in order]), strict=True))
    parts, flat = [], []
    for key in order[:_PANELS]:
        lines = _lines(found[key], rates, units)
        parts.append(lines.select(pl.lit(names[key]).alias("panel"), pl.all()))
        flat += [names[key]] if lines.is_empty() else []
    data = pl.concat(parts)
    if data.is_empty():
        return None
    panels = [name for name in names.values() if name in set(data["panel"])]
    notes = [f"No line, because the ratio crosses none of the levels: {', '.join(flat)}."] if flat else []
    if len(order) > _PANELS:
        notes.append(f"The first {_PANELS} of {len(order)} panels are drawn.")
    where = f", phase {last}" if last else ""
    text = f"Lines of equal output over input{where} over {rates[0].name} and {rates[1].name}, {len(panels)} panels."
    across = min(len(panels), max(1, len(order) // len(run.entries)), 3)
    spec = _spec(medium, rates, units, data, panels, across, f"Output over input{where}")
    csv = {"x": _title(rates[0], units[0]), "y": _title(rates[1], units[1]), "level": "output over input"}
    return Drawing(spec, {"isolines": data}, text, tuple(notes), columns=across, panel_width=240, span=2, csv_names=csv)


def _rank(run: RunView, key: tuple[object, ...], others: Sequence[str]) -> list[int]:
    """The place of a panel: entries in their order, then the factors' values in theirs."""
    values = {factor.name: factor.values for factor in run.factors}
    named_values = zip(others, key[1:], strict=True)
    return [run.entries.index(str(key[0])), *(values[name].index(str(value)) for name, value in named_values)]


def _lines(rows: pl.DataFrame, rates: tuple[Factor, Factor], units: Sequence[Unit]) -> pl.DataFrame:
    """The lines of a panel, over rates in their units; with the place of each label."""
    first, second = rates
    values = np.full((len(first.values), len(second.values)), np.nan)
    for one, two, value in rows.select(first.name, second.name, "value").rows():
        values[first.values.index(one), second.values.index(two)] = value
    x, y = ([n / unit.factor for n in rate.numbers or ()] for rate, unit in zip(rates, units, strict=True))
    lines = isolines(x, y, values, _LEVELS).with_columns(pl.col("order").cast(pl.Float64), label=pl.lit(False))
    across, up = max(x) - min(x), max(y) - min(y)
    parts = [
        _labelled(line) if length(line, across, up) >= _LABELLED else line.with_columns(level=_level(line))
        for line in lines.partition_by("line", maintain_order=True)
    ]
    return pl.concat(parts) if parts else lines.with_columns(level=pl.lit("", pl.String))


def _labelled(line: pl.DataFrame) -> pl.DataFrame:
    """A line with its level as text, and with a further point halfway, where the text is written."""
    middle = line.slice((line.height - 1) // 2, 2 - line.height % 2).with_columns(label=pl.lit(True))
    halfway = middle.group_by("level", "line", "label").agg(pl.col("order", "x", "y").mean()).select(line.columns)
    return pl.concat([line, halfway]).sort("order").with_columns(level=_level(line))


def _level(line: pl.DataFrame) -> pl.Expr:
    return pl.lit(f"{line['level'][0]:g}")


def _title(rate: Factor, unit: Unit) -> str:
    return f"{rate.name} ({unit.label})"


def _spec(
    medium: Medium, rates: Sequence[Factor], units: Sequence[Unit], data: pl.DataFrame, panels: Sequence[str],
    across: int, title: str,
) -> dict[str, Any]:  # fmt: skip
    levels = [f"{level:g}" for level in _LEVELS if f"{level:g}" in set(data["level"])]
    axes: list[dict[str, Any]] = [
        {
            "title": _title(rate, unit),
            "scale": alt.Scale(domain=[min(rate.numbers or ()) / unit.factor, max(rate.numbers or ()) / unit.factor],
                               nice=False),
            "axis": alt.Axis(tickCount=5, grid=False),
        }
        for rate, unit in zip(rates, units, strict=True)
    ]  # fmt: skip
    if medium.page:  # there, the title of such an axis lies above the panel, where its name is
        axes[1]["title"], title = None, f"{title}; upwards: {_title(rates[1], units[1])}"
    x, y = alt.X("x:Q", **axes[0]), alt.Y("y:Q", **axes[1])
    colours = alt.Scale(scheme="viridis", domain=levels)
    look = alt.Legend(title=None, symbolOpacity=1, symbolType="stroke")
    line = (
        alt.Chart()
        .mark_line(strokeWidth=1.6 if medium.page else 0.9)
        .encode(
            x=x, y=y, detail="line:N", order="order:Q",
            color=alt.Color("level:N", sort=levels, scale=colours, legend=look),
            tooltip=tooltip(medium, ("level:N", "output over input")),
        )
    )  # fmt: skip
    size = 11 if medium.page else 6
    label = alt.Chart().transform_filter("datum.label").encode(x=x, y=y, text="level:N")
    halo = label.mark_text(fontSize=size, stroke="white", strokeWidth=size / 3, strokeJoin="round")
    ink = label.mark_text(fontSize=size, color="#222222")
    layers: alt.LayerChart = alt.layer(line, halo, ink, data=named("isolines"))  # type: ignore[assignment]
    height = 240 if medium.page else 125
    spec = layers.properties(height=height).facet(
        facet=alt.Facet("panel:N", sort=list(panels), title=None, header=header(panels, 30)),
        columns=across,
        spacing=24 if medium.page else 14,
    )
    return plain_spec(spec.properties(title=alt.TitleParams(title, anchor="start")))


CHART = RunChart(
    name="isolines",
    title="Isolines of output over input",
    section="Metrics against the swept parameters",
    needs=(METRIC,),
    caption="Lines along which a workload entry's output over input (port.ratio: packets delivered over packets sent) "
    "is the same, over the two rates of the sweep, interpolated between their values; mean over the repeats, in the "
    "last phase of the scenario. Where no line is beyond that of 0.99, less than 1 % is lost.",
    draw=_draw,
)
