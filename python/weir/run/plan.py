"""A read-only view of a cell's plan: what metrics need to know about flows, links and phases.

The plan's schema belongs to the Rust crate ``weir-plan``; this view names the fields that readers use and keeps the
whole document in ``raw``. It does not check a plan: a method did that before it ran it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from weir.run.errors import RunError

__all__ = ["MEASURE", "Flow", "Link", "Phase", "Plan", "read_plan"]

MEASURE = {"goodput": "goodput", "samples": "tcp", "links": "links", "delays": "delay", "delay_bins": "delay"}
"""What of ``measure`` gives the interval of each table that has one."""

_TCP_HEADERS = 40
_UDP_HEADERS = 28
_TIMESTAMPS = 12


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
    raw: Mapping[str, Any]

    @cached_property
    def rate_changes(self) -> Mapping[int, tuple[tuple[int, int], ...]]:
        """For each link whose rate changes: ``(at_ns, rate_bps)`` in the order of time."""
        changes: dict[int, list[tuple[int, int]]] = {}
        for change in self.raw.get("changes", ()):
            if change["change"]["kind"] == "rate":
                changes.setdefault(change["link"], []).append((change["at_ns"], change["change"]["rate_bps"]))
        return {link: tuple(steps) for link, steps in changes.items()}

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
        RunError: the file is missing, is not JSON, or lacks a field.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RunError(path, "the cell has no plan", "plan.json beside its tables") from error
    except (OSError, ValueError) as error:
        raise RunError(path, f"cannot be read: {error}", "the JSON text of a plan") from error
    try:
        return _plan(raw)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise RunError(path, f"lacks or misuses the field {error}", "a plan of version 1 (weir schema plan)") from error


def _plan(raw: Mapping[str, Any]) -> Plan:
    return Plan(
        title=raw["title"],
        end_ns=raw["end_ns"],
        flows=tuple(_flow(i, flow) for i, flow in enumerate(raw["flows"])),
        links=tuple(_link(i, link) for i, link in enumerate(raw["links"])),
        phases=tuple(Phase(p["name"], p["from_ns"], p["to_ns"]) for p in raw.get("phases", ())),
        raw=raw,
    )


def _flow(number: int, raw: Mapping[str, Any]) -> Flow:
    transport = raw["transport"]
    tcp = transport["protocol"] == "tcp"
    headers = _TCP_HEADERS + (_TIMESTAMPS if transport.get("timestamps") else 0) if tcp else _UDP_HEADERS
    # mss_bytes is the payload that travels; options come on top of it.
    payload = transport["mss_bytes"] if tcp else transport["payload_bytes"]
    return Flow(
        id=number,
        name=raw["name"],
        group=raw["group"],
        index=raw["index"],
        stream=raw["stream"],
        role=raw["role"],
        reverse=bool(raw.get("reverse")) or raw["role"] == "reverse",
        source=raw["from"],
        target=raw["to"],
        path=tuple(raw["path"]),
        reverse_path=tuple(raw["reverse_path"]),
        start_ns=raw["start_ns"],
        stop_ns=raw.get("stop_ns"),
        protocol=transport["protocol"],
        cc=transport.get("cc"),
        payload_bytes=payload,
        header_bytes=headers,
        kind=raw["source"]["kind"],
        raw=raw,
    )


def _link(number: int, raw: Mapping[str, Any]) -> Link:
    return Link(
        id=number,
        name=raw["name"],
        rate_bps=raw["rate_bps"],
        overhead_bytes=raw["overhead_bytes"],
        mtu_bytes=raw["mtu_bytes"],
        delay_ns=raw["delay"]["delay_ns"],
        queue=raw["queue"]["kind"],
        raw=raw,
    )
