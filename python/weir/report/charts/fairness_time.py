"""Jain's index over time."""

from __future__ import annotations

import altair as alt
import polars as pl

from weir.metrics.fairness import jain_index
from weir.report import theme
from weir.report.charts._base import CellChart, Drawing, Medium, named, time_axis, tooltip, window
from weir.report.downsample import aggregate, bucket_ns
from weir.report.view import CellView

__all__ = ["CHART"]


def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    frame = cell.of_tested("goodput")
    if frame is None or len(cell.tested) < 2:
        return None
    width = bucket_ns(cell.plan.end_ns, max(1, medium.buckets // 3), cell.plan.interval_ns("goodput"))
    # One instant for all flows of a bucket, whenever each of them began in it.
    edge = frame.with_columns(time_ns=((pl.col("time_ns").clip(1) - 1) // width + 1) * width)
    sums = aggregate(edge, {"got": pl.col("delivered_bytes").sum().cast(pl.Float64)}, by=["flow"], width_ns=width)
    rows = [(time, jain_index(part["got"].to_numpy()), part.height) for time, part in _instants(sums) if part.height > 1]
    data = pl.DataFrame(rows, schema=["time_s", "jain", "flows"], orient="row").filter(pl.col("jain").is_not_nan())
    if data.is_empty():
        return None
    shown = tooltip(medium, alt.Tooltip("time_s:Q", title="Time (s)", format=".4~g"), alt.Tooltip("jain:Q", format=".4~f"),
                    alt.Tooltip("flows:Q", title="flows active"))  # fmt: skip
    y = alt.Y("jain:Q", title="Jain's index", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=5))
    line = alt.Chart(named("fairness")).mark_line(color=theme.ACCENT, clip=True)
    spec = line.encode(x=time_axis(cell, medium), y=y, tooltip=shown).properties(height=int(medium.height * 0.7))
    text = f"Jain's index of the active flows over time; least {data['jain'].min():.3g}."
    said = (f"Each point is about the goodputs of {width / 1e9:.3g} s.",)
    return Drawing(spec.add_params(*window(cell, medium)), {"fairness": data}, text, said)


def _instants(sums: pl.DataFrame) -> list[tuple[float, pl.DataFrame]]:
    return [(float(part["time_s"][0]), part) for part in sums.sort("time_s", "flow").partition_by("time_s", maintain_order=True)]


CHART = CellChart(
    name="fairness-time",
    title="Fairness over time",
    section="Fairness",
    needs=("goodput",),
    caption="Jain's index of the goodputs of the flows under test that are active: 1 if all are equal, 1/N if one of N has all.",
    draw=_draw,
)
