"""Ports of switches at which phases decide: exact clocks always meet a full memory in the same order.

With constant rates, each packet of one input comes as long after a place becomes free as the one before it. So the
places go to the same input, whatever the arbiter. Clocks of real switches and hosts differ.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

from weir.plan._documents import PlanError, typed
from weir.plan._facts import packet_bytes, wire_bytes
from weir.plan._types import (
    CbrSource,
    Delay,
    FifoArbiter,
    Flow,
    MixedMemory,
    PartitionedMemory,
    Plan,
    SharedMemory,
    Switch,
    UdpTransport,
)

__all__ = ["PhasePort", "first_phase_remark", "phase_ports", "phase_remark"]

_RESUME_PACKETS = 16
"""Places that a full queue frees at once: with so many, a FIFO shares by rates to within 4 %."""
_JITTER_PACKETS = 2
"""Times of a packet at the port: with jitter of so many, the memory shares by rates to within 7 %."""
_NAMES = 4


@dataclasses.dataclass(frozen=True)
class PhasePort:
    """An output port of a switch at which phases decide."""

    link: int
    """Number of its link."""
    flows: tuple[int, ...]
    """Numbers of the flows with constant rates."""
    offered_bps: int
    """Their rates together, bit/s on the wire."""
    packet_bytes: int
    """Their largest packet, bytes on the wire."""
    fifo: bool
    """Whether the switch has one queue for each output port, instead of several that share all of its memory."""


def phase_remark(plan: Plan, port: PhasePort) -> str:
    """What happens at a port, and what lets something else decide, for people."""
    link = plan.links[port.link]
    names = [f"`{name}`" for name in dict.fromkeys(plan.flows[number].group for number in port.flows)]
    listed = [*names[:_NAMES], *(["others"] if len(names) > _NAMES else [])]
    senders = " and ".join(filter(None, [", ".join(listed[:-1]), listed[-1]]))
    rates = f"up to {port.offered_bps / 1e6:.6g} Mb/s at constant rates to the {link.rate_bps / 1e6:.6g} Mb/s"
    jitter = f"`jitter` from {_JITTER_PACKETS * port.packet_bytes * 8e6 / link.rate_bps:.3g}us on"
    way = f"`resume` from {_RESUME_PACKETS * port.packet_bytes}B on, or {jitter}, lets the rates decide"
    if not port.fifo:
        way = f"`alpha`, or memory of each queue's own, lets the arbiter decide, {jitter} the rates"
    text = f"{senders} send {rates} of `{link.name}`: phases decide whose packets find a place in the full memory"
    return f"{text}, because clocks are exact here, and real ones differ; {way}"


def first_phase_remark(document: Mapping[str, Any]) -> str | None:
    """What :func:`phase_remark` says of the first such port of a plan; ``None`` if it has none, or is no plan."""
    if not any(node.get("switch") for node in document.get("nodes", ())):
        return None  # most plans: without a switch, nothing need be converted
    try:
        plan = typed(document)
    except PlanError:
        return None
    return next((phase_remark(plan, port) for port in phase_ports(plan)), None)


def phase_ports(plan: Plan) -> tuple[PhasePort, ...]:
    """The ports of the plan's switches at which phases decide whose packets find a place."""
    found = []
    for number, link in enumerate(plan.links):
        switch = plan.nodes[link.from_].switch
        if switch is not None:
            inputs = _inputs(plan, number)
            port = _port(plan, number, [flow for flows in inputs.values() for flow in flows], switch)
            if len(inputs) > 1 and _undecided(plan, port, len(inputs), switch) and _fills(plan, port, inputs, switch):
                found.append(port)
    return tuple(found)


def _inputs(plan: Plan, link: int) -> dict[int, list[int]]:
    """The flows with constant rates that leave over a link, by the link before it."""
    found: dict[int, list[int]] = {}
    for number, flow in enumerate(plan.flows):
        place = flow.path.index(link) if link in flow.path else 0
        same = all(_same_for_each_packet(plan.links[before].delay) for before in flow.path[:place])
        if place and same and _is_constant(flow):
            found.setdefault(flow.path[place - 1], []).append(number)
    return found


def _same_for_each_packet(delay: Delay) -> bool:
    """Whether a delay line has a delay and nothing else."""
    return delay.__struct_fields__ == ("delay_ns",)


def _is_constant(flow: Flow) -> bool:
    source = flow.source
    return isinstance(source, CbrSource) and not source.periods_ns and isinstance(flow.transport, UdpTransport)


def _port(plan: Plan, link: int, flows: list[int], switch: Switch) -> PhasePort:
    sizes = [wire_bytes(plan.links[link], packet_bytes(plan.flows[flow].transport)) for flow in flows]
    offered = sum(_wire_bps(plan, link, flow) for flow in flows)
    fifo = isinstance(switch.arbiter, FifoArbiter)
    return PhasePort(link, tuple(flows), offered, max(sizes, default=0), fifo)


def _wire_bps(plan: Plan, link: int, number: int) -> int:
    flow = plan.flows[number]
    assert isinstance(flow.source, CbrSource)
    size = packet_bytes(flow.transport)
    return round(flow.source.rate_bps * wire_bytes(plan.links[link], size) / size)


def _undecided(plan: Plan, port: PhasePort, inputs: int, switch: Switch) -> bool:
    """Whether nothing in the switch decides instead of phases."""
    packet_ns = port.packet_bytes * 8e9 / plan.links[port.link].rate_bps
    if switch.pause is not None or switch.jitter_ns >= _JITTER_PACKETS * packet_ns:
        return False
    if port.fifo:
        return switch.resume_bytes < _RESUME_PACKETS * port.packet_bytes
    memory = switch.memory
    # With a threshold, full queues leave this much free for one that holds less.
    free = memory.bytes / (1 + inputs * memory.alpha) if isinstance(memory, SharedMemory) and memory.alpha else 0.0
    return isinstance(memory, SharedMemory) and free < port.packet_bytes


def _fills(plan: Plan, port: PhasePort, inputs: dict[int, list[int]], switch: Switch) -> bool:
    """Whether flows of several inputs together send more than the port takes for so long that they fill the memory."""
    flows = [plan.flows[number] for number in port.flows]
    instants = sorted({*(flow.start_ns for flow in flows), *(_stop(plan, flow) for flow in flows)})
    held = 0.0
    for begin, end in itertools.pairwise(instants):
        active = {
            input_: [n for n in numbers if plan.flows[n].start_ns <= begin and _stop(plan, plan.flows[n]) >= end]
            for input_, numbers in inputs.items()
        }
        offered = sum(_wire_bps(plan, port.link, n) for numbers in active.values() for n in numbers)
        excess = offered - plan.links[port.link].rate_bps
        held = max(0.0, held + excess * (end - begin) / 8e9)
        if excess > 0 and held > _room(switch) and sum(map(bool, active.values())) > 1:
            return True
    return False


def _stop(plan: Plan, flow: Flow) -> int:
    return plan.end_ns if flow.stop_ns is None else min(flow.stop_ns, plan.end_ns)


def _room(switch: Switch) -> int:
    """The bytes that a queue holds at most, but for a threshold."""
    match switch.memory:
        case MixedMemory() as memory:
            return memory.reserved_bytes + memory.shared_bytes
        case SharedMemory() | PartitionedMemory() as memory:
            return memory.bytes
