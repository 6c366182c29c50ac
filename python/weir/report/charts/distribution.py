"""Distribution of a flow's goodput over time, in bins of 1 % of its path's rate."""

from __future__ import annotations

import math

import altair as alt
import polars as pl

from weir.report import theme
from weir.report._text import greatest
from weir.report.charts._base import CellChart, Drawing, Medium, Spec, beside, header, named, own_axes, shape, tooltip
from weir.report.view import CellView

__all__ = ["CHART", "METRIC", "shares", "upper_end"]

METRIC = "goodput.distribution"


def shares(frame: pl.DataFrame) -> pl.DataFrame:
    """Bins as percentages, without empty ones.

    Columns ``phase`` (with the direction, if there are two), ``from_percent``, ``to_percent``, ``share_percent``.
    """
    if frame.is_empty():
        return frame
    percent = (100 * pl.col("bin_low")).round(6)
    rows = frame.filter(pl.col("value") > 0).select(
        pl.concat_str(pl.col("phase").fill_null("whole run"), *_way(frame)),
        *(c for c in ("direction",) if c in frame.columns),
        percent.alias("from_percent"),
        (percent + 1).alias("to_percent"),
        (100 * pl.col("value")).alias("share_percent"),
    )
    return rows.sort("from_percent", maintain_order=True)


def _way(frame: pl.DataFrame) -> list[pl.Expr]:
    return [pl.lit(", "), pl.col("direction")] if "direction" in frame.columns else []


def upper_end(rows: pl.DataFrame) -> float:
    """The end of the goodput axis: a round percentage, or after the bin of 100 % and more."""
    last = greatest(rows["to_percent"])
    return 101 if last > 50 else max(5, math.ceil(last / 5) * 5)


def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    rows = shares(cell.summary(METRIC))
    if rows.is_empty():
        return None
    names = [p.name for p in cell.phases]
    if cell.both_ways:
        names = [f"{name}, {way}" for name in names for way in cell.directions]
    phases = [name for name in names if name in set(rows["phase"])]
    text = "Goodput distribution in bins of 1 %: " + "; ".join(_say(rows, p) for p in phases) + "."
    several = len(phases) > 1
    spec = _spec(medium, tuple(phases), upper_end(rows))
    return Drawing(
        spec, {"distribution": rows}, text, columns=beside(len(phases)), panel_width=300, span=2 if several else 1
    )


@shape
def _spec(medium: Medium, phases: tuple[str, ...], end: float) -> Spec:
    shown = tooltip(
        medium, ("from_percent:Q", "from (% of the path's rate)"), ("share_percent:Q", "share of time (%)", ".3~g")
    )
    x = alt.X(
        "from_percent:Q",
        title="Goodput (% of the path's rate)",
        scale=alt.Scale(domain=[0, end], nice=False),
        axis=alt.Axis(grid=False, tickCount=6),
    )
    several = len(phases) > 1
    y = alt.Y("share_percent:Q", title="Share of time (%)" if not (several and medium.page) else None)
    bars = alt.Chart().mark_rect(color=theme.ACCENT, clip=True, strokeWidth=0)
    layer = bars.encode(x=x, x2="to_percent:Q", y=y, y2="floor:Q", tooltip=shown).transform_calculate(floor="0")
    layered = alt.layer(layer, data=named("distribution"))
    if not several:
        return layered.properties(height=medium.height)
    facet = alt.Facet("phase:N", sort=list(phases), title=None, header=header(phases))
    spec: alt.FacetChart = layered.properties(height=int(medium.height * 0.8)).facet(
        facet=facet, columns=beside(len(phases)), spacing=24
    )
    spec = own_axes(spec, len(phases))
    return spec.properties(title=alt.TitleParams("Share of time (%)", anchor="start")) if medium.page else spec


def _say(rows: pl.DataFrame, phase: str) -> str:
    mine = rows.filter(pl.col("phase") == phase).sort("share_percent", descending=True).row(0, named=True)
    place = f"{mine['from_percent']:g} to {mine['to_percent']:g} %"
    return f"{phase}, most often {place} ({mine['share_percent']:.3g} % of the time)"


CHART = CellChart(
    name="goodput-distribution",
    title="Goodput distribution",
    section="Distributions",
    needs=(METRIC,),
    caption="Share of time that a flow's goodput spends in each 1 % of the rate of the slowest link on its "
    "path, averaged over the flows and repeats; the last bin holds everything from 100 % on.",
    draw=_draw,
)
