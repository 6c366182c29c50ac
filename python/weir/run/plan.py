"""A read-only view of a cell's plan: what metrics need to know about flows, links and phases.

The plan's schema belongs to the Rust crate ``weir-plan``; this view names the fields that readers use and keeps the
whole document in ``raw``. It takes each field with its type and within its range, because a plan that is read may be
damaged; whether a plan is one that can be executed, a method checked before it ran it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.run.documents import MOST_NS, Fields, read_document

__all__ = ["MEASURE", "Flow", "Link", "Phase", "Plan", "plan_of", "read_plan"]

MEASURE = {"goodput": "goodput", "samples": "tcp", "links": "links", "delays": "delay", "delay_bins": "delay"}
"""What of ``measure`` gives the interval of each table that has one."""

_TCP_HEADERS = 40
_UDP_HEADERS = 28
_TIMESTAMPS = 12

_MOST_BPS = 10**18
_MOST_BYTES = 1 << 60
_MOST_PACKET = 1 << 20


@dataclass(frozen=True)
class Flow:
    """One flow of the plan; ``raw`` has the rest."""

    id: int
    name: str
    group: str
    index: int
    stream: int
    role: str
    """``test``; ``background`` or, from sink to source, ``reverse``: metrics are not about these."""
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
    """``bulk``, ``transfers`` or ``cbr``."""
    raw: Mapping[str, Any]

    @property
    def packet_bytes(self) -> int:
        """IP bytes of a full packet."""
        return self.payload_bytes + self.header_bytes


@dataclass(frozen=True)
class Link:
    """One directed link of the plan; ``raw`` has the rest."""

    id: int
    name: str
    rate_bps: int
    overhead_bytes: int
    mtu_bytes: int
    delay_ns: int
    queue: str
    raw: Mapping[str, Any]


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
    raw: Mapping[str, Any]

    def interval_ns(self, table: str) -> int:
        """The interval at which a table such as ``goodput`` is recorded; 0 if it is not.

        Raises:
            KeyError: ``table`` is not recorded at an interval.
        """
        return int(self.raw["measure"].get(f"{MEASURE[table]}_ns", 0))

    def path_rate_bps(self, flow: Flow) -> int:
        """The rate of the slowest link that the flow's data cross."""
        return min(self.links[link].rate_bps for link in flow.path)

    def base_rtt_ns(self, flow: Flow) -> int:
        """Round-trip time of a full packet and its acknowledgement through empty queues."""
        total = 0
        ack_bytes = flow.header_bytes
        for links, size in ((flow.path, flow.packet_bytes), (flow.reverse_path, ack_bytes)):
            for link in (self.links[i] for i in links):
                total += link.delay_ns + (size + link.overhead_bytes) * 8 * 1_000_000_000 // link.rate_bps
        return max(total, 1)

    def bdp_packets(self, flow: Flow) -> float:
        """Bandwidth-delay product of the flow's path, in full packets on its slowest link, at the base RTT."""
        slowest = min((self.links[i] for i in flow.path), key=lambda link: link.rate_bps)
        wire_bits = 8 * (flow.packet_bytes + slowest.overhead_bytes)
        return slowest.rate_bps * self.base_rtt_ns(flow) / 1e9 / wire_bits


def read_plan(path: Path) -> Plan:
    """Reads ``plan.json``.

    Raises:
        RunError: the file is missing, is not JSON, or a field that readers use is missing, of another type or out of
            range; the message names it.
    """
    return plan_of(path, read_document(path)[1])


