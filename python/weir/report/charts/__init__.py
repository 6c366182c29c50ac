"""The registry of charts: one small file and one line here each, in the order of the report."""

from __future__ import annotations

from weir.report._text import Unit, unit_for
from weir.report.charts import (
    classes,
    completion,
    completion_sweep,
    cwnd,
    delay_distribution,
    delay_flows,
    distribution,
    distribution_grid,
    fairness_time,
    flow_shares,
    goodput_flows,
    goodput_grid,
    goodput_total,
    loss,
    metric_by_factor,
    page_completion,
    queue,
    queue_delay,
    recoveries,
    rtt,
    timeline,
)
from weir.report.charts._base import (
    CellChart,
    Chart,
    Drawing,
    Medium,
    RunChart,
    Spec,
    category_scale,
    named,
    plain_spec,
    shape,
    time_axis,
    tooltip,
    window,
)

__all__ = [
    "CELL_CHARTS",
    "CHARTS",
    "RUN_CHARTS",
    "CellChart",
    "Chart",
    "Drawing",
    "Medium",
    "RunChart",
    "Spec",
    "Unit",
    "category_scale",
    "named",
    "plain_spec",
    "shape",
    "time_axis",
    "tooltip",
    "unit_for",
    "window",
]

_by = metric_by_factor.chart

RUN_CHARTS: tuple[RunChart, ...] = (
    goodput_grid.CHART,
    _by("goodput.mean", "Mean goodput", "Mean goodput of a flow over time, averaged over the flows."),
    _by("goodput.aggregate.mean", "Aggregate goodput", "Mean over time of the sum of the flows' goodputs."),
    _by(
        "jain",
        "Jain's fairness index",
        "Jain's index of the flows' mean goodputs: 1 if all are equal, 1/N if one of N gets everything.",
    ),
    _by(
        "goodput.sd",
        "Standard deviation of goodput",
        "Standard deviation of a flow's goodput over time, averaged over the flows.",
    ),
    _by(
        "goodput.cov",
        "Normalised deviation of goodput",
        "Standard deviation over time divided by the mean, averaged over the flows.",
    ),
    _by("utilisation", "Utilisation of the bottleneck", "Share of the time that the bottleneck transmits."),
    _by("queue.delay", "Queueing delay at the bottleneck", "Mean over the packets of the phase."),
    _by("link.loss", "Loss rate at the bottleneck", "Packets dropped divided by packets arrived."),
    _by("delay.p95", "One-way delay, 95th percentile", "Over the packets of a phase, from host to host.", entries=True),
    _by("delay.jitter.mean", "Jitter", "Mean difference of the delays of consecutive packets of a flow.", entries=True),
    _by("retransmissions.rate", "Retransmissions", "Retransmitted packets per second, averaged over the flows."),
    _by("timeouts.rate", "Timeouts", "Retransmission timeouts per second, averaged over the flows."),
    _by("loss.synchronisation", "Loss synchronisation", "Share of the flows that back off within one round trip."),
    _by("completion.mean", "Mean completion time", "Mean over completed transfers."),
    _by(
        "completion.cov", "Spread of completion times", "Standard deviation divided by mean, over completed transfers."
    ),
    _by("page.completion.mean", "Mean completion time of pages", "Mean over completed pages."),
    _by("page.completion.p95", "95th percentile of the completion times of pages", "Over completed pages."),
    distribution_grid.CHART,
    completion_sweep.CHART,
)

CELL_CHARTS: tuple[CellChart, ...] = (
    goodput_total.CHART,
    goodput_flows.CHART,
    cwnd.CHART,
    queue.CHART,
    queue_delay.CHART,
    classes.CHART,
    loss.CHART,
    rtt.CHART,
    delay_flows.CHART,
    delay_distribution.CHART,
    distribution.CHART,
    flow_shares.CHART,
    fairness_time.CHART,
    completion.CHART,
    page_completion.CHART,
    recoveries.CHART,
    timeline.CHART,
)

CHARTS: tuple[Chart, ...] = (*RUN_CHARTS, *CELL_CHARTS)
