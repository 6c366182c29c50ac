"""Congestion window and slow-start threshold of each flow under test."""

from __future__ import annotations

import polars as pl

from weir.report._text import Unit
from weir.report.charts._base import CellChart, Drawing, Medium
from weir.report.charts._changes import marked
from weir.report.charts._series import FlowSeries, flow_population, flow_steps
from weir.report.view import CellView

__all__ = ["CHART"]

_PACKETS = Unit("packets", 1, "packets")


@marked
def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    window = FlowSeries("samples", pl.col("cwnd"), _PACKETS, "cwnd")
    if not cell.few:
        return flow_population(cell, medium, window)
    return flow_steps(cell, medium, window, ("ssthresh", pl.col("ssthresh")))


CHART = CellChart(
    name="cwnd",
    title="Congestion window",
    section="Time series",
    needs=("samples",),
    caption="Sender's cwnd in packets, and ssthresh (dashed) while it is finite and within the range shown, as steps "
    "between the samples of measure.tcp. With many flows: percentiles over the flows, and one "
    "row per flow.",
    draw=_draw,
)
