"""What a metric can be in a cell at all, from its plan: no flow exceeds its links, and a full link has no more to give.

The limits are those of a plausible run, not of arithmetic. Where flows can fill the link that they share, Jain's index
is at least that of a full link on which as few flows as possible have everything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from weir.metrics.bounds import Bounds
from weir.metrics.reference import Reference
from weir.metrics.selection import select_flows, select_links
from weir.plan import TransfersSource
from weir.run import Flow, Link, Plan

__all__ = ["limits_of"]

_UNSEEN_BYTES = 20
"""Preamble and inter-frame gap, which counters of frames do not see."""
_SPARE = 0.999
"""Share of the flows' own rates below which the shared link is the limit."""
_CLOCKS = 0.01
"""Share of a transfer by which the hosts' clocks may differ without adding a round of transfers."""
_RATES = ("goodput", "goodput.node", "goodput.aggregate", "efficiency.capacity")


def limits_of(plan: Plan, reference: Reference) -> Bounds:
    """The smallest and the largest value of ``reference`` in a cell with ``plan``, in the metric's unit.

    Infinite where the plan sets no limit.
    """
    name, general = reference.metric.name, reference.bounds
    if name == "port.rate":
        most = _frames(plan, reference)
        return Bounds(0.0, most / 2 if {"sd"} & set(reference.stats) else most)
    if name == "switch.loss_run_max":
        sizes = [8 * (flow.packet_bytes + _UNSEEN_BYTES) for flow in _flows(plan, reference)]
        return Bounds(0.0, _frames(plan, reference) * plan.end_ns / 1e9 / min(sizes, default=1))
    if {"sd", "var"} & set(reference.stats):
        return general
    if "cov" in reference.stats:
        return Bounds(0.0, 1.0)
    if name in _RATES:
        return _rate(plan, reference)
    if name in ("jain", "jain.interval", "jain.node"):
        return Bounds(_jain(_members(plan, reference), _most(plan, _flows(plan, reference))), 1.0)
    if name in ("link.frames", "link.throughput"):
        return Bounds(0.0, _on_link(plan, reference))
    if name.startswith("completion") and reference.metric.unit in ("s", "1"):
        return _completion(plan, reference)
    if reference.metric.unit == "s":
        return Bounds(0.0, plan.end_ns / 1e9)
    return general


def _frames(plan: Plan, reference: Reference) -> float:
    """The largest rate of one flow's frames, without preamble and gap; two values lie half of it from their mean."""
    found = []
    for flow in _flows(plan, reference):
        frame = flow.packet_bytes + plan.links[flow.path[0]].overhead_bytes - _UNSEEN_BYTES
        found.append(_alone(plan, flow) * frame / flow.payload_bytes)
    return max(found, default=0.0)


def _flows(plan: Plan, reference: Reference) -> list[Flow]:
    """The flows that the metric covers and that are active in its phase."""
    selector = None if reference.metric.scope == "link" else reference.selector
    phase = next((one for one in plan.phases if one.name == reference.phase), None)
    begin, end = (phase.from_ns, phase.to_ns) if phase else (0, plan.end_ns)
    return [
        flow
        for flow in select_flows(plan, selector)
        if flow.start_ns < end and (flow.stop_ns is None or flow.stop_ns > begin)
    ]


def _share(plan: Plan, flow: Flow, link: int) -> float:
    """Payload over bytes on the wire, of full packets on a link."""
    return flow.payload_bytes / (flow.packet_bytes + plan.links[link].overhead_bytes)


def _alone(plan: Plan, flow: Flow) -> float:
    """Goodput of a flow that has its path for itself, bit/s."""
    return min(plan.links[link].rate_bps * _share(plan, flow, link) for link in flow.path)


def _most(plan: Plan, flows: Sequence[Flow]) -> float:
    """The largest total goodput of ``flows``, bit/s: each link limits those that cross it.

    Exact if one link is shared, as in the catalogue; else an upper bound.
    """
    crossing: dict[int, list[Flow]] = {}
    for flow in flows:
        for link in flow.path:
            crossing.setdefault(link, []).append(flow)
    hosts = {flow.path[0]: _alone(plan, flow) for flow in flows}
    shared = [
        plan.links[link].rate_bps * max(_share(plan, flow, link) for flow in found)
        for link, found in crossing.items()
        if len(found) == len(flows)
    ]
    return min([sum(hosts.values()), *shared])


