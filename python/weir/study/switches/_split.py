"""The parts of a mixed memory: which bytes are each queue's own, and which are shared up to ``alpha``.

With a larger part of its own, a smaller pool and a larger ``alpha``, a queue has nearly the same limit with one, two
and three full queues. The contradiction then has a narrow valley, and a search in all directions misses its lowest
point. So ``alpha`` is fitted anew for each size of the own part. How far the valley stays low says how well the parts
are known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from weir.study.switches._memory import Choices, MemoryFit, contradiction_of, excess_of, pooled_at
from weir.study.switches._units import size_text

__all__ = ["split"]

_NEAR = 0.25
"""Packets from the bound within which choices tell parts whose limits are nearly the same."""
_MOST = 20_000
_OWNS = np.geomspace(0.5, 2.0, 25)
"""Sizes of the own part, in units of that found before."""
_POWER = 0.7
_STEPS = 14
_ALIKE, _NOTHING = 1.4, 1e-4
"""Parts explain the choices as well as the best ones if they contradict so many times more, and so much besides."""
_KNOWN = 0.1
_GOLDEN = (5**0.5 - 1) / 2


def split(data: Choices, found: MemoryFit) -> MemoryFit:
    """The memory with the parts that contradict least, and a doubt if others explain the choices as well.

    Args:
        data: The choices, with the room that a queue needs after a loss.
        found: A mixed memory with ``alpha`` near the best one; others are returned as they are.
    """
    if found.kind != "mixed" or found.alpha is None:
        return found
    near, part = _near(data, found)
    if not near.accepted.any() or near.accepted.all():
        return found
    made = [_with_own(near, own, 1 / found.alpha) for own in found.own * _OWNS]
    least = min(made, key=lambda fit: fit.loss)
    place = made.index(least)
    between = made[max(place - 1, 0)].own, made[min(place + 1, len(made) - 1)].own
    best = _lowest(lambda own: _with_own(near, own, 1 / (least.alpha or 1)), *between)
    best = min(best, least, key=lambda fit: fit.loss)
    exact = replace(best, loss=contradiction_of(data, best))
    alike = [one for one in (*made, best) if one.loss * part <= _ALIKE * best.loss * part + _NOTHING]
    low, high = (choose(alike, key=lambda fit: fit.own) for choose in (min, max))
    return replace(exact, doubt=exact.doubt or _doubt(exact, low, high))


def _doubt(best: MemoryFit, low: MemoryFit, high: MemoryFit) -> str:
    off = max(
        abs(end / middle - 1) for one in (low, high) for end, middle in ((one.own, best.own), (one.pool, best.pool))
    )
    if off <= _KNOWN:
        return ""
    own, pool = (f"{size_text(a)} to {size_text(b)}" for a, b in ((low.own, high.own), (low.pool, high.pool)))
    return (
        f"the memory's parts are not known within {_KNOWN:.0%}: {own} for each queue alone explain the losses nearly "
        f"alike, with {pool} shared; the limit of a queue is known better"
    )


def _near(data: Choices, found: MemoryFit) -> tuple[Choices, float]:
    """The choices near the bound, and their part of the weight of all."""
    chosen = np.flatnonzero(np.abs(excess_of(data, found)) <= _NEAR)
    if len(chosen) > _MOST:
        chosen = np.sort(np.random.default_rng(3).choice(chosen, _MOST, replace=False))
    near = data.only(chosen)
    return near, float(near.weight.sum() / data.weight.sum())


def _with_own(data: Choices, own: float, inverse: float) -> MemoryFit:
    """The best memory with this own part, and an inverse of ``alpha`` near this one."""
    return _lowest(lambda power: pooled_at(data, own, inverse * 2.0**power), -_POWER, _POWER)


def _lowest(made: Callable[[float], MemoryFit], low: float, high: float) -> MemoryFit:
    """The memory with the least contradiction between two values, by golden sections."""
    inner, outer = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    first, second = made(inner), made(outer)
    for _ in range(_STEPS):
        if first.loss <= second.loss:
            high, outer, second = outer, inner, first
            inner = high - _GOLDEN * (high - low)
            first = made(inner)
        else:
            low, inner, first = inner, outer, second
            outer = low + _GOLDEN * (high - low)
            second = made(outer)
    return min(first, second, key=lambda fit: fit.loss)
