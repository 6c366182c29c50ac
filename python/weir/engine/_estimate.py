"""How much work a plan is, before it runs: orders of magnitude for sorting, progress and ``weir plan``."""

from __future__ import annotations

import math
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
    scales its flows down to what it carries in the whole run. Queues are counted where more is asked for than the link
    carries. This ignores congestion control: it is an upper bound of the packets delivered for bulk flows.
    """
    links, end_ns = plan["links"], plan["end_ns"]
    demand = [_demand_bytes(flow, links, end_ns) for flow in plan["flows"]]
    load: defaultdict[int, float] = defaultdict(float)
    for flow, wanted in zip(plan["flows"], demand, strict=True):
        for link in flow["path"]:
            load[link] += wanted
    scale = {link: min(1.0, links[link]["rate_bps"] / 8e9 * end_ns / total) for link, total in load.items() if total}
    packets = 0.0
    for flow, wanted in zip(plan["flows"], demand, strict=True):
        sent = wanted * min((scale.get(link, 1.0) for link in flow["path"]), default=1.0)
        packets += sent / _packet_bytes(flow["transport"])
    memory = _BASE_BYTES + _BYTES_PER_PACKET_IN_FLIGHT * _in_flight(plan)
    return Estimate(len(plan["flows"]), end_ns / 1e9, round(packets), round(memory))


def _least_rate(flow: dict[str, Any], links: list[dict[str, Any]]) -> int:
    rates = [links[link]["rate_bps"] for link in flow["path"]]
    if flow["source"]["kind"] == "cbr":
        rates.append(flow["source"]["rate_bps"])
    return min(rates, default=0)


def _demand_bytes(flow: dict[str, Any], links: list[dict[str, Any]], end_ns: int) -> float:
    stop_ns = min(flow.get("stop_ns") or end_ns, end_ns)
    most = float(_least_rate(flow, links) / 8e9 * max(0, stop_ns - flow["start_ns"]))
    if flow["source"]["kind"] == "transfers":
        return min(most, float(sum(transfer["bytes"] for transfer in flow["source"]["transfers"])))
    return most


def _packet_bytes(transport: dict[str, Any]) -> int:
    payload = transport.get("mss_bytes") or transport.get("payload_bytes") or 1460
    return int(payload) + _HEADER_BYTES


def _in_flight(plan: dict[str, Any]) -> float:
    """Packets that links hold at once: an acknowledgement for every second data packet counts too."""
    links = plan["links"]
    offered: defaultdict[int, float] = defaultdict(float)
    windows = 0.0
    for flow in plan["flows"]:
        rate = _least_rate(flow, links)
        window = flow["transport"].get("receive_buffer_bytes") or math.inf
        windows += 1.5 * window / _packet_bytes(flow["transport"])
        for link in flow["path"]:
            offered[link] += rate
        for link in flow.get("reverse_path", []):
            offered[link] += rate / 2
    return min(windows, sum(_held(links[link], rate) for link, rate in offered.items()))


def _held(link: dict[str, Any], offered_bps: float) -> float:
    """Packets that ``link`` holds when this is offered to it: those on their way, and its queue if it is too much."""
    held = min(offered_bps, link["rate_bps"]) / 8e9 * link["delay"]["delay_ns"]
    if offered_bps > link["rate_bps"]:
        held += _queue_bytes(link)
    return float(held / link["mtu_bytes"])


def _queue_bytes(link: dict[str, Any]) -> float:
    limit = link["queue"]["limit"]
    sizes = [limit["bytes"]] if limit.get("bytes") else []
    if limit.get("packets"):
        sizes.append(limit["packets"] * link["mtu_bytes"])
    return float(min(sizes, default=0))
