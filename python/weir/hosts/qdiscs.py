"""Queues of a plan as queueing disciplines of Linux: the arguments of ``tc``.

Pure. A discipline counts the bytes of a packet as its device has it: IP bytes, or with a size table (``stab``) those on
the wire, as the plan does.
"""

from __future__ import annotations

import math
from typing import assert_never

from weir.plan import (
    CodelParams,
    CodelQueue,
    DroptailQueue,
    FqCodelQueue,
    Link,
    Mark,
    PieQueue,
    RedQueue,
    queue_bytes,
    queue_packets,
    wire_bytes,
)

__all__ = ["arguments", "obstacle"]

_PIE_STEPS = 16
_MOST_PIE_WEIGHT = 32
"""PIE's weights are multiples of a sixteenth, at most so many of them."""
_TICK_NS = 1_000_000
"""PIE's update is a number of the kernel's ticks: with 1000 of them a second, as the lab has it."""
_LEAST_NS = 1000
"""``tc`` and the disciplines count microseconds."""
_ALL_CLASSES = (0, 63)


def obstacle(link: Link) -> str | None:
    """What of the queue of ``link`` no discipline of the kernel has; ``None`` if one is that queue."""
    queue = link.queue
    if queue.limit.bytes and queue.limit.packets:
        return "a limit in bytes and one in packets at once"
    match queue:
        case DroptailQueue():
            return None
        case RedQueue():
            return _red_obstacle(queue, link.mtu_bytes)
        case CodelQueue() | FqCodelQueue():
            return _too_short("a target", queue.codel.target_ns) or _too_short("an interval", queue.codel.interval_ns)
        case PieQueue():
            return _pie_obstacle(queue)
        case _:
            assert_never(queue)


def _red_obstacle(queue: RedQueue, mtu: int) -> str | None:
    if len(queue.curves) != 1 or queue.gentle or _red_burst(queue, mtu) is None:
        return "RED in a form that the kernel lacks (several curves, gentle, or its weight)"
    first, last = queue.curves[0].dscp_from, queue.curves[0].dscp_to
    if first <= last and (first, last) != _ALL_CLASSES:  # an empty range is that of all others
        return "RED of some code points only"
    return None


def _pie_obstacle(queue: PieQueue) -> str | None:
    for name, value in (("alpha", queue.alpha), ("beta", queue.beta)):
        weight = value * _PIE_STEPS
        if weight != round(weight) or weight > _MOST_PIE_WEIGHT:
            return f"PIE with {name} {value:g} (the kernel has multiples of 1/{_PIE_STEPS} up to 2)"
    if queue.update_ns % _TICK_NS:
        return "PIE with an update that is no whole number of milliseconds"
    return _too_short("a target", queue.target_ns)


def _too_short(noun: str, time_ns: int) -> str | None:
    return f"{noun} of less than a microsecond" if time_ns < _LEAST_NS else None


def arguments(link: Link, *, on_wire: bool = False) -> str:
    """The discipline that is the queue of ``link``; ``on_wire``: it counts bytes as they are on the wire."""
    queue = link.queue
    packets, size = _limits(link, on_wire=on_wire)
    match queue:
        case DroptailQueue():
            return f"pfifo limit {packets}" if queue.limit.packets else f"bfifo limit {size}"
        case RedQueue():
            return _red(link, queue, size)
        case CodelQueue():
            return f"codel limit {packets} {_codel(queue.codel)}"
        case FqCodelQueue():
            return (
                f"fq_codel limit {packets} flows {queue.buckets} quantum {queue.quantum_bytes} "
                f"memory_limit {4 * size} {_codel(queue.codel)}"
            )
        case PieQueue():
            return (
                f"pie limit {packets} target {_us(queue.target_ns)} tupdate {_us(queue.update_ns)} "
                f"alpha {round(16 * queue.alpha)} beta {round(16 * queue.beta)} {_ecn(queue.mark)}"
            )
        case _:
            assert_never(queue)


def _limits(link: Link, *, on_wire: bool) -> tuple[int, int]:
    """Packets and bytes of the hard limit; one follows from the other by the largest packet."""
    wire = wire_bytes(link, link.mtu_bytes)
    size = queue_bytes(link.queue, wire) or wire
    return queue_packets(link.queue, wire), size if on_wire else size * link.mtu_bytes // wire


def _codel(codel: CodelParams) -> str:
    return f"target {_us(codel.target_ns)} interval {_us(codel.interval_ns)} {_ecn(codel.mark)}"


def _ecn(mark: Mark) -> str:
    return "ecn" if mark == "ecn" else "noecn"


def _us(ns: int) -> str:
    return f"{max(1, round(ns / 1000))}us"


def _red_burst(queue: RedQueue, mtu: int) -> int | None:
    """The kernel's parameter for the weight of the average, which is a power of two there; ``None`` if none is near."""
    exponent = -math.log2(queue.weight)
    near = round(exponent)
    if not 1 <= near <= 24 or abs(exponent - near) > 0.15:
        return None
    return _burst(queue.curves[0].min_bytes, mtu, near)


def _red(link: Link, queue: RedQueue, size: int) -> str:
    curve, mtu = queue.curves[0], link.mtu_bytes
    mark = " ecn" if queue.mark == "ecn" else ""
    return (
        f"red limit {size} min {curve.min_bytes} max {curve.max_bytes} avpkt {mtu} burst {_red_burst(queue, mtu)} "
        f"probability {curve.max_p:g} bandwidth {link.rate_bps}bit{mark}"
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
