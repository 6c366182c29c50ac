"""Switches: what an output port gives to the flows of each input port.

``port.rate``, ``port.ratio`` and ``port.lost`` are computed at the hosts, so that every method has them. The others
read table ``ports``: a flow has the values of the input port by which it enters the first switch of
its path, for the output port by which it leaves; flows that share both share the values. A flow without a switch has
none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import polars as pl

from weir.metrics.bounds import NON_NEGATIVE
from weir.metrics.registry import Category, View, metric
from weir.metrics.results import Result, Series, Values
from weir.metrics.window import Window
from weir.run import Flow

__all__: list[str] = []

_FRAME_BYTES = 18
"""Ethernet header and checksum. Preamble and gap, 20 bytes, are not counted."""


def _metric(
    name: str,
    *,
    symbol: str,
    formula: str,
    unit: str,
    category: Category,
    section: str,
    table: str,
    percent: bool = False,
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Registers a metric of flows, for providers, from a section of the report and a table beside ``flows``."""
    return metric(
        name,
        symbol=symbol,
        formula=formula,
        unit=unit,
        bounds=NON_NEGATIVE,
        category=category,
        scope="flow",
        views=(View.PROVIDER,),
        source=f"LIP 2006-38 section {section}",
        tables=(table, "flows"),
        percent=percent,
    )


@_metric(
    "port.rate",
    symbol="X_i(t)",
    formula="8 · packets delivered · (IP bytes of a packet + 18) / length of the interval",
    unit="bit/s",
    category=Category.THROUGHPUT,
    section="3.4",
    table="goodput",
)
def port_rate(window: Window) -> Series:
    """Ethernet frames that a flow's receiver gets, without preamble and gap; one value per interval of ``goodput``.

    This is the paper's throughput: 1000 Mb/s of wire carry 987 Mb/s of frames with 1500 B packets. Packets are counted
    as full ones. ``.sd`` is the paper's deviation.
    """
    delivered = window.rates("delivered_bytes")
    rates = [
        values * (flow.payload_bytes + flow.header_bytes + _FRAME_BYTES) / flow.payload_bytes
        for flow, values in zip(window.flows, delivered.values, strict=True)
    ]
    return Series("flow", delivered.members, delivered.times_ns, rates)


@_metric(
    "port.ratio",
    symbol="X_i / R_i",
    formula="Σ packets delivered / Σ packets sent, full ones",
    unit="1",
    category=Category.THROUGHPUT,
    section="4.5",
    table="goodput",
)
def port_ratio(window: Window) -> Values:
    """Output over input rate of a flow. Packets in the switch at an end of the window may bring it above 1."""
    ratios = [out / given if given else math.nan for given, out in _packets(window)]
    return Values("flow", window.flow_ids, np.array(ratios, np.float64))


@metric(
    "port.lost",
    symbol="L_i",
    formula="Σ packets sent - Σ packets delivered, full ones",
    unit="packets",
    category=Category.LOSS,
    scope="flow",
    views=(View.PROVIDER,),
    source="LIP 2006-38 section 5.1 and figure 15",
    tables=("goodput", "flows"),
)
def port_lost(window: Window) -> Values:
    """Packets that a flow lacks at its receiver: the paper's estimate of losses from the bandwidth lost.

    Packets in the switch when the window begins count as delivered too many, those in it at the end as lost.
    """
    lost = [given - out for given, out in _packets(window)]
    return Values("flow", window.flow_ids, np.array(lost, np.float64))


def _packets(window: Window) -> list[tuple[float, float]]:
    """Full packets that each flow sent in the window, and that its receiver got."""
    counted = window.data.grouped("goodput", window.flow_ids)
    delivered, sent = counted.column("delivered_bytes"), counted.column("sent_ip_bytes")
    found = []
    for flow in window.flows:
        rows, _, _ = window.intervals("goodput", flow.id, *window.span(flow), window.flow_ids)
        packet = flow.payload_bytes + flow.header_bytes
        found.append((float(np.sum(sent[rows])) / packet, float(np.sum(delivered[rows])) / flow.payload_bytes))
    return found


