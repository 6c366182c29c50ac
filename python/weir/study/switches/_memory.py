"""The memory of a switch, from the packets that it accepted and dropped.

All schemes are one law: a queue has ``own`` bytes alone, and takes what does not fit from a pool of which it may hold
``alpha`` times the free part. Without a pool the memory is partitioned, without own bytes it is shared. The fit looks
for the law with the least contradiction: the mean distance, in packets, of wrongly judged packets from the bound.

Whether a queue needs more room after a loss is part of the law: the fit is made with and without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from weir.study.switches._states import States

__all__ = [
    "CLOCKED",
    "EXACT",
    "Choices",
    "MemoryFit",
    "Resume",
    "choices_of",
    "contradiction_of",
    "excess_of",
    "fit_memory",
    "fit_with_resume",
    "pooled_at",
]

Floats = npt.NDArray[np.float64]
_PACKET = 1538.0
_NEARLY = 1.4
"""A simpler memory may contradict so many times more."""
EXACT, CLOCKED = 0.001, 0.5
"""Contradictions, packets, that count as nothing: with exact instants, and with those of a real clock."""
_FEW = 3
"""Packets that a queue must hold so that the schemes of memories differ."""
_INVERSES = 2.0**-8, 2.0**8
"""Bounds of the inverse of ``alpha``."""
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
    resume: float = 0.0
    """Room that a packet needs besides if the one before it was dropped, bytes."""

    def only(self, chosen: npt.NDArray[Any]) -> Choices:
        """Those that ``chosen`` selects."""
        names = ("held", "others", "wire", "accepted", "after_loss", "weight")
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})

    @property
    def spare(self) -> Floats:
        """By packet: room that it needs besides, bytes."""
        return np.where(self.after_loss, self.resume, 0.0)


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
    slack: float = 0.0
    """Bytes by which the pool, or the queues' own part without one, may be smaller or larger."""
    doubt: str = ""
    """Why the scheme is not certain, if it is not."""

    @property
    def largest(self) -> float:
        """Bytes that one queue can hold while the others are empty."""
        return self.own + self.pool * self._share

    @property
    def largest_range(self) -> tuple[float, float]:
        """The least and the most that :attr:`largest` may be: packets cannot tell sizes that are closer."""
        slack = self.slack * (self._share if self.pool else 1.0)
        return self.largest - slack, self.largest + slack

    @property
    def _share(self) -> float:
        return 1.0 if self.alpha is None else self.alpha / (1 + self.alpha)


@dataclass(frozen=True)
class Resume:
    """How much more room a queue needs after a loss."""

    bytes: int = 0
    low: int = 0
    high: int = 0
    """The least and the most that it may be."""
    doubt: str = ""
    """Why it is not certain, if it is not."""


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
    """The simplest memory that explains the choices, apart from those after a loss, nearly as well as the best one."""
    sure = ~choices.after_loss
    if not (~choices.accepted).any():
        raise ValueError("nothing was dropped")
    if (~choices.accepted & sure).sum() < 3:
        sure = np.ones(len(sure), np.bool_)
    return _simplest(choices.only(sure), noise)


def fit_with_resume(
    choices: Choices, noise: float = EXACT, *, exact: bool = True, blur: float = 0.0
) -> tuple[MemoryFit, Resume]:
    """The memory, and the room that a queue needs after a loss.

    Args:
        choices: Packets that were accepted or dropped; some were dropped.
        noise: Contradictions, packets, that count as nothing.
        exact: Whether instants are exact; if not, a packet after a loss says too little of the memory's size.
        blur: By how many packets the contents of a queue may be wrong.
    """
    if not exact:
        sure = fit_memory(choices, noise)
        resume = _resume_of(choices, sure)
        return sure, resume if _plain_on_a_clock(choices, sure, resume) else Resume()
    # A blurred queue is judged where the packets before it were accepted, too; others say when it has room again.
    without = fit_memory(choices, noise) if blur else _simplest(choices, noise)
    loss, allowed = contradiction_of(choices, without), noise + 0.5 * blur
    resume = Resume() if _explains(loss, allowed) else _resume_of(choices, fit_memory(choices, noise))
    if resume.bytes > 0:
        with_it = without if blur else _simplest(replace(choices, resume=float(resume.bytes)), noise)
        resume = _resume_of(choices, with_it)
        least = contradiction_of(replace(choices, resume=float(resume.bytes)), with_it)
        if resume.bytes > 0 and _NEARLY * (least + allowed) < loss + allowed:
            return with_it, resume
    return without, _perhaps(_resume_of(choices, without), float(choices.wire.max()) * (1 + blur))


