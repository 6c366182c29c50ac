"""A read-only view of a cell's plan for metrics: flows, links and phases.

A plan file may be damaged: its fields are read with their types (:mod:`weir.plan`) and within the limits below. Whether
a plan can be executed was checked by the method before it ran.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir import plan as plans
from weir.run.documents import MAX_NS, read_document
from weir.run.errors import RunError
from weir.run.printable import printable

__all__ = ["MEASURE", "Flow", "Link", "Phase", "Plan", "plan_of", "read_plan"]

MEASURE = {
    "goodput": "goodput",
    "processor": "goodput",
    "samples": "tcp",
    "probes": "tcp",
    "links": "links",
    "classes": "links",
    "ports": "links",
    "delays": "delay",
    "delay_bins": "delay",
}
"""The key of ``measure`` with the interval of each table that has one."""

_MAX_BPS = 10**18
_MAX_BYTES = 1 << 60
_MAX_PACKET = 1 << 20


@dataclass(frozen=True)
class Flow:
    """One flow of the plan; ``typed`` has the remaining fields."""

    id: int
    name: str
    group: str
    index: int
    stream: int
    role: str
    """``test``; ``background`` or, from sink to source, ``reverse``: metrics exclude the latter two."""
    reverse: bool
    """Whether it sends from sink to source."""
    source: int
    target: int
    path: tuple[int, ...]
    reverse_path: tuple[int, ...]
    start_ns: int
    stop_ns: int | None
    protocol: str
    cc: str | None
    payload_bytes: int
    """Payload of a full packet."""
    header_bytes: int
    """IP and transport headers of a full packet."""
    kind: str
    """``bulk``, ``transfers``, ``cbr`` or ``command``."""
    typed: plans.Flow

    @property
    def has_window(self) -> bool:
        """Whether a congestion window limits it, so that table ``samples`` may have it."""
        return self.protocol != "udp"

    @property
    def packet_bytes(self) -> int:
        """IP bytes of a full packet."""
        return self.payload_bytes + self.header_bytes

    @property
    def pages(self) -> tuple[int | None, ...]:
        """The page to which each transfer belongs; empty without transfers."""
        source = self.typed.source
        return tuple(t.page for t in source.transfers) if isinstance(source, plans.TransfersSource) else ()


@dataclass(frozen=True)
class Link:
    """One directed link of the plan; ``typed`` has the remaining fields."""

    id: int
    name: str
    rate_bps: int
    overhead_bytes: int
    mtu_bytes: int
    delay_ns: int
    queue: str
    typed: plans.Link


@dataclass(frozen=True)
class Phase:
    """A named window: ``from_ns`` inclusive, ``to_ns`` exclusive."""

    name: str
    from_ns: int
    to_ns: int


@dataclass(frozen=True)
class Plan:
    """A plan as metrics see it."""

    title: str
    end_ns: int
    flows: tuple[Flow, ...]
    links: tuple[Link, ...]
    phases: tuple[Phase, ...]
    rate_changes: Mapping[int, tuple[tuple[int, int], ...]]
    """For each link whose rate changes: ``(at_ns, rate_bps)`` in the order of time."""
    typed: plans.Plan
    raw: Mapping[str, Any]
    """The document."""

    def interval_ns(self, table: str) -> int:
        """The interval at which a table such as ``goodput`` is recorded; 0 if it is not.

        Raises:
            KeyError: ``table`` is not recorded at an interval.
        """
        return int(getattr(self.typed.measure, f"{MEASURE[table]}_ns"))

    def path_rate_bps(self, flow: Flow) -> int:
        """The rate of the slowest link on the flow's data path."""
        return plans.bottleneck(self.typed, flow.path).rate_bps

    def base_rtt_ns(self, flow: Flow) -> int:
        """Round-trip time of a full packet and its acknowledgement through empty queues."""
        return plans.base_rtt_ns(self.typed, flow.typed)

    def bdp_packets(self, flow: Flow) -> float:
        """Bandwidth-delay product of the flow's path, in full packets on its slowest link, at the base RTT."""
        return plans.bdp_packets(self.typed, flow.typed)


def read_plan(path: Path) -> Plan:
    """Reads ``plan.json``.

    Raises:
        RunError: the file is missing, is not JSON, or a field is missing, of another type or out of range; the message
            names it.
    """
    return plan_of(path, read_document(path)[1])


def plan_of(path: Path, raw: Mapping[str, Any]) -> Plan:
    """The plan in ``raw``, which was read from ``path``.

    Raises:
        RunError: as :func:`read_plan`.
    """
    try:
        typed = plans.typed(raw)
    except plans.PlanError as error:
        raise RunError(path, printable(error.problem), error.expected) from error
    for name, value, least, most in _bounded(typed):
        if not least <= value <= most:
            raise RunError(path, f"{name} is {value}", f"an integer from {least} to {most}")
    for i, flow in enumerate(typed.flows):
        if not flow.path:
            raise RunError(path, f"flows[{i}].path is a list", "at least one link")
    return Plan(
        title=typed.title,
        end_ns=typed.end_ns,
        flows=tuple(_flow(i, flow) for i, flow in enumerate(typed.flows)),
        links=tuple(_link(i, link) for i, link in enumerate(typed.links)),
        phases=tuple(Phase(phase.name, phase.from_ns, phase.to_ns) for phase in typed.phases),
        rate_changes=_rate_changes(typed),
        typed=typed,
        raw=raw,
    )


