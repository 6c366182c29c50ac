"""How much work a plan is, before it runs: orders of magnitude for sorting, progress and ``weir plan``."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

__all__ = ["Estimate", "estimate"]

_BYTES_PER_PACKET_IN_FLIGHT = 64
_BASE_BYTES = 200_000_000
_HEADER_BYTES = 40


@dataclass(frozen=True)
class Estimate:
    """What a plan will take, roughly."""

    flows: int
    end_s: float
    """Simulated time."""
    packets: int
    """Data packets delivered, if flows fill what the links let through."""
    memory_bytes: int
    """Peak memory of the simulator: packets in flight and in queues."""


def estimate(plan: dict[str, Any]) -> Estimate:
    """Estimates ``plan``.

    Every flow asks for the least rate of its path while it is active, or for its size if that is less; every link then
    scales its flows down to what it carries in the whole run. This ignores congestion control: it is an upper bound of
    the packets delivered for bulk flows.
    """
    links, end_ns = plan["links"], plan["end_ns"]
    demand = [_demand_bytes(flow, links, end_ns) for flow in plan["flows"]]
    load: defaultdict[int, float] = defaultdict(float)
    for flow, wanted in zip(plan["flows"], demand, strict=True):
        for link in flow["path"]:
            load[link] += wanted
    scale = {link: min(1.0, links[link]["rate_bps"] / 8e9 * end_ns / total) for link, total in load.items() if total}
    packets = in_flight = 0.0
    for flow, wanted in zip(plan["flows"], demand, strict=True):
        size = _packet_bytes(flow["transport"])
        sent = wanted * min((scale.get(link, 1.0) for link in flow["path"]), default=1.0) / size
        packets += sent
        in_flight += _in_flight(flow, links, size)
    ceiling = sum(_held_bytes(link) for link in links) / 1000
    memory = _BASE_BYTES + _BYTES_PER_PACKET_IN_FLIGHT * min(in_flight, ceiling)
    return Estimate(len(plan["flows"]), end_ns / 1e9, round(packets), round(memory))


def _demand_bytes(flow: dict[str, Any], links: list[dict[str, Any]], end_ns: int) -> float:
    stop_ns = min(flow.get("stop_ns") or end_ns, end_ns)
    active_ns = max(0, stop_ns - flow["start_ns"])
    rate = min((links[link]["rate_bps"] for link in flow["path"]), default=0)
    source = flow["source"]
    if source["kind"] == "cbr":
        rate = min(rate, source["rate_bps"])
    most = rate / 8e9 * active_ns
    if source["kind"] == "transfers":
        most = min(most, float(sum(transfer["bytes"] for transfer in source["transfers"])))
    return float(most)


def _packet_bytes(transport: dict[str, Any]) -> int:
    payload = transport.get("mss_bytes") or transport.get("payload_bytes") or 1460
    return int(payload) + _HEADER_BYTES


def _in_flight(flow: dict[str, Any], links: list[dict[str, Any]], size: int) -> float:
    rate = min((links[link]["rate_bps"] for link in flow["path"]), default=0)
    path = [links[link] for link in (*flow["path"], *flow.get("reverse_path", []))]
    bdp = rate / 8e9 * sum(link["delay"]["delay_ns"] for link in path)
    queue = sum(_queue_bytes(link) for link in path)
    window = flow["transport"].get("receive_buffer_bytes") or bdp + queue
    return min(bdp + queue, float(window)) / size


def _held_bytes(link: dict[str, Any]) -> float:
    return float(link["rate_bps"] / 8e9 * link["delay"]["delay_ns"]) + _queue_bytes(link)


def _queue_bytes(link: dict[str, Any]) -> float:
    limit = link["queue"]["limit"]
    sizes = [limit["bytes"]] if limit.get("bytes") else []
    if limit.get("packets"):
        sizes.append(limit["packets"] * link["mtu_bytes"])
    return float(min(sizes, default=0))
