"""A map of a figure: metrics over two factors, a panel for each, and the cells that other metrics mark."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from weir.report import theme
from weir.report.charts import Drawing, named, plain_spec
from weir.study.claims._judge import State
from weir.study.claims._papers import Figure, Table
from weir.study.claims._store import Result

__all__ = ["draw_map", "read_map"]

_WIDE, _HIGH = 36, 26
_MARKS = ("outlined", "dotted")
_SCHEMA = {
    "panel": pl.String,
    "x": pl.String,
    "y": pl.String,
    "value": pl.Float64,
    "outlined": pl.Float64,
    "dotted": pl.Float64,
}


def read_map(figure: Figure, _: State, result: Result) -> pl.DataFrame | None:
    """The values of a cell, and 1 where the metrics ``outlined`` and ``dotted``, if given, are below 1, else 0."""
    options = figure.options
    values = [result.number(panel["metric"]) for panel in options["maps"]]
    marks = [result.number(options[name]) if name in options else 1.0 for name in _MARKS]
    if None in values or None in marks:
        return None
    x, y = result.factors[options["over"]], result.factors[options["by"]]
    flags = [float(mark < 1) for mark in marks if mark is not None]
    rows = [
        (panel["unit"], x, y, value / panel.get("scale", 1.0), *flags)
        for panel, value in zip(options["maps"], values, strict=True)
        if value is not None
    ]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def draw_map(figure: Figure, frames: list[Any], _: Table | None) -> Drawing:
    """Means over the repeats as colours and figures; frames and dots mark cells."""
    cells = pl.concat([frame for _, frame in frames])
    data = cells.group_by("panel", "x", "y", maintain_order=True).agg(pl.all().mean())
    parts = {f"map{i}": data.filter(pl.col("panel") == panel["unit"]) for i, panel in enumerate(figure.options["maps"])}
    maps = [
        _one(figure, name, part, panel)
        for (name, part), panel in zip(parts.items(), figure.options["maps"], strict=True)
    ]
    chart = alt.hconcat(*maps).resolve_scale(color="independent") if len(maps) > 1 else maps[0]
    return Drawing(plain_spec(chart), parts, figure.title, columns=len(maps), span=2)


def _one(figure: Figure, name: str, data: pl.DataFrame, panel: Any) -> Any:
    across, up = (list(dict.fromkeys(data[axis])) for axis in ("x", "y"))
    values = data["value"].to_numpy()
    middle = (float(values.min()) + float(values.max())) / 2
    x = alt.X("x:N", title=figure.options["axis"], sort=across, axis=alt.Axis(labelAngle=0))
    y = alt.Y("y:N", title=figure.options["side"], sort=up[::-1])
    base = alt.Chart(named(name)).encode(x=x, y=y)
    whole = base.mark_rect().encode(color=alt.Color("value:Q", legend=None, scale=alt.Scale(scheme="blues")))
    shade = alt.condition(f"datum.value > {middle:g}", alt.value("white"), alt.value("#111111"))
    form = alt.Text("value:Q", format=panel.get("format", ".2f"))
    text = base.mark_text(fontSize=7).encode(text=form, color=shade)
    frame = base.mark_rect(filled=False, strokeWidth=1.6, color=theme.SECOND).transform_filter("datum.outlined > 0.5")
    dot = base.mark_point(filled=True, size=10, yOffset=8, color=theme.SECOND).transform_filter("datum.dotted > 0.5")
    layers = alt.layer(whole, text, frame, dot)
    return layers.properties(width=_WIDE * len(across), height=_HIGH * len(up), title=panel["unit"])
