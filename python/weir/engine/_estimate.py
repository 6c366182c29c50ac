"""Estimates the work of a plan before it runs: orders of magnitude for sorting, progress and ``weir plan``."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weir.plan import Flow, Link, Plan, TcpTransport, TransfersSource, offered_bps, packet_bytes, queue_bytes, typed

__all__ = ["Estimate", "estimate"]

_BYTES_PER_PACKET_IN_FLIGHT = 64
_BASE_BYTES = 200_000_000


@dataclass(frozen=True)
class Estimate:
    """The approximate cost of a plan."""

    flows: int
    end_s: float
    """Simulated time."""
    packets: int
    """Data packets delivered if flows fill the capacity of the links."""
    memory_bytes: int
    """Peak memory of the simulator: packets in flight and in queues."""


def estimate(document: Mapping[str, Any]) -> Estimate:
    """Estimates a plan.

    Every active flow asks for the lowest rate of its path, or for its size if that is less. Every link then scales its
    flows down to its capacity over the whole run. A queue counts as full if its link is offered more than it carries.
    Congestion control is ignored: the result is an upper bound of the packets delivered for bulk flows.

    Raises:
        weir.plan.PlanError: the document is no plan.
    """
    plan = typed(document)
    demand = [_demand_bytes(plan, flow) for flow in plan.flows]
    load: defaultdict[int, float] = defaultdict(float)
    for flow, wanted in zip(plan.flows, demand, strict=True):
        for link in flow.path:
            load[link] += wanted
    carried = plan.end_ns / 8e9
    scale = {link: min(1.0, plan.links[link].rate_bps * carried / total) for link, total in load.items() if total}
    packets = 0.0
    for flow, wanted in zip(plan.flows, demand, strict=True):
        sent = wanted * min((scale.get(link, 1.0) for link in flow.path), default=1.0)
        packets += sent / packet_bytes(flow.transport)
    memory = _BASE_BYTES + _BYTES_PER_PACKET_IN_FLIGHT * _in_flight(plan)
    return Estimate(len(plan.flows), plan.end_ns / 1e9, round(packets), round(memory))


def _demand_bytes(plan: Plan, flow: Flow) -> float:
    stop_ns = min(flow.stop_ns or plan.end_ns, plan.end_ns)
    most = float(offered_bps(plan, flow) / 8e9 * max(0, stop_ns - flow.start_ns))
    if isinstance(flow.source, TransfersSource):
        return min(most, float(sum(transfer.bytes for transfer in flow.source.transfers)))
    return most


def _in_flight(plan: Plan) -> float:
    """Packets that links hold at once, including an acknowledgement for every second data packet."""
    offered: defaultdict[int, float] = defaultdict(float)
    windows = 0.0
    for flow in plan.flows:
        rate = offered_bps(plan, flow)
        window = flow.transport.receive_buffer_bytes if isinstance(flow.transport, TcpTransport) else math.inf
        windows += 1.5 * window / packet_bytes(flow.transport)
        for link in flow.path:
            offered[link] += rate
        for link in flow.reverse_path:
            offered[link] += rate / 2
    return min(windows, sum(_held(plan.links[link], rate) for link, rate in offered.items()))


def _held(link: Link, offered_bps: float) -> float:
    """Packets that ``link`` holds at an offered load: those in flight, plus its queue if it is overloaded."""
    held = min(offered_bps, link.rate_bps) / 8e9 * link.delay.delay_ns
    if offered_bps > link.rate_bps:
        held += queue_bytes(link.queue, link.mtu_bytes) or 0
    return float(held / link.mtu_bytes)