def _perhaps(seen: Resume, packet: float) -> Resume:
    """No hysteresis; uncertain if what was accepted after losses had room for more than two packets."""
    if seen.high <= 3 * packet:
        return Resume()
    return Resume(0, 0, seen.high, f"hysteresis could not be told: after a loss, a queue may need up to {seen.high} B")


def _simplest(data: Choices, noise: float) -> MemoryFit:
    """The simplest memory that explains all choices nearly as well as the best one."""
    found = [_partitioned(data), _pooled(data, [0.0], [0.0])]
    for more in (partial(_refined, own=False), _mixed_without_limit, partial(_refined, own=True)):
        if any(_explains(fit.loss, noise) for fit in found):
            break
        found.append(more(data))
    least = min(fit.loss for fit in found)
    nearly = [fit.loss + noise <= _NEARLY * (least + noise) for fit in found]
    trifle = min(_PACKET, 5 * float(data.wire.min()))
    chosen = _without_trifle(found[nearly.index(True)], trifle)
    if chosen.largest < _FEW * data.wire.min():
        return replace(chosen, doubt=f"a queue holds fewer than {_FEW} packets: all schemes of the memory look alike")
    if nearly[0] and nearly[1]:
        return replace(chosen, doubt="a memory for each queue and one that all queues share look alike here")
    return chosen


def _explains(loss: float, noise: float) -> bool:
    """Whether no other memory would explain the choices much better."""
    return loss + noise <= _NEARLY * noise


def _without_trifle(fit: MemoryFit, trifle: float) -> MemoryFit:
    """A memory whose queues own less than ``trifle`` is a shared one; one whose pool gives less is partitioned."""
    if fit.kind == "mixed" and fit.largest - fit.own < trifle:
        return replace(fit, kind="partitioned", own=fit.largest, pool=0.0, alpha=None)
    return replace(fit, kind="shared", own=0.0) if fit.kind == "mixed" and fit.own < trifle else fit


def _threshold(score: Floats, scale: float, data: Choices) -> tuple[float, float, float]:
    """The bound below which packets were accepted, how far it may be from there, and the contradiction in packets.

    It is anywhere between two scores: that of a packet which was accepted, and of one which was dropped.
    """
    order = np.argsort(score, kind="stable")
    values, weight = score[order], data.weight[order]
    good = data.accepted[order]
    # Contradiction at a bound P: accepted above it, dropped below it. Its slope changes at each score.
    gain = np.cumsum(np.where(good, 0.0, weight)) - np.cumsum(np.where(good, weight, 0.0)[::-1])[::-1]
    at = min(int(np.searchsorted(gain, 0.0)), len(values) - 1)
    below, above = values[: at + 1][good[: at + 1]], values[at:][~good[at:]]
    low = float(below[-1]) if len(below) else float(values[at])
    high = max(float(above[0]), low) if len(above) else low
    bound = (low + high) / 2
    wrong = np.where(data.accepted, np.maximum(score - bound, 0), np.maximum(bound - score, 0))
    packets = wrong / data.wire / scale
    return bound, (high - low) / 2, float((packets * data.weight).sum() / data.weight.sum())


def _partitioned(data: Choices) -> MemoryFit:
    bound, slack, loss = _threshold(data.held + data.wire + data.spare, 1.0, data)
    return MemoryFit("partitioned", bound, 0.0, None, loss, slack=slack)


def _score(data: Choices, own: float, inverse: float) -> Floats:
    """The pool that a packet needs, with the limit of its queue."""
    spare = data.spare
    pooled = np.maximum(data.held - own, 0)
    more = np.maximum(data.held + data.wire + spare - own, 0) - pooled
    taken = pooled + np.maximum(data.others - own, 0).sum(axis=1)
    limited = taken + np.maximum(data.held + spare - own, 0) * inverse
    score: Floats = np.where(more > 0, np.maximum(taken + more, limited), -np.inf)
    return score


def pooled_at(data: Choices, own: float, inverse: float) -> MemoryFit:
    """The memory with this own part and inverse of ``alpha``, and the pool that contradicts least."""
    return _pooled(data, [own], [inverse])


def contradiction_of(data: Choices, memory: MemoryFit) -> float:
    """The mean contradiction of the choices to a memory, packets."""
    over = excess_of(data, memory)
    wrong = np.where(data.accepted, np.maximum(over, 0), np.maximum(-over, 0))
    return float((wrong * data.weight).sum() / data.weight.sum())


