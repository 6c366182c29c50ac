"""What the components of its hosts permit a flow: the terms of the thesis' equation 6.1."""

from __future__ import annotations

from collections.abc import Iterator

from weir.plan import Capacity, Flow, PacketWork, Plan, TcpTransport, packet_bytes, payload_bytes, wire_bytes
from weir.run.quantity import RATE, format_quantity

__all__ = ["host_bounds"]

_FEW = 3
"""Maximum number of flows named."""
_DIGITS = 3


def host_bounds(plan: Plan) -> Iterator[str]:
    """What bounds the flows whose hosts are slower than the links of their paths, a line for each component.

    The rate is the goodput of a flow alone, with windows that do not limit (R. Guillier, "Methodologies and Tools for
    the Evaluation of Transport Protocols in the Context of High-Speed Networks", equations 6.1 to 6.6).
    """
    found: dict[tuple[str, float], list[str]] = {}
    for flow in plan.flows:
        bound = _bound(plan, flow)
        if bound is not None:
            found.setdefault(bound, []).append(flow.name)
    for (component, goodput_bps), names in found.items():
        few = ", ".join(names[:_FEW]) + (", ..." if len(names) > _FEW else "")
        rate = format_quantity(goodput_bps, RATE, _DIGITS)
        yield f"hosts ({few}): the {component} permits a flow {rate} of goodput, less than the links of its path"


def _bound(plan: Plan, flow: Flow) -> tuple[str, float] | None:
    """The slowest component and the goodput in bit/s that it permits; ``None`` if a link of the path is as slow."""
    if not isinstance(flow.transport, TcpTransport):
        return None
    payload, packet = payload_bytes(flow.transport), packet_bytes(flow.transport)
    links = [plan.links[number] for number in flow.path]
    times_ns = [8e9 * wire_bytes(link, packet) / link.rate_bps for link in links if link.rate_bps]
    slowest_link_ns = max(times_ns, default=0.0)
    hosts = []
    for end, sends in ((flow.from_, True), (flow.to, False)):
        node = plan.nodes[end]
        if node.capacity is not None:
            parts = _times_ns(node.capacity, payload, packet, sends=sends)
            hosts += [(f"{name} of {node.name}", time) for name, time in parts if time]
    name, time = max(hosts, key=lambda part: part[1], default=("", 0.0))
    return (name, 8e9 * payload / time) if time > slowest_link_ns else None


def _times_ns(capacity: Capacity, payload: int, packet: int, *, sends: bool) -> Iterator[tuple[str, float]]:
    """The time that each component takes for a data packet."""
    if capacity.processor is not None:
        yield "core", _core_ns(capacity.processor.send if sends else capacity.processor.receive, payload)
    if capacity.memory is not None:
        yield "memory", 8e9 * packet * capacity.memory.passes / capacity.memory.rate_bps
    if capacity.bus_bps:
        yield "bus", 8e9 * packet / capacity.bus_bps
    disk_bps = 0 if capacity.disk is None else capacity.disk.read_bps if sends else capacity.disk.write_bps
    if disk_bps:
        yield "disk", 8e9 * payload / disk_bps


def _core_ns(work: PacketWork, payload: int) -> float:
    return work.packet_ns + (8e9 * payload / work.copy_bps if work.copy_bps else 0)