def _ports(window: Window, flow: Flow) -> pl.DataFrame | None:
    """The rows of table ``ports`` in the window for the first switch of a flow; none if it passes no switch.

    Raises:
        MetricError: the table was not recorded.
    """
    links, nodes = window.plan.typed.links, window.plan.typed.nodes
    for before, after in pairwise(flow.path):
        if nodes[links[before].to].switch is None:
            continue
        begin, end = window.span(flow)
        return window.data.ports.filter(
            (pl.col("input") == before)
            & (pl.col("output") == after)
            & (pl.col("time_ns") >= begin + window.plan.interval_ns("ports"))
            & (pl.col("time_ns") <= end)
        )
    return None


def _values(window: Window, value: pl.Expr) -> Values:
    rows = [_ports(window, flow) for flow in window.flows]
    found = [None if ports is None else ports.select(value).item() for ports in rows]
    return Values("flow", window.flow_ids, np.array([math.nan if x is None else float(x) for x in found], np.float64))


def _mean(packets: str, runs: str) -> pl.Expr:
    count = pl.col(runs).sum()
    return pl.when(count > 0).then(pl.col(packets).sum() / count)


@_metric(
    "switch.lost",
    symbol="D_i",
    formula="Σ packets dropped",
    unit="packets",
    category=Category.LOSS,
    section="5.1",
    table="ports",
)
def lost(window: Window) -> Values:
    """Packets of an input port for which the memory of the switch had no room, at the output port of the flow.

    ``port.lost`` estimates it at the hosts; this counts at the switch, and says which input port paid for a burst.
    """
    return _values(window, pl.col("drop_packets").sum())


@_metric(
    "switch.loss",
    symbol="p_i",
    formula="Σ packets dropped / Σ packets that arrived, dropped ones among them",
    unit="1",
    category=Category.LOSS,
    section="5.1",
    table="ports",
    percent=True,
)
def loss(window: Window) -> Values:
    """Share of the packets of an input port that the memory of the switch drops; undefined without packets."""
    arrived = pl.col("in_packets").sum()
    return _values(window, pl.when(arrived > 0).then(pl.col("drop_packets").sum() / arrived))


@_metric(
    "switch.loss_run",
    symbol="b_i",
    formula="Σ packets dropped / Σ runs of consecutive losses",
    unit="packets",
    category=Category.LOSS,
    section="4.3",
    table="ports",
)
def loss_run(window: Window) -> Values:
    """Mean length of the runs of losses of an input port; undefined without a loss.

    Packets at the output are numbered in steps of one more than these lengths.
    """
    return _values(window, _mean("drop_packets", "loss_runs"))


@_metric(
    "switch.loss_run_max",
    symbol="max b_i",
    formula="longest run of consecutive losses",
    unit="packets",
    category=Category.LOSS,
    section="4.3",
    table="ports",
)
def loss_run_max(window: Window) -> Values:
    """Longest run of losses of an input port, 0 without a loss. A run counts whole, also the part before the window."""
    return _values(window, pl.col("loss_run_max").max())


@_metric(
    "switch.service_run",
    symbol="s_i",
    formula="Σ packets served / Σ runs of consecutive services",
    unit="packets",
    category=Category.FAIRNESS,
    section="4.3",
    table="ports",
)
def service_run(window: Window) -> Values:
    """Mean number of packets of an input port that an output port sends without one of another input between."""
    return _values(window, _mean("out_packets", "service_runs"))


@_metric(
    "switch.starvation",
    symbol="S_i",
    formula="longest time without service of an input port of which packets came or waited",
    unit="s",
    category=Category.FAIRNESS,
    section="4.1",
    table="ports",
)
def starvation(window: Window) -> Values:
    """Longest time for which an output port served nothing of an input port although it had or got packets of it."""
    return _values(window, pl.col("starved_max_ns").max() * 1e-9)
