"""Redraws figures of the papers from stored results.

Values of the paper are hollow points on dashed lines, or dashed steps; ours are solid.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import altair as alt
import polars as pl

from weir.report import theme
from weir.report.charts import Chart, Drawing, category_scale, named, plain_spec
from weir.report.figures import render_svg
from weir.report.spec import rows_of
from weir.study.claims._curves import curves, profiles, read_curves, read_profiles
from weir.study.claims._grids import draw_isolines, draw_sequence, read_isolines, read_sequence
from weir.study.claims._judge import State, kept_cells
from weir.study.claims._maps import draw_map, read_map
from weir.study.claims._messages import draw_messages, read_messages
from weir.study.claims._papers import Figure, Papers, Table
from weir.study.claims._store import Result, Unit

__all__ = ["Redrawn", "draw", "state_of"]

_OURS, _PAPERS = "weir", "paper"
_QUIET = "#666666"
_TOLD_APART = 4
"""Flows of which each has a colour in the legend; of more, a figure shows how they spread."""


def state_of(figure: Figure | Table, known: Mapping[Unit, State], method: str) -> State | None:
    """The results that a figure shows: of the first of its versions that has any it can use."""
    own = figure.method if isinstance(figure, Figure) else ""
    for version in figure.versions:
        state = known.get(Unit(figure.scenario, version, own or method))
        if state is not None and (isinstance(figure, Table) or _frames(figure, state)):
            return state
    return None


@dataclass(frozen=True)
class Redrawn:
    """A figure of a paper, before it is an SVG."""

    chart: Chart
    drawing: Drawing

    @property
    def mark(self) -> str:
        """A comment that names what the figure shows: a hash of its look and its data, but for their last digits."""
        rows = {name: rows_of(frame) for name, frame in self.drawing.data.items()}
        shown = [self.chart.title, self.chart.caption, self.drawing.spec, rows]
        text = json.dumps(_rounded(shown), sort_keys=True, ensure_ascii=False)
        return f"<!-- shows {hashlib.sha256(text.encode()).hexdigest()[:16]} -->"

    def svg(self) -> str:
        """The figure as SVG; the same results give the same bytes."""
        return f"{render_svg(self.chart, self.drawing)}\n{self.mark}\n"


def _rounded(value: Any) -> Any:
    """``value`` with numbers of nine digits: the order of a sum, and so its last digit, depends on the processor."""
    match value:
        case float():
            return float(f"{value:.9g}")
        case Mapping():
            return {key: _rounded(one) for key, one in value.items()}
        case list() | tuple():
            return [_rounded(one) for one in value]
    return value


def draw(figure: Figure, papers: Papers, state: State, known: Mapping[Unit, State] | None = None) -> Redrawn:
    """The figure of ``state`` and of its other scenarios in ``known``."""
    frames = _frames(figure, state)
    for name, called in figure.others.items():
        if (beside := (known or {}).get(replace(state.unit, scenario=name))) is not None:
            frames += [(factors, frame.with_columns(by=pl.lit(called))) for factors, frame in _frames(figure, beside)]
    table = next((one for one in papers.tables if one.name == figure.options.get("table")), None)
    looks = replace(figure, options={**figure.options, "looks": papers.looks})
    drawing = _DRAWN[figure.kind](looks, frames, table)
    return Redrawn(Chart(figure.name, figure.title, "claims", (), figure.caption), drawing)


def _frames(figure: Figure, state: State) -> list[tuple[Mapping[str, str], pl.DataFrame]]:
    """Factors and data of each cell that the figure shows."""
    found = []
    for _, result in kept_cells(state, figure.options.get("where", {})):
        frame = _READ[figure.kind](figure, state, result)
        if frame is not None:
            found.append((result.factors, frame))
    return found


def _read_flows(_: Figure, __: State, result: Result) -> pl.DataFrame | None:
    if result.repeat or "flows" not in result.drawn:
        return None
    rows = []
    for what in ("flows", "total"):
        drawn = result.drawn.get(what)
        if drawn is None:
            continue
        for name, values in drawn["curves"].items():
            step = drawn["end_s"] / len(values)
            part = "total" if what == "total" else "flow"
            rows += [(part, name, (i + 0.5) * step, v) for i, v in enumerate(values)]
    return pl.DataFrame(rows, schema=["part", "flow", "time_s", "value"], orient="row", infer_schema_length=None)


def _read_values(figure: Figure, state: State, result: Result) -> pl.DataFrame | None:
    options = figure.options
    value = result.number(options["metric"], options.get("minus", ""))
    if value is None or (options.get("inverse") and value == 0):
        return None
    value = 1 / value if options.get("inverse") else value
    scale = (
        options.get("scale", 1.0)
        if state.unit.version == "full"
        else options.get("quick_scale", options.get("scale", 1.0))
    )
    row = {"x": _number(result.factors[options["over"]]), "by": result.factors[options["by"]], "value": value / scale}
    return pl.DataFrame([row])


def _read_bins(_: Figure, __: State, result: Result) -> pl.DataFrame | None:
    drawn = result.drawn.get("distribution")
    if not drawn or result.repeat:
        return None
    width = 100 / len(drawn["shares"])
    shares = [share / 10 for share in drawn["shares"]]
    return pl.DataFrame({"x": [i * width for i in range(len(shares))], "value": shares})


def _read_times(_: Figure, __: State, result: Result) -> pl.DataFrame | None:
    drawn = result.drawn.get("times")
    return pl.DataFrame({"value": [float(v) for v in drawn["times"]]}) if drawn and drawn["times"] else None


_READ: dict[str, Callable[[Figure, State, Result], pl.DataFrame | None]] = {
    "flows": _read_flows,
    "factor": _read_values,
    "distribution": _read_bins,
    "times": _read_times,
    "curves": read_curves,
    "profiles": read_profiles,
    "map": read_map,
    "isolines": read_isolines,
    "sequence": read_sequence,
    "messages": read_messages,
}


def _number(text: str) -> float:
    match = re.match(r"[\d.]+", text)
    return float(match[0]) if match else 0.0


def _labelled(frames: Sequence[tuple[Mapping[str, str], pl.DataFrame]], by: str | Sequence[str]) -> pl.DataFrame:
    """The frames with a panel: the value of a factor, or those of several."""
    names = [by] if isinstance(by, str) else by
    parts = [
        frame.with_columns(pl.lit(", ".join(_value(name, factors[name]) for name in names)).alias("panel"))
        for factors, frame in frames
    ]
    return pl.concat(parts)


def _value(factor: str, text: str) -> str:
    """A value of a factor as the title of a panel; a switch that is on or off says which."""
    return {"true": f"with {factor.upper()}", "false": f"without {factor.upper()}"}.get(text, text)


def _flows(figure: Figure, frames: list[Any], _: Table | None) -> Drawing:
    """A row of panels for the total, if it is there, and one for the flows.

    With the option ``apart``, each total has a scale of its own: those of links with different rates.
    """
    data = _labelled(frames, figure.options["panels"])
    names = list(dict.fromkeys(data["panel"]))
    end = round(float(data.drop_nulls("value")["time_s"].to_numpy().max()))
    x = alt.X("time_s:Q", title="Time (s)", scale=alt.Scale(domain=[0, end], nice=False), axis=alt.Axis(tickCount=5))
    flows, total = (data.filter(pl.col("part") == part).drop("part") for part in ("flow", "total"))
    if "steps" in figure.options:
        return _stepped(figure, names, flows, x)
    ids = sorted(dict.fromkeys(flows["flow"]), key=lambda name: (len(name), name))
    legend = alt.Legend(labelExpr="replace(datum.label, '[0]', '')") if 1 < len(ids) <= _TOLD_APART else None
    colour = alt.Color("flow:N", title=None, scale=category_scale(ids, "color"), legend=legend)
    lines = alt.Chart(named("flows")).mark_line(strokeWidth=0.6, opacity=0.85)
    charts = [_panels(lines.encode(x=x, y=_y("Each flow (Mb/s)"), color=colour), names)]
    sets = {"flows": flows}
    if total.height:
        line = alt.Chart(named("total")).mark_line(strokeWidth=0.8, color="#111111")
        charts.insert(0, _panels(line.encode(x=x, y=_y("Total (Mb/s)")), names, apart="apart" in figure.options))
        sets["total"] = total
    return Drawing(plain_spec(alt.vconcat(*charts)), sets, figure.title, columns=_columns(names), span=2)


def _stepped(figure: Figure, names: list[str], flows: pl.DataFrame, x: alt.X) -> Drawing:
    """Curves with the paper's steps."""
    steps = [
        (panel, float(time), float(value), _PAPERS)
        for panel in names
        for begin, end, value in figure.options["steps"]
        for time in (begin, end)
    ]
    ours = flows.select("panel", "time_s", "value", source=pl.lit(_OURS))
    both = pl.concat([ours, pl.DataFrame(steps, schema=ours.schema, orient="row")]).with_row_index("order")
    sources = [_OURS, _PAPERS]
    colour = alt.Color("source:N", title=None, scale=alt.Scale(domain=sources, range=[theme.ACCENT, theme.SECOND]))
    dash = alt.StrokeDash("source:N", title=None, scale=alt.Scale(domain=sources, range=[[1, 0], [4, 2]]))
    line = alt.Chart(named("flows")).mark_line(strokeWidth=0.9)
    chart = line.encode(x=x, y=_y("Goodput (Mb/s)"), color=colour, strokeDash=dash, order="order:Q")
    return Drawing(plain_spec(_panels(chart, names)), {"flows": both}, figure.title, columns=_columns(names), span=2)