def _bounded(plan: plans.Plan) -> Iterator[tuple[str, int, int, int]]:
    """Each number that readers compute with: its name, value, minimum and maximum."""
    yield "end_ns", plan.end_ns, 1, MAX_NS
    for name in ("goodput_ns", "tcp_ns", "links_ns", "delay_ns"):
        yield f"measure.{name}", getattr(plan.measure, name), 0, MAX_NS
    last = len(plan.links) - 1
    for i, link in enumerate(plan.measure.links):
        yield f"measure.links[{i}]", link, 0, last
    for i, phase in enumerate(plan.phases):
        yield f"phases[{i}].from_ns", phase.from_ns, 0, MAX_NS
        yield f"phases[{i}].to_ns", phase.to_ns, phase.from_ns, MAX_NS
    for i, change in enumerate(plan.changes):
        yield f"changes[{i}].link", change.link, 0, last
        if isinstance(change.change, plans.RateChange):
            yield f"changes[{i}].change.rate_bps", change.change.rate_bps, 0, _MAX_BPS
        if isinstance(change.change, plans.SharesChange):
            for j, share in enumerate(change.change.shares):
                yield f"changes[{i}].change.shares[{j}]", share, 0, _MAX_BYTES
        if isinstance(change.change, plans.TokenRatesChange):
            for j, one in enumerate(change.change.rates):
                yield f"changes[{i}].change.rates[{j}].rate_bps", one.rate_bps, 0, _MAX_BPS
                yield f"changes[{i}].change.rates[{j}].peak_bps", one.peak_bps or 0, 0, _MAX_BPS
    for i, line in enumerate(plan.links):
        yield f"links[{i}].rate_bps", line.rate_bps, 1, _MAX_BPS
        yield f"links[{i}].overhead_bytes", line.overhead_bytes, 0, _MAX_PACKET
        yield f"links[{i}].mtu_bytes", line.mtu_bytes, 1, 1 << 32
        yield f"links[{i}].delay.delay_ns", line.delay.delay_ns, 0, MAX_NS
        yield f"links[{i}].queue.limit.bytes", line.queue.limit.bytes or 0, 0, _MAX_BYTES
        yield f"links[{i}].queue.limit.packets", line.queue.limit.packets or 0, 0, _MAX_BYTES
    for i, flow in enumerate(plan.flows):
        yield f"flows[{i}].start_ns", flow.start_ns, 0, MAX_NS
        yield f"flows[{i}].stop_ns", flow.stop_ns or 0, 0, MAX_NS
        payload = "mss_bytes" if isinstance(flow.transport, plans.TcpTransport) else "payload_bytes"
        yield f"flows[{i}].transport.{payload}", plans.payload_bytes(flow.transport), 1, _MAX_PACKET
        for name, path in (("path", flow.path), ("reverse_path", flow.reverse_path)):
            for j, link in enumerate(path):
                yield f"flows[{i}].{name}[{j}]", link, 0, last


def _rate_changes(plan: plans.Plan) -> dict[int, tuple[tuple[int, int], ...]]:
    found: dict[int, list[tuple[int, int]]] = {}
    for step in plan.changes:
        if isinstance(step.change, plans.RateChange):
            # An instant after the end has no effect, so it may be clipped.
            found.setdefault(step.link, []).append((min(step.at_ns, MAX_NS), step.change.rate_bps))
    return {link: tuple(steps) for link, steps in found.items()}


def _flow(number: int, flow: plans.Flow) -> Flow:
    transport = flow.transport
    return Flow(
        id=number,
        name=flow.name,
        group=flow.group,
        index=flow.index,
        stream=flow.stream,
        role=flow.role,
        reverse=plans.is_reverse(flow),
        source=flow.from_,
        target=flow.to,
        path=flow.path,
        reverse_path=flow.reverse_path,
        start_ns=flow.start_ns,
        stop_ns=flow.stop_ns,
        protocol=plans.kind_of(transport),
        cc=_control(transport),
        payload_bytes=plans.payload_bytes(transport),
        header_bytes=plans.header_bytes(transport),
        kind=plans.kind_of(flow.source),
        typed=flow,
    )


def _control(transport: plans.Transport) -> str | None:
    """The congestion control of a transport that lets one choose."""
    match transport:
        case plans.UdpTransport() | plans.TfrcTransport() | plans.UdtTransport():
            return None
        case plans.DccpTransport():
            return f"ccid{transport.ccid}"
    return transport.cc


def _link(number: int, link: plans.Link) -> Link:
    return Link(
        id=number,
        name=link.name,
        rate_bps=link.rate_bps,
        overhead_bytes=link.overhead_bytes,
        mtu_bytes=link.mtu_bytes,
        delay_ns=link.delay.delay_ns,
        queue=plans.kind_of(link.queue),
        typed=link,
    )
