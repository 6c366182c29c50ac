"""The contents of a switch at each instant, from what went in and what came out.

A packet that came out was accepted, and was inside from the end of its arrival until its transmission began. A packet
that did not come out was dropped when it arrived. So the occupation of each pair of ports is known at each arrival and
departure, without a look inside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weir.study.switches._rig import Instants, Observation, Rig, gap_ns

__all__ = ["Packets", "States", "packets_of", "states_of"]

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Packets:
    """All packets of a trial that reached the switch, in the order of arrival."""

    stream: Numbers
    wire: Numbers
    """Bytes on the wire."""
    ended: npt.NDArray[np.float64]
    """When the last bit had arrived, ns."""
    left: npt.NDArray[np.float64]
    """When the transmission at the output began, ns; infinity if it was dropped."""


def packets_of(rig: Rig, seen: Observation) -> Packets:
    """The packets of a trial that reached the switch."""
    streams = seen.trial.streams
    stream, wire, ended, left = [], [], [], []
    for port in range(rig.inputs):
        numbers = [n for n, s in enumerate(streams) if s.input == port and len(seen.sent[n])]
        if not numbers:
            continue
        sent = np.concatenate([seen.sent[n][~seen.refused[n]] for n in numbers])
        came = np.concatenate([seen.received[n][~seen.refused[n]] for n in numbers])
        of = np.concatenate([np.full(int((~seen.refused[n]).sum()), n) for n in numbers])
        order = np.argsort(sent, kind="stable")
        sent, came, of = sent[order], came[order], of[order]
        size = np.array([s.ip_bytes for s in streams])[of] + rig.overhead_bytes
        stops = [(at, stop) for at, of_port, stop in seen.pauses if of_port == port]
        ended.append(_sent_by(sent, gap_ns(1, rig.rate_bps) * size, stops))
        left.append(np.where(came >= 0, came - gap_ns(1, rig.out_bps) * size, np.inf))
        stream.append(of)
        wire.append(size)
    joined = [np.concatenate(parts) for parts in (stream, wire, ended, left)]
    order = np.argsort(joined[2], kind="stable")
    of, size, end, out = (part[order] for part in joined)
    kept = np.isfinite(end)
    if seen.pauses:
        # What a stopped sender or the switch still has at the end of the trial was not dropped.
        for number in range(len(streams)):
            came = end[(of == number) & np.isfinite(out)]
            kept &= (of != number) | (end <= (came.max() if len(came) else 0))
    return Packets(of[kept], size[kept], end[kept], out[kept])


def _sent_by(
    sent: Instants, duration: npt.NDArray[np.float64], stops: list[tuple[int, bool]]
) -> npt.NDArray[np.float64]:
    """When a port has sent each packet, one after another, while nobody tells it to pause."""
    if not stops:
        work = np.cumsum(duration)
        return work + np.maximum.accumulate(sent - (work - duration))
    free, turn = 0.0, 0
    spans = _spans(stops)
    ended = np.empty(len(sent))
    for number, (at, takes) in enumerate(zip(sent.tolist(), duration.tolist(), strict=True)):
        free = max(free, at)
        while turn < len(spans) and spans[turn][1] <= free:
            turn += 1
        # A frame that has begun is finished.
        while turn < len(spans) and spans[turn][0] <= free:
            free = max(free, spans[turn][1])
            turn += 1
        free += takes
        ended[number] = free
    return ended


def _spans(stops: list[tuple[int, bool]]) -> list[tuple[float, float]]:
    """The pauses of a port: begin and end."""
    spans: list[tuple[float, float]] = []
    since: int | None = None
    for at, stop in sorted(stops):
        if stop and since is None:
            since = at
        elif not stop and since is not None:
            spans.append((float(since), float(at)))
            since = None
    if since is not None:
        spans.append((float(since), np.inf))
    return spans


@dataclass(frozen=True)
class States:
    """What each pair of ports held when packets arrived and left."""

    pairs: list[tuple[int, int]]
    """Input and output of each column of ``before`` and ``at_departure``."""
    arrived: Numbers
    """By arrival: the pair."""
    wire: Numbers
    accepted: npt.NDArray[np.bool_]
    entered: npt.NDArray[np.float64]
    before: Numbers
    """By arrival and pair: bytes on the wire inside, without the packet."""
    departed: Numbers
    """By departure, in the order of time: the pair."""
    departed_wire: Numbers
    departed_at: npt.NDArray[np.float64]
    departed_entered: npt.NDArray[np.float64]
    at_departure: Numbers
    """By departure and pair: bytes inside, with the packet."""
    late: float
    """Longest time, ns, for which a packet may be in the fabric before it counts."""


def states_of(rig: Rig, seen: Observation, lead: dict[int, float], jitter_ns: float = 0.0) -> States:
    """The states of a trial.

    Args:
        rig: The rig.
        seen: The trial.
        lead: By bytes on the wire: how long before the end of its arrival a packet may be forwarded, ns.
        jitter_ns: Longest time that a packet spends in the fabric.
    """
    packets = packets_of(rig, seen)
    streams = seen.trial.streams
    pairs = sorted({(s.input, s.output) for s in streams})
    pair = np.array([pairs.index((s.input, s.output)) for s in streams])[packets.stream]
    leads = np.zeros(len(pair))
    for size, value in lead.items():
        # No packet is inside before it was sent, not even between interfaces that pass whole packets at once.
        leads[packets.wire == size] = min(value, gap_ns(size, rig.rate_bps))
    accepted = np.isfinite(packets.left)
    entered = packets.ended - leads + jitter_ns / 2
    entered = np.where(accepted, np.minimum(entered, packets.left), entered)
    number, arriving = _in_order(entered, packets.left)
    signed = np.where(arriving, np.where(accepted[number], packets.wire[number], 0), -packets.wire[number])
    change = np.zeros((len(number), len(pairs)), np.int64)
    change[np.arange(len(number)), pair[number]] = signed
    before = np.cumsum(change, axis=0) - change
    a, d = number[arriving], number[~arriving]
    return States(
        pairs, pair[a], packets.wire[a], accepted[a], entered[a], before[arriving],
        pair[d], packets.wire[d], packets.left[d], entered[d], before[~arriving], jitter_ns,
    )  # fmt: skip


def _in_order(entered: npt.NDArray[np.float64], left: npt.NDArray[np.float64]) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Arrivals and departures in the order of time: the packet of each, and whether it arrives.

    At the same instant departures come first; but a packet that leaves when it comes has come before.
    """
    inside = np.flatnonzero(np.isfinite(left))
    out = inside[np.argsort(left[inside], kind="stable")]
    at_once = left[out] <= entered[out]
    times = np.concatenate([entered, np.where(at_once, left[out] + 0.25, left[out])])
    arrives = np.concatenate([np.ones(len(entered), np.bool_), np.zeros(len(out), np.bool_)])
    order = np.lexsort((arrives, times))
    return np.concatenate([np.arange(len(entered)), out])[order], arrives[order]
