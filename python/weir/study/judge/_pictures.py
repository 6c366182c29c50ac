"""The pictures of a judgement as SVG, narrow enough for a phone; two stand beside each other on a wide page."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace

import altair as alt
import polars as pl
import vl_convert

from weir.report import theme
from weir.study.judge._judge import Judged, Judgement
from weir.study.judge._points import Point
from weir.study.judge._words import shown, text_of

__all__ = ["dots", "legend", "series"]

_WIDTH = 300
_HEIGHT = {"one": 150, "several": 62}
_BUCKETS = 150


def series(judgement: Judgement, case: Judged) -> str:
    """The goodput or the queue of a scenario over time, as SVG; empty for a scenario without such a picture."""
    kind = case.case.picture
    if not kind:
        return ""
    rows = _rows(judgement, case)
    if rows.is_empty():
        return ""
    spec = _panels(rows, "Queue (kB)" if kind == "queue" else "Goodput (Mb/s)", flows=kind == "flows")
    svg = str(vl_convert.vegalite_to_svg({**spec.to_dict(validate=False), "config": _config()}, allowed_base_urls=[]))
    # Vega numbers its clip paths from picture to picture; those of a page need names of their own.
    found = dict.fromkeys(re.findall(r"\bclip\d+\b", svg))
    for number, clip in enumerate(found):
        svg = re.sub(rf"\b{clip}\b", f"{case.case.name}-{number}-clip", svg)
    return svg


def _rows(judgement: Judgement, case: Judged) -> pl.DataFrame:
    """Columns ``control``, ``flow``, ``time_s`` and ``value`` of the first repeat."""
    metric = {"flows": "goodput", "together": "goodput.aggregate", "queue": "queue.length"}[case.case.picture]
    frame = case.run.series(metric).filter(pl.col("repeat") == 0)
    unit = 1e3 if case.case.picture == "queue" else 1e6
    flow = pl.col("flow") if "flow" in frame.columns else pl.lit("")
    rows = frame.select(
        control=pl.col(case.case.label).cast(pl.String),
        flow=flow,
        time_s=pl.col("time_ns") / 1e9,
        value=pl.col("value") / unit,
    ).drop_nulls()
    order = [judgement.name, *case.points[0].others]
    place = pl.col("control").replace_strict({name: i for i, name in enumerate(order)}, return_dtype=pl.Int64)
    step = max(float(rows["time_s"].max() or 1) / _BUCKETS, 1e-3)  # type: ignore[arg-type]
    thinned = rows.with_columns(time_s=(pl.col("time_s") / step).ceil() * step)
    return thinned.group_by("control", "flow", "time_s").agg(pl.col("value").mean()).sort(place, "flow", "time_s")


def _panels(rows: pl.DataFrame, title: str, *, flows: bool) -> alt.VConcatChart:
    """A panel for each control, with the same scales; each flow is a line."""
    most = float(rows["value"].quantile(0.995) or 1) * 1.08
    names = list(dict.fromkeys(rows["flow"]))
    colours = theme.categories(names)["color"]
    parts = []
    for number, (control, own) in enumerate(rows.group_by("control", maintain_order=True)):
        last = number == rows["control"].n_unique() - 1
        own = own.with_columns(value=pl.min_horizontal("value", pl.lit(most)))
        parts.append(
            alt.Chart(alt.InlineData(values=own.select("flow", "time_s", pl.col("value").round(3)).to_dicts()))
            .mark_line(strokeWidth=1.3, clip=True)
            .encode(
                x=alt.X("time_s:Q", title="Time (s)" if last else None, axis=alt.Axis(labels=last, tickCount=6)),
                y=alt.Y("value:Q", title=title if number == 0 else None, scale=alt.Scale(domain=[0, most], nice=False),
                        axis=alt.Axis(tickCount=3)),
                color=alt.Color(
                    "flow:N", legend=alt.Legend(title=None) if flows and number == 0 and len(names) <= 4 else None,
                    scale=alt.Scale(domain=colours["domain"], range=colours["range"]),
                ),
            )
            .properties(width=_WIDTH, height=_HEIGHT["several"], title=alt.TitleParams(str(control[0]), anchor="start"))
        )  # fmt: skip
    stacked: alt.VConcatChart = alt.vconcat(*parts, spacing=4).resolve_scale(color="shared")
    return stacked


def _config() -> dict[str, object]:
    config = theme.config(theme.PAGE)
    config["title"] = {"fontSize": 11, "color": "currentColor", "fontWeight": 600, "offset": 3}
    return config


# Figures as marks on a line ---------------------------------------------------------------------------------------

_OUTLINES = (
    '<circle cx="{x:.1f}" cy="12" r="6.5" class="other">{title}</circle>',
    '<rect x="{left:.1f}" y="6.5" width="11" height="11" class="other">{title}</rect>',
    '<path d="M{x:.1f} 3.5l7.5 13.5h-15z" class="other">{title}</path>',
    '<path d="M{x:.1f} 4l8 8l-8 8l-8 -8z" class="other">{title}</path>',
)
"""One for each reference, in their order: a shape is told apart in print, and where several lie on each other."""


def dots(point: Point, name: str) -> str:
    """One figure of all controls on one axis: a dot for the control, and over it an outline for each reference."""
    values: Mapping[str, float | None] = {name: point.yours, **point.others}
    known = {key: value for key, value in values.items() if value is not None and math.isfinite(value)}
    if len(known) < 2:
        return ""
    low, high = min(known.values()), max(known.values())
    if point.measure.unit == "%" and high > 40:
        low, high = min(low, 0.0), max(high, 100.0)
    else:
        low = min(low, 0.0)
    span = (high - low) or 1.0
    parts = ['<line x1="9" y1="12" x2="191" y2="12" class="rail"/>']
    for key, value in known.items():
        title = f"<title>{shown(key)}: {text_of(point.measure, value)}</title>"
        parts.append(_mark(key, name, point, 9 + 182 * (value - low) / span, title))
    label = "; ".join(f"{shown(key)} {text_of(point.measure, value)}" for key, value in known.items())
    look = 'class="dots" viewBox="0 0 200 24" width="200" height="24" role="img"'
    return f'<svg {look} aria-label="{label}">{"".join(parts)}</svg>'


def _mark(key: str, name: str, point: Point, x: float, title: str = "") -> str:
    if key == name:
        return f'<circle cx="{x:.1f}" cy="12" r="4" class="yours {point.level}">{title}</circle>'
    outline = _OUTLINES[list(point.each).index(key) % len(_OUTLINES)]
    return outline.format(x=x, left=x - 5.5, title=title)


def legend(judgement: Judgement) -> str:
    """Which mark is which control's."""
    point = judgement.cases[0].points[0]
    look = 'class="dots key" viewBox="0 0 20 24" width="20" height="24" aria-hidden="true"'
    plain = replace(point, level="ordinary")
    keys = (judgement.name, *point.each)
    return " ".join(
        f"<span><svg {look}>{_mark(key, judgement.name, plain, 10)}</svg>{shown(key)}</span>" for key in keys
    )