def plan_of(path: Path, raw: Mapping[str, Any]) -> Plan:
    """The plan in ``raw``, which was read from ``path``.

    Raises:
        RunError: as :func:`read_plan`.
    """
    fields = Fields(path, raw)
    measure = fields.object("measure")
    for name in ("goodput_ns", "tcp_ns", "links_ns"):
        measure.integer(name)
    measure.maybe(measure.integer, "delay_ns")
    links = tuple(_link(i, link) for i, link in enumerate(fields.objects("links")))
    measure.maybe(measure.indices, "links", len(links))
    return Plan(
        title=fields.text("title"),
        end_ns=fields.integer("end_ns", 1),
        flows=tuple(_flow(i, flow, len(links)) for i, flow in enumerate(fields.objects("flows"))),
        links=links,
        phases=_phases(fields) if "phases" in raw else (),
        rate_changes=_rate_changes(fields, len(links)) if "changes" in raw else {},
        raw=raw,
    )


def _phases(fields: Fields) -> tuple[Phase, ...]:
    found = []
    for phase in fields.objects("phases"):
        begin = phase.integer("from_ns")
        found.append(Phase(phase.text("name"), begin, phase.integer("to_ns", begin)))
    return tuple(found)


def _rate_changes(fields: Fields, links: int) -> dict[int, tuple[tuple[int, int], ...]]:
    found: dict[int, list[tuple[int, int]]] = {}
    for entry in fields.objects("changes"):
        # An instant past the end changes nothing, whatever it is.
        at_ns, link = entry.integer("at_ns", 0, 1 << 64), entry.integer("link", 0, links - 1)
        change = entry.object("change")
        if change.text("kind") == "rate":
            found.setdefault(link, []).append((min(at_ns, MOST_NS), change.integer("rate_bps", 0, _MOST_BPS)))
    return {link: tuple(steps) for link, steps in found.items()}


def _flow(number: int, raw: Fields, links: int) -> Flow:
    transport, source = raw.object("transport"), raw.object("source")
    protocol, kind = transport.text("protocol"), source.text("kind")
    if protocol not in ("tcp", "udp"):
        raise transport.wrong("protocol", "tcp or udp")
    if kind == "transfers":
        source.items("transfers")
    headers = _UDP_HEADERS
    if protocol == "tcp":
        headers = _TCP_HEADERS + (_TIMESTAMPS if transport.maybe(transport.truth, "timestamps") else 0)
    return Flow(
        id=number,
        name=raw.text("name"),
        group=raw.text("group"),
        index=raw.integer("index"),
        stream=raw.integer("stream"),
        role=raw.text("role"),
        reverse=bool(raw.maybe(raw.truth, "reverse")) or raw.text("role") == "reverse",
        source=raw.integer("from"),
        target=raw.integer("to"),
        path=_path(raw, "path", links),
        reverse_path=raw.indices("reverse_path", links),
        start_ns=raw.integer("start_ns"),
        stop_ns=raw.maybe(raw.integer, "stop_ns"),
        protocol=protocol,
        cc=transport.maybe(transport.text, "cc"),
        # mss_bytes is the payload that travels; options come on top of it.
        payload_bytes=transport.integer("mss_bytes" if protocol == "tcp" else "payload_bytes", 1, _MOST_PACKET),
        header_bytes=headers,
        kind=kind,
        raw=raw.raw,
    )


def _path(raw: Fields, name: str, links: int) -> tuple[int, ...]:
    found = raw.indices(name, links)
    if not found:
        raise raw.wrong(name, "at least one link")
    return found


def _link(number: int, raw: Fields) -> Link:
    queue = raw.object("queue")
    limit = queue.maybe(queue.object, "limit")
    if limit is not None:
        for name in ("bytes", "packets"):
            limit.maybe(limit.integer, name, 0, _MOST_BYTES)
    loss = raw.maybe(raw.object, "loss")
    if loss is not None:
        loss.text("kind")
    raw.maybe(raw.truth, "host_nic")
    return Link(
        id=number,
        name=raw.text("name"),
        rate_bps=raw.integer("rate_bps", 1, _MOST_BPS),
        overhead_bytes=raw.integer("overhead_bytes", 0, _MOST_PACKET),
        mtu_bytes=raw.integer("mtu_bytes", 1, 1 << 32),
        delay_ns=raw.object("delay").integer("delay_ns"),
        queue=queue.text("kind"),
        raw=raw.raw,
    )
