"""The registry of charts: one small file and one line here each; the order is that of the report."""

from __future__ import annotations

from weir.report.charts import (
    cwnd,
    goodput_flows,
    goodput_grid,
    goodput_total,
    loss,
    metric_by_factor,
    queue,
    queue_delay,
    recoveries,
    rtt,
)
from weir.report.charts._base import CellChart, Chart, Drawing, Medium, RunChart

__all__ = ["CELL_CHARTS", "CHARTS", "RUN_CHARTS", "CellChart", "Chart", "Drawing", "Medium", "RunChart"]

RUN_CHARTS: tuple[RunChart, ...] = (
    goodput_grid.CHART,
    metric_by_factor.chart("goodput.mean", "Mean goodput", "Mean over time of a flow's goodput, then over the flows."),
    metric_by_factor.chart("goodput.aggregate.mean", "Aggregate goodput", "Mean over time of the flows' goodput together."),
    metric_by_factor.chart("jain", "Jain's fairness index", "Of the flows' mean goodputs: 1 all equal, 1/N one has all."),
)

CELL_CHARTS: tuple[CellChart, ...] = (
    goodput_total.CHART,
    goodput_flows.CHART,
    cwnd.CHART,
    rtt.CHART,
    queue.CHART,
    queue_delay.CHART,
    loss.CHART,
    recoveries.CHART,
)

CHARTS: tuple[Chart, ...] = (*RUN_CHARTS, *CELL_CHARTS)