def _scale(names: Sequence[str], channel: str, known: Sequence[str]) -> alt.Scale:
    """As :func:`category_scale`, but each of the names ``known`` has the same look in every figure."""
    if not set(names) <= set(known):
        return category_scale(names, channel)
    look = theme.categories(known)[channel]
    looks = dict(zip(look["domain"], look["range"], strict=True))
    return alt.Scale(domain=list(names), range=[looks[name] for name in names])


def _y(title: str) -> alt.Y:
    return alt.Y("value:Q", title=title, scale=alt.Scale(zero=True))


def _columns(names: Sequence[str]) -> int:
    """Panels in a row: three, or two of four."""
    return 2 if len(names) == 4 else min(3, len(names))


def _panels(chart: Any, names: Sequence[str], *, apart: bool = False) -> alt.FacetChart:
    facet: alt.FacetChart = (
        chart.properties(width=100, height=76)
        .facet(alt.Facet("panel:N", title=None, sort=list(names)), columns=_columns(names))
        .resolve_scale(x="shared", y="independent" if apart else "shared")
    )
    return facet


def _factor(figure: Figure, frames: list[Any], table: Table | None) -> Drawing:
    """Means over repeats; with repeats, the bars are from the least to the greatest.

    The option ``lines`` draws figures of the paper's text: each has ``at`` and ``name``, or ``slope`` and ``start``.
    """
    data = pl.concat([frame for _, frame in frames])
    points = (
        data.group_by("by", "x", maintain_order=True)
        .agg(low=pl.col("value").min(), high=pl.col("value").max(), value=pl.col("value").mean())
        .with_columns(source=pl.lit(_OURS))
        .select("by", "x", "value", "low", "high", "source")
    )
    names = list(dict.fromkeys(points["by"]))
    if table is not None:
        told = [
            (row, _number(head), float(v), float(v), float(v), _PAPERS)
            for row, values in table.values.items()
            for head, v in zip(table.heads, values, strict=True)
        ]
        points = pl.concat([points, pl.DataFrame(told, schema=points.schema, orient="row")])
        names += [row for row in table.values if row not in names]
    many = len(names) > 2 and table is not None and not figure.options.get("together")
    base = alt.Chart(named("points"))
    log = bool(figure.options.get("log"))
    across = alt.Scale(type="log") if log else alt.Undefined
    x = alt.X("x:Q", title=figure.options["axis"], scale=across, axis=_ticks(points["x"], log))
    ends = alt.Scale(type="log") if log else alt.Scale(zero=False)
    y = alt.Y("value:Q", title=figure.options["unit"], scale=ends, axis=_ticks(points["value"], log, count=4))
    sources = [_OURS, _PAPERS]
    dash = alt.StrokeDash(
        "source:N", title=None, scale=alt.Scale(domain=sources, range=[[1, 0], [3, 2]]),
        legend=alt.Legend() if table is not None else None,
    )  # fmt: skip
    colour = alt.Color(
        "by:N",
        title=None,
        scale=_scale(names, "color", figure.options.get("looks", ())),
        legend=None if many else alt.Legend(),
    )
    line = base.mark_line().encode(x=x, y=y, color=colour, strokeDash=dash, detail="source:N")
    dots = base.mark_point(filled=False, strokeWidth=0.9, size=16).encode(
        x=x,
        y=y,
        color=colour,
        shape=alt.Shape(
            "by:N",
            title=None,
            scale=_scale(names, "shape", figure.options.get("looks", ())),
            legend=None if many else alt.Legend(),
        ),
    )
    bars = base.mark_rule(strokeWidth=0.7).encode(
        x=x, y=alt.Y("low:Q", title=figure.options["unit"]), y2="high:Q", color=colour
    )
    layers = alt.layer(line, bars, dots)
    if many:
        chart = layers.properties(width=100, height=80).facet(alt.Facet("by:N", title=None, sort=names), columns=3)
        return Drawing(plain_spec(chart), {"points": points}, figure.title, columns=3, span=2)
    sets = {"points": points}
    if told_lines := figure.options.get("lines"):
        sets["lines"] = _told_lines(told_lines, points)
        layers = alt.layer(layers, *_drawn_lines(figure, x))
    chart = layers.properties(width=200, height=150)
    return Drawing(plain_spec(chart), sets, figure.title, span=2)


