"""Goodput of each flow under test."""

from __future__ import annotations

import polars as pl

from weir.report._text import unit_for
from weir.report.charts._base import CellChart, Drawing, Medium
from weir.report.charts._changes import marked
from weir.report.charts._series import FlowSeries, flow_panels, flow_population
from weir.report.view import CellView

__all__ = ["CHART"]


@marked
def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    frame = cell.of_tested("goodput")
    if frame is None:
        return None
    interval = cell.plan.interval_ns("goodput")
    value = pl.col("delivered_bytes") * 8e9 / interval
    highest = float(frame.select(value.max()).collect().item() or 0)
    series = FlowSeries("goodput", value, unit_for(highest, "bit/s"), "Goodput")
    return flow_panels(cell, medium, series) if cell.few else flow_population(cell, medium, series)


CHART = CellChart(
    name="goodput-flows",
    title="Goodput of each flow",
    section="Time series",
    needs=("goodput",),
    caption="Payload handed to the receiving application in an interval of measure.goodput, divided by the "
    "interval. With many flows: median, middle half and 5th to 95th percentile over the flows, and one "
    "row per flow below.",
    draw=_draw,
)