def excess_of(data: Choices, memory: MemoryFit) -> Floats:
    """By how much each choice is above the bound of a memory, packets."""
    inverse = 1 / memory.alpha if memory.alpha else 0.0
    if memory.kind == "partitioned":
        over = data.held + data.wire + data.spare - memory.own
    else:
        over = _score(data, memory.own, inverse) - memory.pool
        # In its own part a packet has the room that is left there.
        alone = np.isneginf(over)
        over[alone] = (data.held + data.wire + data.spare - memory.own - _PACKET)[alone]
    excess: Floats = over / data.wire / (1 + inverse)
    return excess


def _pooled(data: Choices, owns: Sequence[float], inverses: Sequence[float]) -> MemoryFit:
    """The best of these sizes of a queue's own part and of the inverse of alpha."""
    best: MemoryFit | None = None
    for own in owns:
        for inverse in inverses:
            score = _score(data, own, inverse)
            inside = np.isfinite(score)
            if not inside.any() or (data.accepted[inside]).all():
                continue
            bound, slack, loss = _threshold(score[inside], 1.0 + inverse, data if inside.all() else data.only(inside))
            # A packet that fits into the queue's own part, and was dropped, contradicts by the room there.
            room = np.maximum(own - data.held - data.wire - data.spare, 0)[~inside & ~data.accepted]
            alone = data.weight[~inside & ~data.accepted]
            loss = loss * float(data.weight[inside].sum()) + float(((room / _PACKET + 1) * alone).sum())
            loss /= float(data.weight.sum())
            if best is None or loss < best.loss:
                kind = "mixed" if own > 0 else "shared"
                best = MemoryFit(kind, own, max(bound, 1.0), 1 / inverse if inverse else None, loss, slack=slack)
    return best or MemoryFit("shared", 0.0, 1.0, None, np.inf)


def _owns(data: Choices, count: int) -> list[float]:
    most = float((data.held + data.wire)[data.accepted].max())
    return list(np.linspace(0.0, most, count + 1)[1:-1])


def _mixed_without_limit(data: Choices) -> MemoryFit:
    thinned = data if len(data.held) < 4000 else _thinned(data, 4000)
    owns = _owns(thinned, 24)
    best = _descended(thinned, _pooled(thinned, owns, [0.0]), owns[0], limit=False)
    return _pooled(data, [best.own], [0.0])


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
        least = 1.0 if best.own > 0 else 0.0
        tried = [
            _pooled(data, [max(best.own + a * step, least)], [_inverse(inverse * 2 ** (b * power))]) for a, b in ways
        ]
        found = min(tried, key=lambda fit: fit.loss, default=best)
        if found.loss < best.loss:
            best = found
            continue
        step, power = step / 2, power / 2
        if step < 100 and power < 0.005:
            break
    return best


def _inverse(value: float) -> float:
    """The inverse of an ``alpha`` within its bounds; 0 is none."""
    return min(max(value, _INVERSES[0]), _INVERSES[1]) if value else 0.0


def _thinned(data: Choices, count: int) -> Choices:
    chosen = np.sort(np.random.default_rng(2).choice(len(data.held), count, replace=False))
    return data.only(chosen)


def _resume_of(choices: Choices, memory: MemoryFit) -> Resume:
    """How much more room a queue needs after a loss, if there is anything that it needs."""
    after = choices.only(choices.after_loss)
    good = after.accepted
    if not good.any() or good.all():
        return Resume()
    room = _spare_room(memory, after)
    bound = slack = 0.0
    for _ in range(2):
        # After a loss one packet is accepted, and so many are dropped as the room has packets.
        dropped = max(-bound / float(after.wire.max()), 1.0)
        weight = np.where(good, 1 / good.sum(), dropped / (~good).sum())
        # A packet that was accepted shows that less was asked, a dropped one that more was.
        bound, slack, _ = _threshold(-room, 1.0, replace(after, weight=weight))
    return Resume(max(round(-bound), 0), max(round(-bound - slack), 0), max(round(-bound + slack), 0))


def _spare_room(memory: MemoryFit, data: Choices) -> Floats:
    """By packet: the room that its queue had besides, bytes."""
    low, high = np.zeros(len(data.held)), np.full(len(data.held), memory.own + memory.pool)
    for _ in range(40):
        middle = (low + high) / 2
        room = _has_room(memory, data.held, data.others, data.wire, middle)
        low, high = np.where(room, middle, low), np.where(room, high, middle)
    return low


def _plain_on_a_clock(choices: Choices, memory: MemoryFit, resume: Resume) -> bool:
    """Whether hysteresis is so large that late instants do not explain it."""
    after = choices.only(choices.after_loss)
    packet = float(choices.wire.max())
    room = np.sort(_spare_room(memory, after)[after.accepted])
    return resume.bytes >= 2 * packet and float(room[int(0.25 * (len(room) - 1))]) >= 2.5 * packet


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
