"""Curves of a figure that have names: stored functions of time, and the drop profiles of RED in a scenario."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from weir.plan import typed
from weir.report.charts import Drawing, category_scale, named, plain_spec
from weir.study.claims._judge import State
from weir.study.claims._papers import Figure, Table
from weir.study.claims._store import Result

__all__ = ["curves", "profiles", "read_curves", "read_profiles"]

_OURS, _PAPERS = "weir", "paper"
_WIDE, _HIGH, _PANEL = 220, 120, 110


def read_curves(figure: Figure, _: State, result: Result) -> pl.DataFrame | None:
    """The drawings that ``curves`` names, as points in the middle of their intervals; only of the first repeat."""
    names = figure.options["curves"]
    if result.repeat or not set(names) <= set(result.drawn):
        return None
    rows = []
    for name in names:
        drawn = result.drawn[name]
        for values in drawn["curves"].values():
            step = drawn["end_s"] / len(values)
            rows += [(name, (i + 0.5) * step, value, _OURS) for i, value in enumerate(values)]
    return _frame(rows)


def curves(figure: Figure, frames: list[Any], _: Table | None) -> Drawing:
    """A line for each drawing, the paper's values (``steps``) dashed; a panel for each value of ``panels``."""
    factor = figure.options.get("panels")
    parts = [frame.with_columns(panel=pl.lit(factors[factor] if factor else "")) for factors, frame in frames]
    panels = list(dict.fromkeys(name for part in parts for name in part["panel"]))
    told = [
        _frame([(name, float(time), float(value), _PAPERS)]).with_columns(panel=pl.lit(panel))
        for panel in panels
        for name, steps in figure.options.get("steps", {}).items()
        for begin, end, value in steps
        for time in (begin, end)
    ]
    data = pl.concat([*parts, *told]).with_row_index("order")
    end = round(float(data.drop_nulls("value")["x"].to_numpy().max()))
    x = alt.X("x:Q", title="Time (s)", scale=alt.Scale(domain=[0, end], nice=False), axis=alt.Axis(tickCount=5))
    chart = _lines(data, figure, x, told=bool(told))
    if not factor:
        return Drawing(plain_spec(chart.properties(width=_WIDE, height=_HIGH)), {"curves": data}, figure.title, span=2)
    facet = chart.properties(width=_PANEL, height=_HIGH).facet(
        alt.Facet("panel:N", title=None, sort=panels), columns=len(panels)
    )
    return Drawing(plain_spec(facet), {"curves": data}, figure.title, columns=len(panels), span=2)


def read_profiles(_: Figure, state: State, result: Result) -> pl.DataFrame | None:
    """Probability of a drop against the average fill, both in percent, of the first queue that has drop curves.

    From the plan of the cell. The fill counts from 0 to the curve's upper threshold. ``None`` without such a queue.
    """
    cell = next(one for one in state.scenario.cells() if dict(one.factors) == dict(result.factors))
    queues = [link.queue for link in typed(cell.plan()).links]
    queues += [one.queue for queue in queues for one in getattr(queue, "classes", ())]
    found = next((curve for queue in queues for curve in getattr(queue, "curves", ())), None)
    if result.repeat or found is None:
        return None
    begin = 100 * found.min_bytes / found.max_bytes
    return _frame([("", x, y, _OURS) for x, y in ((0.0, 0.0), (begin, 0.0), (100.0, 100 * found.max_p))])


def profiles(figure: Figure, frames: list[Any], _: Table | None) -> Drawing:
    """A line for each value of ``by``; cells that differ in something else have the same profiles."""
    parts = [frame.with_columns(curve=pl.lit(factors[figure.options["by"]])) for factors, frame in frames]
    data = pl.concat(parts).unique(maintain_order=True).with_row_index("order")
    x = alt.X("x:Q", title=figure.options["axis"], scale=alt.Scale(domain=[0, 100]))
    chart = _lines(data, figure, x, told=False).properties(width=_WIDE, height=_HIGH)
    return Drawing(plain_spec(chart), {"curves": data}, figure.title, span=2)


def _lines(data: pl.DataFrame, figure: Figure, x: alt.X, *, told: bool) -> Any:
    names, sources = list(dict.fromkeys(data["curve"])), [_OURS, _PAPERS]
    return (
        alt.Chart(named("curves"))
        .mark_line(strokeWidth=0.9)
        .encode(
            x=x,
            y=alt.Y("value:Q", title=figure.options["unit"], scale=alt.Scale(zero=True)),
            color=alt.Color(
                "curve:N",
                title=None,
                scale=category_scale(names, "color"),
                legend=alt.Legend() if len(names) > 1 else None,
            ),
            strokeDash=alt.StrokeDash(
                "source:N",
                title=None,
                scale=alt.Scale(domain=sources, range=[[1, 0], [4, 2]]),
                legend=alt.Legend() if told else None,
            ),
            order="order:Q",
        )
    )


def _frame(rows: list[tuple[str, float, float | None, str]]) -> pl.DataFrame:
    schema = {"curve": pl.String, "x": pl.Float64, "value": pl.Float64, "source": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")