def _bottleneck(plan: Plan, flows: Sequence[Flow]) -> Link:
    """The link with that name, else the slowest of those that the most flows cross."""
    crossed = [link for flow in flows for link in flow.path]
    return min(
        (plan.links[link] for link in set(crossed)),
        key=lambda link: (link.name != "bottleneck", -crossed.count(link.id), link.rate_bps, link.id),
    )


def _members(plan: Plan, reference: Reference) -> list[float]:
    """The largest goodput of each flow, or of each node, alone."""
    if not reference.metric.name.endswith(".node"):
        return [_alone(plan, flow) for flow in _flows(plan, reference)]
    return list({(flow.group, flow.index): _alone(plan, flow) for flow in _flows(plan, reference)}.values())


def _rate(plan: Plan, reference: Reference) -> Bounds:
    flows = _flows(plan, reference)
    if not flows:
        return Bounds(0.0, 0.0)
    total, members = _most(plan, flows), _members(plan, reference)
    if reference.metric.name == "efficiency.capacity":
        return Bounds(0.0, total / _bottleneck(plan, flows).rate_bps)
    if "aggregate" in reference.metric.name or "sum" in reference.stats:
        return Bounds(0.0, total)
    equal = total / len(members) if set(reference.stats) <= {"mean", "min"} else math.inf
    return Bounds(0.0, min(max(members), equal))


def _jain(members: Sequence[float], total: float) -> float:
    """The least index: of a full link that as few members as possible share; 1/N if they cannot fill it."""
    if not members or total >= _SPARE * sum(members):
        return 1 / max(len(members), 1)
    left, squares = total, 0.0
    for most in sorted(members, reverse=True):
        squares += min(most, left) ** 2
        left -= min(most, left)
    return total**2 / (len(members) * squares)


def _on_link(plan: Plan, reference: Reference) -> float:
    named = select_links(plan, reference.selector) if reference.selector else ()
    link = named[0] if named else _bottleneck(plan, _flows(plan, reference))
    size = max(flow.packet_bytes for flow in plan.flows)
    seen = link.overhead_bytes - _UNSEEN_BYTES if reference.metric.name == "link.frames" else 0
    return link.rate_bps * (size + seen) / (size + link.overhead_bytes)


def _completion(plan: Plan, reference: Reference) -> Bounds:
    """Times in s between those of a schedule that serves as many at once as the link carries, and the run's end."""
    flows = [flow for flow in _flows(plan, reference) if isinstance(flow.typed.source, TransfersSource)]
    end = plan.end_ns / 1e9
    if reference.metric.unit == "1" and reference.metric.name != "completion.jain":
        return reference.bounds
    if not flows:
        return Bounds(0.0, end)
    own = [8.0 * _bytes(flow) / _alone(plan, flow) for flow in flows]
    at_once = _most(plan, flows) / max(_alone(plan, flow) for flow in flows)
    served = [seconds * math.ceil((place + 1) / at_once - _CLOCKS) for place, seconds in enumerate(sorted(own))]
    if reference.metric.name == "completion.jain":
        full = len(served) > at_once * (2 - _SPARE)
        return Bounds(sum(served) ** 2 / (len(served) * sum(s * s for s in served)) if full else 1 / len(served), 1.0)
    if reference.metric.name == "completion.makespan":
        return Bounds(sum(own) / at_once, end)
    low = {"min": min(served), "max": sum(own) / at_once, "sum": sum(served)}
    each = sum(served) / len(served)
    times = 1 if "sum" in reference.stats else _transfers(flows)
    return Bounds(low.get((reference.stats or ("mean",))[-1], each) / times, end)


def _bytes(flow: Flow) -> int:
    source = flow.typed.source
    assert isinstance(source, TransfersSource)
    return sum(transfer.bytes for transfer in source.transfers)


def _transfers(flows: Sequence[Flow]) -> int:
    """Transfers of each flow."""
    source = flows[0].typed.source
    assert isinstance(source, TransfersSource)
    return max(len(source.transfers), 1)
