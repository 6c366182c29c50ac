"""The memory of a switch, from the packets that it accepted and dropped.

All schemes are one law: a queue has ``own`` bytes alone, and takes what does not fit from a pool of which it may hold
``alpha`` times the free part. Without a pool the memory is partitioned, without own bytes it is shared. The fit looks
for the law with the least contradiction: the mean distance, in packets, of wrongly judged packets from the bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from weir.study.switches._states import States

__all__ = ["CLOCKED", "EXACT", "Choices", "MemoryFit", "choices_of", "fit_memory", "fit_resume"]

Floats = npt.NDArray[np.float64]
_PACKET = 1538.0
_NEARLY = 1.4
"""A simpler memory may contradict so many times more."""
EXACT, CLOCKED = 0.002, 0.5
"""Contradictions, packets, that count as nothing: with exact instants, and with those of a real clock."""
_MOST = 3000
"""Packets of a trial that are kept for the fit, of those accepted and of those dropped."""


@dataclass(frozen=True)
class Choices:
    """Packets that were accepted or dropped, with the queues at that time."""

    held: Floats
    """Bytes of the packet's queue."""
    others: Floats
    """By packet and other queue: bytes."""
    wire: Floats
    accepted: npt.NDArray[np.bool_]
    after_loss: npt.NDArray[np.bool_]
    """Whether the packet before it in the queue was dropped."""
    weight: Floats

    def only(self, chosen: npt.NDArray[Any]) -> Choices:
        """Those that ``chosen`` selects."""
        return Choices(*(getattr(self, part.name)[chosen] for part in fields(self)))


@dataclass(frozen=True)
class MemoryFit:
    """A memory, and how well it explains what was accepted and dropped."""

    kind: str
    own: float
    """Bytes of each queue alone."""
    pool: float
    """Bytes that all share."""
    alpha: float | None
    loss: float
    """Mean contradiction, packets."""
    bound: bool = True
    """Whether anything was dropped; otherwise the sizes are only lower bounds."""

    @property
    def largest(self) -> float:
        """Bytes that one queue can hold while the others are empty."""
        share = 1.0 if self.alpha is None else self.alpha / (1 + self.alpha)
        return self.own + self.pool * share


def choices_of(trials: Iterable[States], *, by_output: bool) -> Choices:
    """The choices of all trials; ``by_output``: whether an output port has one queue, else one for each input."""
    parts = [part for states in trials if (part := _choices(states, by_output)) is not None]
    width = max((part.others.shape[1] for part in parts), default=0)
    others = [np.pad(part.others, ((0, 0), (0, width - part.others.shape[1]))) for part in parts]

    def joined(name: str) -> npt.NDArray[np.float64]:
        return np.concatenate([getattr(part, name) for part in parts]) if parts else np.zeros(0)

    return Choices(
        joined("held"), np.concatenate(others) if others else np.zeros((0, 0)), joined("wire"),
        joined("accepted").astype(bool), joined("after_loss").astype(bool), joined("weight"),
    )  # fmt: skip


def _choices(states: States, by_output: bool) -> Choices | None:
    queue_of = [output if by_output else pair for pair, (_, output) in enumerate(states.pairs)]
    names = sorted(set(queue_of))
    member = np.array([[of == name for name in names] for of in queue_of], np.int64)
    held = states.before @ member
    queue = np.array([names.index(of) for of in queue_of])[states.arrived]
    after = np.zeros(len(queue), np.bool_)
    for number in range(len(names)):
        own = np.flatnonzero(queue == number)
        after[own[1:]] = ~states.accepted[own[:-1]]
    if states.accepted.all():
        return None
    chosen = _sample(states, after)
    rows = np.arange(len(chosen))
    mine = held[chosen, queue[chosen]]
    others = held[chosen].astype(np.float64)
    others[rows, queue[chosen]] = 0
    accepted = states.accepted[chosen]
    weight = np.where(accepted, 0.5 / max(accepted.sum(), 1), 0.5 / max((~accepted).sum(), 1))
    return Choices(
        mine.astype(np.float64), others, states.wire[chosen].astype(np.float64), accepted, after[chosen], weight
    )


