"""The trials of a characterisation, after LIP 2006-38: pairs of constant rates, more inputs and outputs, bursts.

The senders' rates differ by a few parts in ten thousand. With exact clocks, packets of equal rates always meet a full
memory in the same order, and the order decides who is dropped (section 4.4); with these, all orders occur in 15 ms.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from weir.study.switches._rig import Rig, Stream, Trial, gap_ns

__all__ = [
    "DETUNED",
    "GRADES",
    "LEAST",
    "all_outputs",
    "calibration",
    "contention",
    "four",
    "graded",
    "pair",
    "rounds",
    "sizes",
    "slowness",
    "two_outputs",
]

DETUNED = (1.0, 0.9991, 0.9983, 0.9976, 0.9969, 0.9963, 0.9958, 0.9954)
"""Rates of the senders in units of full rate."""
_MS = 1_000_000
_LARGE, _SMALL = 1500, 500
LEAST = 64
"""Bytes of the smallest packets."""
GRADES = (1500, 1237, 1011, 677, 389)
"""Bytes of the packets of :func:`graded`; no small multiples of them are the same."""
_BURSTS, _MOST = 16, 6
"""Bursts of :func:`rounds`, and the most packets of a pair of ports in each."""


def slowness(rig: Rig) -> float:
    """How much longer a packet takes than at 1 Gb/s."""
    return 1e9 / rig.rate_bps


def calibration(rig: Rig) -> list[Trial]:
    """One slow stream of each packet size, alone."""
    slow = [(_LARGE, 0.05), (_SMALL, 0.02), (LEAST, 0.005)]
    length = round(20 * _MS * slowness(rig))
    return [Trial((Stream(0, 0, rig.rate_bps * share, size, 0, length),), 2 * length) for size, share in slow]


def contention(
    rig: Rig, streams: Sequence[tuple[int, int, float]], busy_ns: int, idle_ns: int, size: int = _LARGE
) -> Trial:
    """Streams of input, output and share of the full rate for ``busy_ns``, then time to drain."""
    made = [
        Stream(port, out, rig.rate_bps * share * DETUNED[port % len(DETUNED)], size, 1000 * port, busy_ns)
        for port, out, share in streams
    ]
    return Trial(tuple(made), busy_ns + idle_ns)


def pair(rig: Rig, first: float, second: float, busy_ns: int, idle_ns: int) -> Trial:
    """Two inputs at these shares of the full rate."""
    return contention(rig, [(0, 0, first), (1, 0, second)], busy_ns, idle_ns)


def four(rig: Rig, busy_ns: int, idle_ns: int, size: int = _LARGE) -> Trial:
    """All inputs to one output."""
    return contention(rig, [(port, 0, 1.0) for port in rig.senders(0)], busy_ns, idle_ns, size)


def sizes(rig: Rig, busy_ns: int, idle_ns: int) -> Trial:
    """Two inputs, one with large packets, the other with small ones."""
    large = Stream(0, 0, rig.rate_bps, _LARGE, 0, busy_ns)
    small = Stream(1, 0, rig.rate_bps * DETUNED[1], _SMALL, 1000, busy_ns)
    return Trial((large, small), busy_ns + idle_ns)


def two_outputs(rig: Rig, busy_ns: int, idle_ns: int, size: int = _LARGE) -> Trial | None:
    """Inputs that send to two full outputs each; ``None`` if there are too few ports."""
    both = [port for port in rig.senders(0) if port in rig.senders(1)] if rig.outputs > 1 else []
    if not both:
        return None
    split, rest = both[:1] + both[2:3], both[1:2] + both[3:4]
    shares = [(port, out, 0.5) for port in split for out in (0, 1)]
    alone = [(port, out, 1.0) for out in (0, 1) for port in rig.senders(out) if port not in both]
    shares += alone if len(rest) < 2 else [(port, out, 1.0) for out, port in enumerate(rest)]
    return contention(rig, shares, busy_ns, idle_ns, size)


def all_outputs(rig: Rig, busy_ns: int, idle_ns: int, size: int = _LARGE) -> Trial | None:
    """All inputs to three outputs; ``None`` if there are fewer."""
    if rig.outputs < 3:
        return None
    shares = [(port, out, 1 / rig.outputs) for out in range(rig.outputs) for port in rig.senders(out)]
    return contention(rig, sorted(shares), busy_ns, idle_ns, size)


def graded(rig: Rig, outputs: int, busy_ns: int) -> Trial | None:
    """All inputs to so many outputs, with packets of several sizes, so that queues hold any number of bytes.

    ``None`` if there are too few outputs.
    """
    if rig.outputs < outputs:
        return None
    made = [
        Stream(
            port, out, rig.rate_bps * DETUNED[port % len(DETUNED)] * (1 - 0.003 * place) / outputs / len(GRADES),
            size, 1000 * port + 137 * place, busy_ns,
        )
        for port in rig.senders(0)
        for out in range(outputs)
        if port in rig.senders(out)
        for place, size in enumerate(GRADES)
    ]  # fmt: skip
    return Trial(tuple(made), 2 * busy_ns)


def rounds(rig: Rig, size: int) -> Trial:
    """Bursts from all inputs to all outputs, each from all inputs at one instant, so that ports are free together."""
    draw, packet = random.Random(1), gap_ns(size + rig.overhead_bytes, rig.rate_bps)
    streams, at = [], 0.0
    for _ in range(_BURSTS):
        for port in range(rig.inputs):
            outputs = [out for out in range(rig.outputs) if port in rig.senders(out)]
            draw.shuffle(outputs)
            length = draw.randint(1, _MOST) * len(outputs) - 1
            for place, out in enumerate(outputs):
                begin = at + place * packet
                rate, stop = rig.rate_bps / len(outputs), begin + length * packet
                streams.append(Stream(port, out, rate, size, round(begin), round(stop)))
        at += (1.5 * _MOST * rig.outputs * rig.inputs + 4) * packet
    return Trial(tuple(streams), round(at))
