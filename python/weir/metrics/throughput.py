"""Throughput: goodput of the application, load on the network, and their ratio."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from weir.metrics.bounds import NON_NEGATIVE
from weir.metrics.capacity import capacity_bps
from weir.metrics.registry import Category, View, metric
from weir.metrics.results import Ints, Series
from weir.metrics.window import Window, widths_ns

__all__ = ["aggregate", "total"]

_NONE: Ints = np.zeros(0, dtype=np.int64)


def total(series: Series, ends_ns: Ints = _NONE) -> Series:
    """Sum of the members at each instant at which one of them has a value, and at ``ends_ns``."""
    times, place = np.unique(np.concatenate([*series.times_ns, ends_ns]), return_inverse=True)
    values = np.concatenate([*series.values, np.zeros(len(ends_ns))])
    return Series("all", [0], [times], [np.bincount(place, weights=values, minlength=len(times)).astype(np.float64)])


def aggregate(window: Window, column: str) -> Series:
    """Bit/s of all selected flows together, in every interval of ``measure.goodput``; ``column`` counts bytes."""
    return total(window.rates(column, whole=True), window.ends("goodput"))


@metric(
    "goodput",
    symbol="g_i(t)",
    formula="8 · payload delivered in order in the interval / its length",
    unit="bit/s",
    bounds=NON_NEGATIVE,
    category=Category.THROUGHPUT,
    scope="flow",
    views=(View.END_USER,),
    source="thesis section 2.3.1; RR-6034 section 2.3; thesis eq. 2.6 for the mean",
    tables=("goodput", "flows"),
)
def goodput(window: Window) -> Series:
    """Goodput of a flow: payload delivered to the receiving application, without headers and retransmissions.

    One value per flow and interval of ``measure.goodput`` in which the flow is active. ``goodput.mean`` is the mean
    over the intervals, then over the flows.
    """
    return window.rates("delivered_bytes")


@metric(
    "goodput.aggregate",
    symbol="G(t)",
    formula="Σ_i g_i(t)",
    unit="bit/s",
    bounds=NON_NEGATIVE,
    category=Category.THROUGHPUT,
    scope="group",
    views=(View.END_USER,),
    source="thesis eq. 2.1; RR-6034 section 2.3",
    tables=("goodput", "flows"),
)
def goodput_aggregate(window: Window) -> Series:
    """Goodput of all selected flows together.

    One value per interval of ``measure.goodput``.
    """
    return aggregate(window, "delivered_bytes")


@metric(
    "goodput.node",
    symbol="g_n(t)",
    formula="Σ g_i(t) over the parallel streams i of node n",
    unit="bit/s",
    bounds=NON_NEGATIVE,
    category=Category.THROUGHPUT,
    scope="flow",
    views=(View.END_USER,),
    source="thesis Tables 5.III and 5.IV",
    tables=("goodput", "flows"),
)
def goodput_node(window: Window) -> Series:
    """Goodput of a node: the sum of its parallel streams.

    One value per node and interval of ``measure.goodput`` in which one of its streams is active.
    """
    rates = window.rates("delivered_bytes")
    place = {flow: k for k, flow in enumerate(rates.members)}
    times, values = [], []
    for flows in window.nodes:
        some = [place[flow] for flow in flows]
        node = total(Series("flow", flows, [rates.times_ns[k] for k in some], [rates.values[k] for k in some]))
        times.append(node.times_ns[0])
        values.append(node.values[0])
    return Series("node", range(len(times)), times, values)


@metric(
    "throughput",
    symbol="x_i(t)",
    formula="8 · IP bytes of data packets sent in the interval / its length",
    unit="bit/s",
    bounds=NON_NEGATIVE,
    category=Category.THROUGHPUT,
    scope="flow",
    views=(View.DESIGNER, View.PROVIDER),
    source="thesis section 2.3.1; Table 2.III",
    tables=("goodput", "flows"),
)
def throughput(window: Window) -> Series:
    """Throughput of a flow: IP bytes that it sends, including headers and retransmissions.

    One value per flow and interval of ``measure.goodput`` in which the flow is active.
    """
    return window.rates("sent_ip_bytes")


@metric(
    "throughput.aggregate",
    symbol="X(t)",
    formula="Σ_i x_i(t)",
    unit="bit/s",
    bounds=NON_NEGATIVE,
    category=Category.THROUGHPUT,
    scope="group",
    views=(View.DESIGNER, View.PROVIDER),
    source="thesis eq. 2.2 and 2.11",
    tables=("goodput", "flows"),
)
def throughput_aggregate(window: Window) -> Series:
    """Throughput of all selected flows together; its mean is equation 2.11.

    One value per interval of ``measure.goodput``.
    """
    return aggregate(window, "sent_ip_bytes")


@metric(
    "efficiency",
    symbol="E(t)",
    formula="G(t) / X(t)",
    unit="1",
    bounds=NON_NEGATIVE,
    category=Category.THROUGHPUT,
    scope="group",
    views=(View.DESIGNER,),
    source="thesis eq. 2.3",
    tables=("goodput", "flows"),
    percent=True,
)
def efficiency(window: Window) -> Series:
    """Useful share of the traffic: aggregate goodput over aggregate throughput.

    One value per interval of ``measure.goodput``; undefined in intervals in which nothing was sent. It can exceed 1 in
    an interval that delivers packets sent in the previous one.
    """
    useful = aggregate(window, "delivered_bytes")
    sent = aggregate(window, "sent_ip_bytes").values[0]
    ratio = np.full(len(sent), np.nan)
    np.divide(useful.values[0], sent, out=ratio, where=sent > 0)
    return Series("all", [0], useful.times_ns, [ratio])


@metric(
    "efficiency.capacity",
    symbol="E_C(t)",
    formula="G(t) / C(t)",
    unit="1",
    bounds=NON_NEGATIVE,
    category=Category.THROUGHPUT,
    scope="group",
    views=(View.END_USER, View.PROVIDER),
    source="thesis section 5.2.1",
    tables=("goodput", "flows"),
    percent=True,
)
def efficiency_capacity(window: Window) -> Series:
    """Aggregate goodput over the capacity of the flows' bottleneck.

    One value per interval of ``measure.goodput``; a rate that changes counts with its mean over the interval. Flows
    from sink to source count only if no flow goes from source to sink.
    """
    useful = aggregate(replace(window, flows=window.one_way), "delivered_bytes")
    links = window.links
    ends = useful.times_ns[0]
    widths = widths_ns(ends, window.plan.interval_ns("goodput")) / 1e9
    rate = capacity_bps(window.plan, links[0].id, ends, widths) if links else np.zeros(len(ends))
    ratio = np.full(len(rate), np.nan)
    np.divide(useful.values[0], rate, out=ratio, where=rate > 0)
    return Series("all", [0], useful.times_ns, [ratio])


@metric(
    "cwnd",
    symbol="cwnd_i(t)",
    formula="congestion window at the instants of measure.tcp",
    unit="packets",
    bounds=NON_NEGATIVE,
    category=Category.THROUGHPUT,
    scope="flow",
    views=(View.DESIGNER,),
    source="thesis Table 2.III",
    tables=("samples", "flows"),
)
def cwnd(window: Window) -> Series:
    """Congestion window of a TCP flow.

    One value per flow and instant of ``measure.tcp`` at which the flow is active.
    """
    return window.samples("cwnd")


@metric(
    "in_flight",
    symbol="f_i(t)",
    formula="packets in flight at the instants of measure.tcp",
    unit="packets",
    bounds=NON_NEGATIVE,
    category=Category.THROUGHPUT,
    scope="flow",
    views=(View.DESIGNER,),
    source="thesis section 1.3 (the window in use)",
    tables=("samples", "flows"),
)
def in_flight(window: Window) -> Series:
    """Packets in flight of a TCP flow, as its sender estimates them.

    One value per flow and instant of ``measure.tcp`` at which the flow is active.
    """
    return window.samples("in_flight")