def _ticks(values: pl.Series, log: bool, count: int | None = None) -> alt.Axis:
    """Powers of ten on a logarithmic axis: else it has lines at 2, 3, 4, ... and labels at some of them."""
    if not log:
        return alt.Axis() if count is None else alt.Axis(tickCount=count)
    found = values.filter(values > 0)
    ends = [math.log10(float(end)) for end in (found.min(), found.max())]  # type: ignore[arg-type]
    powers = [float(f"1e{power}") for power in range(math.floor(ends[0]), math.ceil(ends[1]) + 1)]
    return alt.Axis(values=powers, format="~g")


def _told_lines(lines: Sequence[Mapping[str, Any]], points: pl.DataFrame) -> pl.DataFrame:
    """The ends of each line over the whole width of the figure; the last point has its name."""
    ends = (float(points["x"].min()), float(points["x"].max()))  # type: ignore[arg-type]
    rows = [
        (place, x, float(line["at"] if "at" in line else line["start"] + line["slope"] * x), label)
        for place, line in enumerate(lines)
        for x, label in zip(ends, (None, line.get("name")), strict=True)
    ]
    schema = {"line": pl.Int64, "x": pl.Float64, "value": pl.Float64, "label": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _drawn_lines(figure: Figure, x: alt.X) -> tuple[alt.Chart, alt.Chart]:
    """Dashed lines without a colour of their own, and the names of level ones above their ends."""
    y = alt.Y("value:Q", title=figure.options["unit"])
    base = alt.Chart(named("lines")).encode(x=x, y=y, detail="line:N")
    line = base.mark_line(strokeDash=[4, 2], strokeWidth=0.8, color=_QUIET)
    text = base.mark_text(align="right", dy=-4, fontSize=7, color=_QUIET).encode(text="label:N")
    return line, text.transform_filter("datum.label != null")


def _distribution(figure: Figure, frames: list[Any], _: Table | None) -> Drawing:
    data = _labelled(frames, figure.options["panels"])
    names = list(dict.fromkeys(data["panel"]))
    x = alt.X("x:Q", title="Goodput of a flow, percent of its link's rate", scale=alt.Scale(domain=[0, 100]))
    limits = [float(limit) for limit in figure.options["limits"]]
    # A line for each limit and panel: its first rows have them.
    places = pl.int_range(pl.len()).over("panel")
    data = data.with_columns(
        limit=pl.when(places < len(limits)).then(places.replace_strict(dict(enumerate(limits)), default=None))
    )
    # Panels have one scale, on which one spike does not flatten the others.
    top = max(100.0 if float(data["value"].max()) > max(limits) else max(limits), *limits)  # type: ignore[arg-type]
    scale = alt.Scale(type="sqrt", domain=[0, top])
    axis = alt.Axis(values=[1, *limits, 80], labelOverlap=False)
    y, limit = (alt.Y(field, title="Percent of the time", scale=scale, axis=axis) for field in ("value:Q", "limit:Q"))
    base = alt.Chart(named("bins"))
    area = base.mark_area(interpolate="step-after", color=theme.ACCENT, opacity=0.8).encode(x=x, y=y)
    rules = base.mark_rule(strokeDash=[4, 2], strokeWidth=0.6, color=_QUIET).encode(y=limit)
    layers = alt.layer(area, rules.transform_filter("datum.limit != null"))
    return Drawing(plain_spec(_panels(layers, names)), {"bins": data}, figure.title, columns=_columns(names), span=2)


def _times(figure: Figure, frames: list[Any], _: Table | None) -> Drawing:
    data = _labelled(frames, figure.options["by"])
    names = list(dict.fromkeys(data["panel"]))
    chart = (
        alt.Chart(named("times"))
        .mark_tick(thickness=0.7, size=11)
        .encode(
            x=alt.X("value:Q", title="Completion time (s)", scale=alt.Scale(zero=False)),
            y=alt.Y("panel:N", title=None, sort=names),
            color=alt.Color("panel:N", scale=_scale(names, "color", figure.options.get("looks", ())), legend=None),
        )
        .properties(width=200, height=18 * len(names))
    )
    return Drawing(plain_spec(chart), {"times": data}, figure.title, span=2)


_DRAWN: dict[str, Callable[[Figure, list[Any], Table | None], Drawing]] = {
    "flows": _flows,
    "factor": _factor,
    "distribution": _distribution,
    "times": _times,
    "curves": curves,
    "profiles": profiles,
    "map": draw_map,
    "isolines": draw_isolines,
    "sequence": draw_sequence,
    "messages": draw_messages,
}
