"""Congestion window and slow-start threshold of each flow under test."""

from __future__ import annotations

import polars as pl

from weir.report._text import Unit
from weir.report.charts._base import CellChart, Drawing, Medium
from weir.report.charts._series import FlowSeries, flow_panels, flow_population
from weir.report.view import CellView

__all__ = ["CHART"]

_PACKETS = Unit("packets", 1, "packets")


_THRESHOLD = pl.col("ssthresh").last().cast(pl.Float64)


def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    if not cell.few:
        return flow_population(cell, medium, FlowSeries("samples", pl.col("cwnd"), _PACKETS, "cwnd"))
    return flow_panels(cell, medium, FlowSeries("samples", pl.col("cwnd"), _PACKETS, "cwnd", {"ssthresh": _THRESHOLD}))


CHART = CellChart(
    name="cwnd",
    title="Congestion window",
    section="Time series",
    needs=("samples",),
    caption="Sender's cwnd in packets (line and band), and ssthresh (dashed) while it is finite and within "
    "the range shown, sampled every measure.tcp. With many flows: percentiles over the flows, and one "
    "row per flow.",
    draw=_draw,
)
