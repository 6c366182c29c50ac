"""Queues of a plan as queueing disciplines of Linux: the arguments of ``tc``.

Pure. A discipline counts the bytes of a packet as its device has it: IP bytes, or with a size table (``stab``) those on
the wire, as the plan does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["arguments", "obstacle", "red_burst"]

Link = Mapping[str, Any]

_PIE_STEPS = 16
_MOST_PIE_WEIGHT = 32
"""PIE's weights are multiples of a sixteenth, at most so many of them."""
_TICK_NS = 1_000_000
"""PIE's update is a number of the kernel's ticks: with 1000 of them a second, as the lab has it."""
_LEAST_NS = 1000
"""``tc`` and the disciplines count microseconds."""
_ALL_CLASSES = (0, 63)
_NOUNS = {"target_ns": "a target", "interval_ns": "an interval"}


def obstacle(link: Link) -> str | None:
    """What of the queue of ``link`` no discipline of the kernel has; ``None`` if one is that queue."""
    queue = link["queue"]
    if queue["limit"].get("bytes") and queue["limit"].get("packets"):
        return "a limit in bytes and one in packets at once"
    match queue["kind"]:
        case "red":
            return _red_obstacle(link)
        case "pie":
            return _pie_obstacle(queue)
        case "codel" | "fq_codel":
            return _too_short(queue["codel"], "target_ns", "interval_ns")
        case _:
            return None


def _red_obstacle(link: Link) -> str | None:
    queue = link["queue"]
    if len(queue["curves"]) != 1 or queue["gentle"] or red_burst(link) is None:
        return "RED in a form that the kernel lacks (several curves, gentle, or its weight)"
    curve = queue["curves"][0]
    first, last = curve["dscp_from"], curve["dscp_to"]
    if first <= last and (first, last) != _ALL_CLASSES:  # an empty range is that of all others
        return "RED of some code points only"
    return None


def _pie_obstacle(queue: Mapping[str, Any]) -> str | None:
    for name in ("alpha", "beta"):
        weight = queue[name] * _PIE_STEPS
        if weight != round(weight) or weight > _MOST_PIE_WEIGHT:
            return f"PIE with {name} {queue[name]:g} (the kernel has multiples of 1/{_PIE_STEPS} up to 2)"
    if queue["update_ns"] % _TICK_NS:
        return "PIE with an update that is no whole number of milliseconds"
    return _too_short(queue, "target_ns")


def _too_short(values: Mapping[str, Any], *names: str) -> str | None:
    short = next((name for name in names if values[name] < _LEAST_NS), None)
    return None if short is None else f"{_NOUNS[short]} of less than a microsecond"


def arguments(link: Link, *, on_wire: bool = False) -> str:
    """The discipline that is the queue of ``link``; ``on_wire``: it counts bytes as they are on the wire."""
    queue = link["queue"]
    packets, size = _limits(link, on_wire=on_wire)
    match queue["kind"]:
        case "droptail":
            return f"pfifo limit {packets}" if queue["limit"].get("packets") else f"bfifo limit {size}"
        case "red":
            return _red(link, size)
        case "codel":
            return f"codel limit {packets} {_codel(queue['codel'])}"
        case "fq_codel":
            return (
                f"fq_codel limit {packets} flows {queue['buckets']} quantum {queue['quantum_bytes']} "
                f"memory_limit {4 * size} {_codel(queue['codel'])}"
            )
        case _:
            return (
                f"pie limit {packets} target {_us(queue['target_ns'])} tupdate {_us(queue['update_ns'])} "
                f"alpha {round(16 * queue['alpha'])} beta {round(16 * queue['beta'])} {_ecn(queue)}"
            )


def _limits(link: Link, *, on_wire: bool) -> tuple[int, int]:
    """Packets and bytes of the hard limit; one follows from the other by the largest packet."""
    limit, mtu = link["queue"]["limit"], link["mtu_bytes"]
    wire = mtu + link["overhead_bytes"]
    packets = limit.get("packets") or max(1, limit["bytes"] // wire)
    size = limit["bytes"] if limit.get("bytes") else packets * wire
    return packets, size if on_wire else size * mtu // wire


def _codel(codel: Mapping[str, Any]) -> str:
    return f"target {_us(codel['target_ns'])} interval {_us(codel['interval_ns'])} {_ecn(codel)}"


def _ecn(queue: Mapping[str, Any]) -> str:
    return "ecn" if queue["mark"] == "ecn" else "noecn"


def _us(ns: int) -> str:
    return f"{max(1, round(ns / 1000))}us"


def red_burst(link: Link) -> int | None:
    """The kernel's parameter for the weight of the average, which is a power of two there; ``None`` if none is near."""
    queue = link["queue"]
    exponent = -math.log2(queue["weight"])
    near = round(exponent)
    if not 1 <= near <= 24 or abs(exponent - near) > 0.15:
        return None
    return _burst(queue["curves"][0]["min_bytes"], link["mtu_bytes"], near)


def _red(link: Link, size: int) -> str:
    queue, mtu = link["queue"], link["mtu_bytes"]
    curve = queue["curves"][0]
    least, most = curve["min_bytes"], curve["max_bytes"]
    burst = red_burst(link)
    mark = " ecn" if queue["mark"] == "ecn" else ""
    return (
        f"red limit {size} min {least} max {most} avpkt {mtu} burst {burst} probability {curve['max_p']:g} "
        f"bandwidth {link['rate_bps']}bit{mark}"
    )


def _burst(least: int, mtu: int, exponent: int) -> int | None:
    """The parameter ``burst`` for which ``tc`` arrives at a weight of 2^-exponent; ``None`` if there is none.

    tc takes the first exponent for which ``(1 - (1 - W)^burst) / W >= burst + 1 - min / avpkt``, W = 2^-exponent.
    """

    def reached(burst: int) -> int:
        wanted = burst + 1 - least / mtu
        sums = ((candidate, (1.0 - (1.0 - 2.0**-candidate) ** burst) * 2.0**candidate) for candidate in range(1, 32))
        return next((candidate for candidate, total in sums if wanted < 1.0 or wanted <= total), 32)

    burst = max(1, math.ceil(least / mtu))
    while (found := reached(burst)) < exponent:
        burst += 1
    return burst if found == exponent else None
