"""RED and WRED: the curves in a scenario, and Linux' ``red``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from weir.plan import Link, RedQueue
from weir.queues._code_points import named_point
from weir.queues._discipline import Discipline, Written, limits, told_bytes

__all__ = ["Red"]

_CODE_POINTS = 64
_ALL_CLASSES = (0, _CODE_POINTS - 1)


class Red(Discipline):
    """``red``, which has one curve for all packets, and weights that are powers of two."""

    names = ("red",)
    marks_word = 3
    ages_when_empty = True

    def fields(self, written: Written) -> Mapping[str, Any]:
        curves = _class_curves(written) if "classes" in written.values else [_curve(written, *_ALL_CLASSES)]
        return {"curves": curves}

    def advise(self, written: Written) -> None:
        size = written.size_bytes("size")
        for one in written.each("classes") if "classes" in written.values else [written]:
            if (most := one.size_bytes("max")) > size:
                one.warn("max", f"`max` ({most} bytes) is above `size` ({size} bytes): the queue is full before that")

    def obstacle(self, link: Link) -> str | None:
        queue = _queue(link)
        if len(queue.curves) != 1 or queue.gentle or not _has_burst(link):
            return "RED in a form that the kernel lacks (several curves, gentle, or its weight)"
        first, last = queue.curves[0].dscp_from, queue.curves[0].dscp_to
        if first <= last and (first, last) != _ALL_CLASSES:  # an empty range is that of all others
            return "RED of some code points only"
        return None

    def arguments(self, link: Link, *, on_wire: bool) -> str:
        queue = _queue(link)
        _, size = limits(link, on_wire=on_wire)
        curve, mtu = queue.curves[0], link.mtu_bytes
        least, most = (told_bytes(link, size, on_wire=on_wire) for size in (curve.min_bytes, curve.max_bytes))
        # Above the upper threshold the plan's RED drops (RFC 3168, section 7). Linux would mark without `harddrop`.
        mark = " ecn harddrop" if queue.mark == "ecn" else ""
        return (
            f"red limit {size} min {least} max {most} avpkt {mtu} "
            f"burst {_kernel_burst(queue, least, mtu)} probability {curve.max_p:g} bandwidth {link.rate_bps}bit{mark}"
        )


# What a scenario writes ----------------------------------------------------------------------------------------------


def _curve(written: Written, first: int, last: int) -> dict[str, Any]:
    low, high = written.size_bytes("min"), written.size_bytes("max")
    if low >= high:
        raise written.error("max", f"`max` ({high} bytes) must be above `min` ({low} bytes)")
    thresholds = {"min_bytes": low, "max_bytes": high, "max_p": written.values["max_p"]}
    return {"dscp_from": first, "dscp_to": last, **thresholds}


def _class_curves(written: Written) -> list[dict[str, Any]]:
    taken: dict[int, Written] = {}
    others: Written | None = None
    for one in written.each("classes"):
        points = one.values["dscp"]
        if points is None and others is not None:
            raise one.error("", "a second class without `dscp`; only one can have all code points not named")
        others = one if points is None else others
        for point in points or ():
            if point in taken:
                raise one.error("dscp", f"code point {named_point(point)} is in two classes")
            taken[point] = one
    if others is None and len(taken) < _CODE_POINTS:
        raise written.error("classes", "some code points have no class; leave `dscp` out of one class to take them")
    by_point = [taken.get(point, others) for point in range(_CODE_POINTS)]
    curves = []
    first = 0
    for point in range(1, _CODE_POINTS + 1):
        owner = by_point[first]
        if owner is not None and (point == _CODE_POINTS or by_point[point] is not owner):
            curves.append(_curve(owner, first, point - 1))
            first = point
    return curves


# The kernel's parameters ---------------------------------------------------------------------------------------------


def _queue(link: Link) -> RedQueue:
    assert isinstance(link.queue, RedQueue)
    return link.queue


def _has_burst(link: Link) -> bool:
    """Whether the kernel has the weight of the average, whatever bytes it counts."""
    queue = _queue(link)
    told = (told_bytes(link, queue.curves[0].min_bytes, on_wire=on_wire) for on_wire in (False, True))
    return all(_kernel_burst(queue, least, link.mtu_bytes) is not None for least in told)


def _kernel_burst(queue: RedQueue, least: int, mtu: int) -> int | None:
    """The kernel's parameter for the weight of the average, a power of two there; ``None`` if none is near.

    ``least`` is the lower threshold in the bytes that the kernel counts.
    """
    exponent = -math.log2(queue.weight)
    near = round(exponent)
    if not 1 <= near <= 24 or abs(exponent - near) > 0.15:
        return None
    return _burst(least, mtu, near)


def _burst(least: int, mtu: int, exponent: int) -> int | None:
    """The parameter ``burst`` for which ``tc`` computes a weight of 2^-exponent; ``None`` if there is none.

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
