"""How a flow's goodput is distributed over time, in bins of 1 % of its path's rate."""

from __future__ import annotations

import altair as alt
import polars as pl

from weir.report import theme
from weir.report.charts._base import CellChart, Drawing, Medium, named, tooltip
from weir.report.view import CellView

__all__ = ["CHART", "shares"]

METRIC = "goodput.distribution"


def shares(frame: pl.DataFrame) -> pl.DataFrame:
    """Bins as percentages: ``phase``, ``from_percent``, ``to_percent``, ``share_percent``; empty bins left out."""
    if frame.is_empty():
        return frame
    percent = (100 * pl.col("bin_low")).round(6)
    rows = frame.filter(pl.col("value") > 0).select(
        pl.col("phase").fill_null("whole run"),
        percent.alias("from_percent"),
        (percent + 1).alias("to_percent"),
        (100 * pl.col("value")).alias("share_percent"),
    )
    return rows.sort("from_percent", maintain_order=True)


def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    rows = shares(cell.metric(METRIC))
    if rows.is_empty():
        return None
    phases = [p.name for p in cell.phases if p.name in set(rows["phase"])]
    shown = tooltip(medium, alt.Tooltip("from_percent:Q", title="from (% of the path's rate)"),
                    alt.Tooltip("share_percent:Q", title="share of time (%)", format=".3~g"))  # fmt: skip
    x = alt.X("from_percent:Q", title="Goodput (% of the path's rate)", scale=alt.Scale(domain=[0, 101], nice=False),
              axis=alt.Axis(grid=False, values=[0, 20, 40, 60, 80, 100]))  # fmt: skip
    several = len(phases) > 1
    y = alt.Y("share_percent:Q", title="Share of time (%)" if not (several and medium.page) else None)
    bars = alt.Chart().mark_rect(color=theme.ACCENT, clip=True, strokeWidth=0)
    layer = bars.encode(x=x, x2="to_percent:Q", y=y, y2="floor:Q", tooltip=shown).transform_calculate(floor="0")
    text = "Goodput distribution in bins of 1 %: " + "; ".join(_say(rows, p) for p in phases) + "."
    height = medium.height if not several else int(medium.height * 0.8)
    if not several:
        return Drawing(layer.properties(height=height, data=named("distribution")), {"distribution": rows}, text)
    header = alt.Header(labelAnchor="start", title=None)
    spec = (
        alt.layer(layer, data=named("distribution"))
        .properties(height=height)
        .facet(facet=alt.Facet("phase:N", sort=phases, title=None, header=header), columns=2, spacing=24)
    )
    if medium.page:
        spec = spec.properties(title=alt.TitleParams("Share of time (%)", anchor="start"))
    return Drawing(spec, {"distribution": rows}, text, columns=2, panel_width=300, span=2)


def _say(rows: pl.DataFrame, phase: str) -> str:
    mine = rows.filter(pl.col("phase") == phase).sort("share_percent", descending=True).row(0, named=True)
    return f"{phase}, most often {mine['from_percent']:g} to {mine['to_percent']:g} % ({mine['share_percent']:.3g} % of the time)"


CHART = CellChart(
    name="goodput-distribution",
    title="Goodput distribution",
    section="Distributions",
    needs=(METRIC,),
    caption="Share of time that a flow's goodput spends in each 1 % of the rate of the slowest link on its path, mean over the "
    "flows and repeats; the last bin is everything from 100 % on.",
    draw=_draw,
)