def _sample(states: States, after: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Packets around losses: those dropped, the first of a run in any case, and those accepted after the first loss."""
    random = np.random.default_rng(1)
    first = int(np.flatnonzero(~states.accepted)[0])
    groups = [
        np.flatnonzero(~states.accepted & ~after),
        np.flatnonzero(~states.accepted & after),
        np.flatnonzero(states.accepted & ~after & (np.arange(len(after)) > first - 200)),
        np.flatnonzero(states.accepted & after),
    ]
    return np.sort(
        np.concatenate([g if len(g) <= _MOST else np.sort(random.choice(g, _MOST, replace=False)) for g in groups])
    )


def fit_memory(choices: Choices, noise: float = EXACT) -> MemoryFit:
    """The simplest memory that explains the choices nearly as well as the best one."""
    sure = ~choices.after_loss
    if not (~choices.accepted).any():
        raise ValueError("nothing was dropped")
    if (~choices.accepted & sure).sum() < 3:
        sure = np.ones(len(sure), np.bool_)
    data = choices.only(sure)
    found = [_partitioned(data), _pooled(data, [0.0], [0.0]), _refined(data, own=False)]
    found += [_mixed_without_limit(data), _refined(data, own=True)]
    least = min(fit.loss for fit in found)
    found = [_without_trifle(fit) for fit in found]
    for fit in found:
        if fit.loss + noise <= _NEARLY * (least + noise):
            return fit
    raise AssertionError("one of them has the least loss")


def _without_trifle(fit: MemoryFit) -> MemoryFit:
    """A memory whose queues own less than a packet is a shared one."""
    return replace(fit, kind="shared", own=0.0) if fit.kind == "mixed" and fit.own < _PACKET else fit


def _threshold(score: Floats, scale: float, data: Choices) -> tuple[float, float]:
    """The bound below which packets were accepted, and the mean contradiction in packets."""
    order = np.argsort(score, kind="stable")
    values, weight = score[order], data.weight[order]
    good = data.accepted[order]
    # Contradiction at a bound P: accepted above it, dropped below it. Its slope changes at each score.
    gain = np.cumsum(np.where(good, 0.0, weight)) - np.cumsum(np.where(good, weight, 0.0)[::-1])[::-1]
    at = min(int(np.searchsorted(gain, 0.0)), len(values) - 1)
    bound = float(values[at])
    wrong = np.where(data.accepted, np.maximum(score - bound, 0), np.maximum(bound - score, 0))
    packets = wrong / data.wire / scale
    return bound, float((packets * data.weight).sum() / data.weight.sum())


def _partitioned(data: Choices) -> MemoryFit:
    bound, loss = _threshold(data.held + data.wire, 1.0, data)
    return MemoryFit("partitioned", bound, 0.0, None, loss)


def _score(data: Choices, own: float, inverse: float) -> Floats:
    """The pool that a packet needs, with the limit of its queue."""
    pooled = np.maximum(data.held - own, 0)
    more = np.maximum(data.held + data.wire - own, 0) - pooled
    taken = pooled + np.maximum(data.others - own, 0).sum(axis=1)
    score: Floats = np.where(more > 0, np.maximum(taken + more, taken + pooled * inverse), -np.inf)
    return score


def _pooled(data: Choices, owns: Sequence[float], inverses: Sequence[float]) -> MemoryFit:
    """The best of these sizes of a queue's own part and of the inverse of alpha."""
    best: MemoryFit | None = None
    for own in owns:
        for inverse in inverses:
            score = _score(data, own, inverse)
            inside = np.isfinite(score)
            if not inside.any() or (data.accepted[inside]).all():
                continue
            bound, loss = _threshold(score[inside], 1.0 + inverse, data.only(inside))
            # A packet that fits into the queue's own part, and was dropped, contradicts by the room there.
            room = np.maximum(own - data.held - data.wire, 0)[~inside & ~data.accepted]
            alone = data.weight[~inside & ~data.accepted]
            loss = loss * float(data.weight[inside].sum()) + float(((room / _PACKET + 1) * alone).sum())
            loss /= float(data.weight.sum())
            if best is None or loss < best.loss:
                kind = "mixed" if own > 0 else "shared"
                best = MemoryFit(kind, own, max(bound, 1.0), 1 / inverse if inverse else None, loss)
    return best or MemoryFit("shared", 0.0, 1.0, None, np.inf)


def _owns(data: Choices, count: int) -> list[float]:
    most = float((data.held + data.wire)[data.accepted].max())
    return list(np.linspace(0.0, most, count + 1)[1:-1])


def _mixed_without_limit(data: Choices) -> MemoryFit:
    owns = _owns(data, 24)
    return _descended(data, _pooled(data, owns, [0.0]), owns[0], limit=False)


def _refined(data: Choices, *, own: bool) -> MemoryFit:
    """A search over alpha, and over a queue's own part: a grid, then a descent from its best points."""
    thinned = data if len(data.held) < 4000 else _thinned(data, 4000)
    owns = _owns(thinned, 12) if own else [0.0]
    grid = [_pooled(thinned, [size], [2.0**power for power in np.arange(-6, 6.01, 1.0)]) for size in owns]
    starts = sorted(grid, key=lambda fit: fit.loss)[:4]
    ends = [_descended(thinned, start, owns[0], limit=True) for start in starts]
    best = min(ends, key=lambda fit: fit.loss)
    return _pooled(data, [best.own], [1 / best.alpha if best.alpha else 0.0])


_WAYS = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)]


