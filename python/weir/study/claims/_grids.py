"""Figures of switches: isolines over two rates, and packet numbers at an output port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from weir.metrics.expect import name_of
from weir.report.charts import Drawing, category_scale, named, plain_spec
from weir.report.contours import isolines, length
from weir.study.claims._judge import State
from weir.study.claims._papers import Figure, Table
from weir.study.claims._store import Result

__all__ = ["draw_isolines", "draw_sequence", "read_isolines", "read_sequence"]

_SPAN = 1000.0
"""Rates on the axes, Mb/s."""
_NUMBERED = 0.15
"""Part of an axis that a line is long at least if a number stands on it: the number would cover a shorter one."""

_Frames = Sequence[tuple[Mapping[str, str], pl.DataFrame]]


def read_isolines(figure: Figure, _: State, result: Result) -> pl.DataFrame | None:
    """A point of the grid."""
    value = result.values.get(name_of(figure.options["metric"]))
    if not isinstance(value, float | int):
        return None
    x, y = (_rate(result.factors[name]) for name in figure.options["over"])
    return pl.DataFrame({"x": [x], "y": [y], "value": [value / figure.options.get("scale", 1.0)]})


def _rate(text: str) -> float:
    """A rate in Mb/s."""
    for unit, factor in (("Gbps", 1000.0), ("Mbps", 1.0), ("kbps", 0.001)):
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    return float(text)


def draw_isolines(figure: Figure, frames: _Frames, _: Table | None) -> Drawing:
    """Lines of equal value over two rates, a panel for each value of ``panels``."""
    by, levels = figure.options["panels"], [float(level) for level in figure.options["levels"]]
    panels = list(dict.fromkeys(factors[by] for factors, _ in frames))
    parts = []
    for panel in panels:
        points = pl.concat([frame for factors, frame in frames if factors[by] == panel])
        x, y = (sorted(set(points[name])) for name in ("x", "y"))
        values = np.full((len(x), len(y)), np.nan)
        for at_x, at_y, value in points.select("x", "y", "value").rows():
            values[x.index(at_x), y.index(at_y)] = value
        parts.append(_numbered(isolines(x, y, values, levels)).select(pl.lit(panel).alias("panel"), pl.all()))
    data = pl.concat(parts)
    ends = alt.Scale(domain=[0, _SPAN])
    base = alt.Chart(named("lines")).encode(
        x=alt.X("x:Q", title="Rate of flow 1 (Mb/s)", scale=ends, axis=alt.Axis(tickCount=5)),
        y=alt.Y("y:Q", title="Rate of flow 2 (Mb/s)", scale=ends, axis=alt.Axis(tickCount=5)),
        color=alt.Color(
            "level:O", title=figure.options["unit"], scale=alt.Scale(domain=levels, scheme="turbo"), legend=alt.Legend()
        ),
    )
    # A level's number stands on its longest line; a white edge keeps it readable.
    number = (
        base.mark_text(fontSize=6.5)
        .encode(text="number:N", color=alt.value("#333333"))
        .transform_filter("datum.number != null")
    )
    edge = number.mark_text(fontSize=6.5, stroke="white", strokeWidth=2.5)
    lines = base.mark_line(strokeWidth=1).encode(detail="line:N", order="order:Q")
    lines = (
        alt.layer(lines, edge, number)
        .properties(width=130, height=130)
        .facet(alt.Facet("panel:N", title=None, sort=panels), columns=3)
    )
    return Drawing(plain_spec(lines), {"lines": data}, figure.title, columns=min(3, len(panels)), span=2)


def _numbered(lines: pl.DataFrame) -> pl.DataFrame:
    """The lines with a column ``number``: the level at one point of its longest line, which differs between levels.

    A level whose lines are all too short has no number.
    """
    places = {}
    for turn, ((level,), part) in enumerate(lines.group_by("level", maintain_order=True)):
        longest = max(part.partition_by("line", maintain_order=True), key=lambda one: length(one, _SPAN, _SPAN))
        if length(longest, _SPAN, _SPAN) >= _NUMBERED:
            places[longest["line"][0]] = (round((len(longest) - 1) * (0.35 + 0.15 * (turn % 3))), f"{level:g}")
    texts = {(line, order): text for line, (order, text) in places.items()}
    numbers = [texts.get(row) for row in lines.select("line", "order").rows()]
    return lines.with_columns(pl.Series("number", numbers, dtype=pl.String))


def read_sequence(figure: Figure, _: State, result: Result) -> pl.DataFrame | None:
    """Packets at the output, with the time since the figure's ``from_ms`` in microseconds."""
    drawn = result.drawn.get(figure.options.get("drawn", "sequence"))
    if not drawn:
        return None
    begin, end = (1000 * figure.options[key] for key in ("from_ms", "to_ms"))
    rows = [
        (flow, time - begin, number)
        for flow, packets in drawn["flows"].items()
        for time, number in zip(packets["time_us"], packets["number"], strict=True)
        if begin <= time < end
    ]
    return pl.DataFrame(rows, schema={"flow": pl.String, "x": pl.Float64, "value": pl.Int64}, orient="row")


def draw_sequence(figure: Figure, frames: _Frames, _: Table | None) -> Drawing:
    """A mark for each packet at the output: its number in its flow against the time."""
    by = figure.options["panels"]
    data = pl.concat([frame.with_columns(pl.lit(factors[by]).alias("panel")) for factors, frame in frames])
    # Numbers count from the first packet that a panel shows.
    data = data.with_columns(pl.col("value") - pl.col("value").min().over("panel", "flow"))
    panels, flows = (list(dict.fromkeys(data[name])) for name in ("panel", "flow"))
    span_us = 1000 * (figure.options["to_ms"] - figure.options["from_ms"])
    many = span_us > 2000
    data = data.with_columns(pl.col("x") / (1000 if many else 1))
    marks: dict[str, Any] = {"filled": True, "size": 3 if many else 14, "opacity": 0.9}
    chart = (
        alt.Chart(named("packets"))
        .mark_point(**marks)
        .encode(
            x=alt.X("x:Q", title="Time (ms)" if many else "Time (us)", axis=alt.Axis(tickCount=5)),
            y=alt.Y("value:Q", title="Packet of its flow", axis=alt.Axis(tickCount=4)),
            color=alt.Color("flow:N", title=None, scale=category_scale(flows, "color")),
            shape=alt.Shape("flow:N", title=None, scale=category_scale(flows, "shape")),
        )
        .properties(width=150, height=110)
        .facet(alt.Facet("panel:N", title=None, sort=panels), columns=3)
        .resolve_scale(y="independent")
    )
    return Drawing(plain_spec(chart), {"packets": data}, figure.title, columns=min(3, len(panels)), span=2)
