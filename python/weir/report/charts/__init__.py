"""The registry of charts: one small file and one line here each, in the order of the report."""

from __future__ import annotations

from weir.report._text import Unit, unit_for
from weir.report.charts import (
    acks,
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
    metric_behind,
    metric_by_factor,
    page_completion,
    probes,
    queue,
    queue_delay,
    recoveries,
    rtt,
    summary,
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

_by, _behind = metric_by_factor.chart, metric_behind.chart

RUN_CHARTS: tuple[RunChart, ...] = (
    summary.CHART,
    goodput_grid.CHART,
    _by("goodput.mean", "Mean goodput", "Mean goodput of a flow over time, averaged over the flows.", entries=True),
    _behind("goodput.mean", "Mean goodput", "more", entries=True),
    _by("goodput.aggregate.mean", "Aggregate goodput", "Mean over time of the sum of the flows' goodputs."),
    _behind("goodput.aggregate.mean", "Aggregate goodput", "more"),
    _by(
        "jain",
        "Jain's fairness index",
        "Jain's index of the flows' mean goodputs: 1 if all are equal, 1/N if one of N gets everything.",
    ),
    _behind("jain", "Jain's fairness index", "more"),
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
    _behind("utilisation", "Utilisation of the bottleneck", "more"),
    _by("queue.delay", "Queueing delay at the bottleneck", "Mean over the packets of the phase."),
    _behind("queue.delay", "Queueing delay at the bottleneck", "less"),
    _by("link.loss", "Loss rate at the bottleneck", "Packets dropped divided by packets arrived."),
    _by("delay.p95", "One-way delay, 95th percentile", "Over the packets of a phase, from host to host.", entries=True),
    _by("delay.jitter.mean", "Jitter", "Mean difference of the delays of consecutive packets of a flow.", entries=True),
    _by("retransmissions.rate", "Retransmissions", "Retransmitted packets per second, averaged over the flows."),
    _by("timeouts.rate", "Timeouts", "Retransmission timeouts per second, averaged over the flows."),
    _by("loss.synchronisation", "Loss synchronisation", "Share of the flows that back off within one round trip."),
    _by("completion.mean", "Mean completion time", "Mean over completed transfers.", entries=True),
    _behind("completion.mean", "Mean completion time", "less", entries=True),
    _by(
        "completion.cov",
        "Spread of completion times",
        "Standard deviation divided by mean, over completed transfers.",
        entries=True,
    ),
    _by("page.completion.mean", "Mean completion time of pages", "Mean over completed pages.", entries=True),
    _behind("page.completion.mean", "Mean completion time of pages", "less", entries=True),
    _by(
        "page.completion.p95", "95th percentile of the completion times of pages", "Over completed pages.", entries=True
    ),
    distribution_grid.CHART,
    completion_sweep.CHART,
)

CELL_CHARTS: tuple[CellChart, ...] = (
    goodput_total.CHART,
    goodput_flows.CHART,
    cwnd.CHART,
    acks.CHART,
    probes.CHART,
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
