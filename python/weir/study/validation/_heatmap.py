"""Errors at the 90th percentile by factor value, in multiples of their aims, as a picture."""

from __future__ import annotations

import math
from collections.abc import Iterator

import altair as alt
import polars as pl

from weir.report.charts import Chart, Drawing, Medium, Spec, named, plain_spec
from weir.study.validation._errors import ERRORS, ErrorKind, Summary, summarise
from weir.study.validation._validation import Validation

__all__ = ["CHART", "draw", "error_text", "interval_text", "summary_texts"]

_MAX_MULTIPLE = 4.0
_WHITE_FROM = 2.2

CHART = Chart(
    "errors-by-factor",
    "Errors by factor",
    "All cells",
    (),
    "The error that nine cells in ten keep within, among the cells with each value of a factor; the colour is that "
    "error in multiples of the aim.",
)


def error_text(kind: ErrorKind, value: float | None) -> str:
    """Formats an error: a share in percent, a difference of indices unchanged, a factor as a factor."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞"
    if kind.name == "jain_error":
        return f"{value:.3f}"
    if kind.name == "loss_error":
        return f"× {value + 1:.3g}"
    return f"{100 * value:.2g} %" if value < 0.0995 else f"{100 * value:.0f} %"


def interval_text(kind: ErrorKind, ends: tuple[float, float]) -> str:
    """Formats the interval of an error; an end is open if the sample is too small."""
    low, high = (error_text(kind, end) for end in ends)
    return f"{low} or more" if math.isinf(ends[1]) else f"{low} to {high}"


def summary_texts(kind: ErrorKind, some: Summary) -> list[str]:
    """Formats median and its interval, 90th percentile and its interval, and the worst value of an error."""
    return [
        error_text(kind, some.median),
        interval_text(kind, some.median_interval),
        error_text(kind, some.p90),
        interval_text(kind, some.p90_interval),
        error_text(kind, some.worst),
    ]


def draw(validation: Validation, medium: Medium) -> Drawing | None:
    """Makes the drawing; ``None`` if no factor has several values, or no error has an aim."""
    rows = pl.DataFrame(list(_rows(validation)), orient="row")
    if rows.is_empty():
        return None
    places = list(dict.fromkeys(rows["place"]))
    kinds = list(dict.fromkeys(rows["error"]))
    text = f"Errors of {len(kinds)} metrics at the 90th percentile, for {len(places)} values of factors."
    return Drawing(plain_spec(_heatmap(medium, places, kinds)), {"errors": rows}, text, span=2)


def _rows(validation: Validation) -> Iterator[dict[str, object]]:
    factors = validation.factors
    for name, values in factors.items():
        for value in values if len(values) > 1 else ():
            cells = [cell for cell in validation.cells if cell.factors.get(name) == value]
            for kind in ERRORS:
                aim = validation.aims.get(kind.name)
                some = summarise([cell.errors[kind.name] for cell in cells], aim)
                if some is not None and aim is not None and aim.p90:
                    place = f"{name}: {value} ({len(cells)})"
                    yield {"place": place, "error": kind.title, "p90": some.p90, "text": error_text(kind, some.p90),
                           "multiple": min(some.p90 / aim.p90, _MAX_MULTIPLE)}  # fmt: skip


def _heatmap(medium: Medium, places: list[str], kinds: list[str]) -> Spec:
    x = alt.X("error:N", title=None, sort=kinds, axis=alt.Axis(orient="top", labelAngle=0, domain=False, ticks=False))
    y = alt.Y("place:N", title=None, sort=places,
              axis=alt.Axis(domain=False, ticks=False, labelLimit=220, labelOverlap=False))  # fmt: skip
    scale = alt.Scale(
        domain=[0, 1, _MAX_MULTIPLE], range=["#f7fbff", "#9ecae1", "#b2182b"], interpolate="lab", clamp=True
    )
    colour = alt.Color("multiple:Q", title="Multiple of the aim", scale=scale, legend=alt.Legend(tickCount=5))
    base = alt.Chart(named("errors")).encode(x=x, y=y)
    light = alt.condition(f"datum.multiple > {_WHITE_FROM}", alt.value("white"), alt.value("#111111"))
    cells = base.mark_rect(stroke="white", strokeWidth=0.8).encode(color=colour)
    labels = base.mark_text().encode(text="text:N", color=light)
    drawn: Spec = alt.layer(cells, labels).properties(height=medium.row_height * 0.75 * len(places))
    return drawn
