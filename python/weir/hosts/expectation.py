"""Predicts the fate of probes on the links of a plan: pure, and independent of the emulator that it judges.

A packet passes the queue, the transmitter and the delay line of each link in turn (``weir_plan::Link``). Only first-in,
first-out queues are predicted; random parts - losses, jitter - are bounded, not drawn.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from weir.hosts.impairments import delay_model, loss_model
from weir.plan import Limit, Link, MixedMemory, PartitionedMemory, Plan, Switch, wire_bytes

__all__ = ["Loss", "Probe", "arrivals", "delay_ns", "jitter_ns", "links_seen", "loss_of", "slack_ns"]

_S = 1_000_000_000


@dataclass(frozen=True)
class Probe:
    """A packet to send."""

    sent_ns: int
    path: tuple[int, ...]
    """Indices of the links."""
    size_bytes: int
    """IP bytes."""


@dataclass
class _Transmitter:
    """The state of one link: when it becomes idle, and the waiting packets."""

    idle_ns: int = 0
    waiting: deque[tuple[int, int]] = field(default_factory=deque)
    """Start of the transmission and wire bytes of each waiting packet."""
    waiting_bytes: int = 0


def arrivals(links: Sequence[Link], probes: Sequence[Probe]) -> list[int | None]:
    """Arrival of each probe at the end of its path, or ``None`` if a full queue drops it.

    Applies drop-tail limits only, no random losses.
    """
    states = [_Transmitter() for _ in links]
    found: list[int | None] = [None] * len(probes)
    calendar = [(probe.sent_ns, number, 0) for number, probe in enumerate(probes)]
    heapq.heapify(calendar)
    while calendar:
        now, number, hop = heapq.heappop(calendar)
        probe = probes[number]
        if hop == len(probe.path):
            found[number] = now
            continue
        index = probe.path[hop]
        leaves = _pass(links[index], states[index], now, probe.size_bytes)
        if leaves is not None:
            heapq.heappush(calendar, (leaves, number, hop + 1))
    return found


def _pass(link: Link, state: _Transmitter, now: int, size: int) -> int | None:
    """The instant at which a packet leaves ``link``, or ``None``."""
    while state.waiting and state.waiting[0][0] <= now:
        state.waiting_bytes -= state.waiting.popleft()[1]
    wire = wire_bytes(link, size)
    if state.idle_ns > now and not _fits(link.queue.limit, state, wire):
        return None
    begin = max(now, state.idle_ns)
    if begin > now:
        state.waiting.append((begin, wire))
        state.waiting_bytes += wire
    state.idle_ns = begin + wire * 8 * _S // link.rate_bps
    return state.idle_ns + link.delay.delay_ns


def _fits(limit: Limit, state: _Transmitter, wire: int) -> bool:
    if limit.bytes is not None and state.waiting_bytes + wire > limit.bytes:
        return False
    return limit.packets is None or len(state.waiting) < limit.packets


def links_seen(plan: Plan) -> list[Link]:
    """The links of ``plan``; one that leaves a switch has the queue that the memory keeps for packets of one input."""
    return [_seen(link, plan.nodes[link.from_].switch) for link in plan.links]


def _seen(link: Link, switch: Switch | None) -> Link:
    if switch is None:
        return link
    return replace(link, queue=replace(link.queue, limit=Limit(bytes=_kept_bytes(switch))))


def _kept_bytes(switch: Switch) -> int:
    """Bytes that one queue of the memory holds while all others are empty, and no sender is paused."""
    match switch.memory:
        case PartitionedMemory(bytes=bytes_):
            kept = bytes_
        case MixedMemory(reserved_bytes=reserved, shared_bytes=shared, alpha=alpha):
            kept = reserved + _share(shared, alpha)
        case shared_memory:
            kept = _share(shared_memory.bytes, shared_memory.alpha)
    return kept if switch.pause is None else min(kept, switch.pause.high_bytes)


def _share(bytes_: int, alpha: float | None) -> int:
    """Where a queue is as long as ``alpha`` times what it leaves free."""
    return bytes_ if alpha is None else int(bytes_ * alpha / (1 + alpha))


def delay_ns(links: Sequence[Link], path: Sequence[int], size_bytes: int) -> int:
    """Time of a packet of ``size_bytes`` through the empty links of ``path``."""
    (arrival,) = arrivals(links, [Probe(0, tuple(path), size_bytes)])
    assert arrival is not None  # an empty queue accepts it
    return arrival


def slack_ns(links: Sequence[Link], path: Sequence[int]) -> int:
    """Random deviation of the delay lines of ``path``: four standard deviations, or the maximum."""
    delays = (links[link].delay for link in path)
    return sum(delay_model(delay).spread_ns(delay) for delay in delays)


def jitter_ns(plan: Plan, path: Sequence[int]) -> int:
    """The longest time that a packet spends in the fabrics of the switches of ``path``."""
    switches = (plan.nodes[plan.links[link].from_].switch for link in path)
    return sum(switch.jitter_ns for switch in switches if switch is not None)


@dataclass(frozen=True)
class Loss:
    """Random losses of a path."""

    probability: float
    """Long-run share of packets lost."""
    inflation: float
    """Variance of a count relative to that of independent losses: 1 if they are independent."""


def loss_of(links: Sequence[Link], path: Sequence[int]) -> Loss | None:
    """The random losses of ``path``; ``None`` if a link loses listed packets, because probes would use up the list."""
    passed, inflation = 1.0, 1.0
    for loss in (links[link].loss for link in path):
        if loss is None:
            continue
        model = loss_model(loss)
        share = model.share(loss)
        if share is None:
            return None
        passed *= 1 - share
        inflation = max(inflation, model.inflation(loss))
    return Loss(1 - passed, inflation)