def _descended(data: Choices, best: MemoryFit, step: float, *, limit: bool) -> MemoryFit:
    """A pattern search for less contradiction: steps in all directions, halved when none helps."""
    power = 0.5
    for _ in range(60):
        inverse = 1 / best.alpha if best.alpha else 0.0
        ways = [(a, b) for a, b in _WAYS if (a == 0 or best.own > 0) and (b == 0 or limit)]
        tried = [_pooled(data, [max(best.own + a * step, 1.0 if best.own > 0 else 0.0)], [inverse * 2 ** (b * power)])
                 for a, b in ways]  # fmt: skip
        found = min(tried, key=lambda fit: fit.loss, default=best)
        if found.loss < best.loss:
            best = found
            continue
        step, power = step / 2, power / 2
        if step < 100 and power < 0.005:
            break
    return best


def _thinned(data: Choices, count: int) -> Choices:
    chosen = np.sort(np.random.default_rng(2).choice(len(data.held), count, replace=False))
    return data.only(chosen)


def fit_resume(choices: Choices, memory: MemoryFit) -> int:
    """How much more room a queue needs after a loss, bytes."""
    after = choices.after_loss
    if not (after & choices.accepted).any() or not (after & ~choices.accepted).any():
        return 0
    held, wire = choices.held[after], choices.wire[after]
    others, accepted = choices.others[after], choices.accepted[after]
    low, high = np.zeros(len(held)), np.full(len(held), memory.own + memory.pool)
    for _ in range(40):
        middle = (low + high) / 2
        room = _has_room(memory, held, others, wire, middle)
        low, high = np.where(room, middle, low), np.where(room, high, middle)
    # A packet that was accepted shows that less was asked, a dropped one that more was.
    return _resume_between(low, accepted, float(wire.max()))


def _resume_between(room: Floats, accepted: npt.NDArray[np.bool_], packet: float) -> int:
    above = np.sort(room[accepted])
    below = np.sort(room[~accepted])
    least = float(above[int(0.25 * (len(above) - 1))])
    most = float(below[int(0.98 * (len(below) - 1))])
    found = (least + most) / 2
    return 0 if least < 2.5 * packet or found < 2 * packet else round(found)


def _has_room(memory: MemoryFit, held: Floats, others: Floats, wire: Floats, spare: Floats) -> npt.NDArray[np.bool_]:
    """As the simulator's memory: room for a packet, and for ``spare`` besides."""

    def pooled(bytes_: Floats) -> Floats:
        result: Floats = np.maximum(bytes_ - memory.own, 0)
        return result

    taken = pooled(held) + np.maximum(others - memory.own, 0).sum(axis=1)
    more = pooled(held + wire + spare) - pooled(held)
    free = memory.pool - taken
    limit = np.inf if memory.alpha is None else memory.alpha
    within = np.ones(len(held), np.bool_) if np.isinf(limit) else pooled(held + spare) < limit * free
    result: npt.NDArray[np.bool_] = (more == 0) | ((more <= free) & within)
    return result
