"""Packet rates of a plan, and whether hosts hand each packet to the network separately."""

from __future__ import annotations

from weir.plan import Plan, TfrcTransport, UdpTransport, UdtTransport, offered_bps, packet_bytes, wire_bytes

__all__ = ["packets_alone", "packets_per_s"]

_MAX_INSTANTS = 100
_SMALL_ACK = 0.5
"""Acknowledgements per data packet. TFRC has a report once a round-trip time, UDT one in 64 packets and ten
milliseconds, which are few."""
_MAX_ALONE_PER_S = 25_000
"""Packets per second that any machine of today can carry one by one: TCP at 200 Mb/s, with its acknowledgements. A
constant instead of a measurement, so that a plan means the same on all machines.
"""


def packets_alone(plan: Plan, per_s: float) -> bool:
    """Whether hosts send each of ``per_s`` packets per second separately, not in trains (``methods.emul.offload``)."""
    offload = plan.methods.emul.offload
    return offload == "packets" or (offload == "auto" and per_s <= _MAX_ALONE_PER_S)


def packets_per_s(plan: Plan) -> tuple[float, int]:
    """Packets that pass the network at its busiest instant, data and acknowledgements, and the number of their flows.

    Assumes that bulk flows fill their capacity.
    """
    starts = sorted({flow.start_ns for flow in plan.flows})
    step = max(1, len(starts) // _MAX_INSTANTS)
    return max((_at(plan, instant) for instant in starts[::step] + starts[-1:]), default=(0.0, 0))


def _at(plan: Plan, instant: int) -> tuple[float, int]:
    """Packets per second of the flows active at ``instant``, each as fast as its path and the others permit."""
    active = [flow for flow in plan.flows if flow.start_ns <= instant < (flow.stop_ns or plan.end_ns)]
    wanted = [float(offered_bps(plan, flow)) for flow in active]
    load: dict[int, float] = {}
    for flow, bps in zip(active, wanted, strict=True):
        for link in flow.path:
            load[link] = load.get(link, 0.0) + bps
    scale = {link: min(1.0, plan.links[link].rate_bps / total) for link, total in load.items() if total}
    packets = 0.0
    for flow, bps in zip(active, wanted, strict=True):
        share = min((scale.get(link, 1.0) for link in flow.path), default=1.0)
        size = min(wire_bytes(plan.links[link], packet_bytes(flow.transport)) for link in flow.path)
        acks = 0.0 if isinstance(flow.transport, UdpTransport | TfrcTransport | UdtTransport) else _SMALL_ACK
        packets += share * bps / 8 / size * (1 + acks)
    return packets, len(active)
