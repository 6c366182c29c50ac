"""Losses and delays of a plan's links: their equivalents in the kernel, and what a self-check may expect of them.

Each kind is a class and a line of :data:`LOSSES` or :data:`DELAYS`. A kind without a line runs on weir's own links
only: the kernel's refuse it. A self-check has no expectation of its losses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct

from weir.plan import (
    BernoulliLoss,
    Delay,
    FixedDelay,
    GilbertElliottLoss,
    JitterDelay,
    ListLoss,
    Loss,
    ReorderDelay,
    kind_of,
)

__all__ = ["DELAYS", "LOSSES", "DelayModel", "LossModel", "delay_model", "loss_model", "microseconds"]

L = TypeVar("L", bound=Struct)
D = TypeVar("D", bound=Struct)

_MIN_LOSS = 1e-8
"""netem has probabilities of 32 bits, and ``tc`` gets them in percent with seven places."""
_DEVIATIONS = 4
"""Standard deviations that jitter stays below, as netem's table has them."""


def microseconds(ns: int) -> str:
    """What ``tc`` of any age reads: some versions know no nanoseconds, and take the next whole microsecond."""
    return f"{round(ns / 1000)}us"


# Losses --------------------------------------------------------------------------------------------------------------


class LossModel(Generic[L]):
    """A kind of losses. This class is for kinds that the kernel lacks."""

    def obstacle(self, loss: L) -> str | None:
        """What netem lacks; ``None`` if it loses packets alike."""
        return f"losses of kind {kind_of(loss)}"

    def netem(self, loss: L) -> tuple[str, ...]:
        """The arguments of netem.

        Raises:
            ValueError: netem has no such losses, as :meth:`obstacle` says.
        """
        raise ValueError(f"netem has no losses of kind {kind_of(loss)}")

    def probabilities(self, loss: L) -> tuple[float, ...]:
        """``p`` of independent losses, or ``p``, ``r``, ``good`` and ``bad`` of a chain of two states; else empty."""
        return ()

    def numbers(self, loss: L) -> Sequence[int] | None:
        """The lost packets by their numbers, ascending; ``None`` if losses are not listed."""
        return None

    def share(self, loss: L) -> float | None:
        """The long-run share of packets lost; ``None`` if there is none."""
        return None

    def inflation(self, loss: L) -> float:
        """The variance of a count of losses relative to that of independent ones."""
        return 1.0

    def is_memoryless(self, loss: L) -> bool:
        """Whether the fate of a packet does not depend on those before."""
        return False


class _Random(LossModel[L]):
    """Random losses that netem has."""

    def obstacle(self, loss: L) -> str | None:
        small = any(0 < p < _MIN_LOSS for p in self.probabilities(loss))
        return f"a probability of less than {_MIN_LOSS:g}" if small else None


class _Bernoulli(_Random[BernoulliLoss]):
    def netem(self, loss: BernoulliLoss) -> tuple[str, ...]:
        return ("loss", "random", _percent(loss.p))

    def probabilities(self, loss: BernoulliLoss) -> tuple[float, ...]:
        return (loss.p,)

    def share(self, loss: BernoulliLoss) -> float:
        return loss.p

    def is_memoryless(self, loss: BernoulliLoss) -> bool:
        return True


class _GilbertElliott(_Random[GilbertElliottLoss]):
    def netem(self, loss: GilbertElliottLoss) -> tuple[str, ...]:
        return ("loss", "gemodel", *map(_percent, (loss.p, loss.r, loss.bad, loss.good)))

    def probabilities(self, loss: GilbertElliottLoss) -> tuple[float, ...]:
        return (loss.p, loss.r, loss.good, loss.bad)

    def share(self, loss: GilbertElliottLoss) -> float:
        turns = loss.p + loss.r
        bad = loss.p / turns if turns else 0.0
        return bad * loss.bad + (1 - bad) * loss.good

    def inflation(self, loss: GilbertElliottLoss) -> float:
        """Of a two-state chain's mean: (1 + k) / (1 - k), where k is the correlation of neighbours."""
        correlation = min(abs(1 - loss.p - loss.r), 0.999)
        return (1 + correlation) / (1 - correlation)


class _List(LossModel[ListLoss]):
    def obstacle(self, loss: ListLoss) -> str | None:
        return "a list of packets"

    def numbers(self, loss: ListLoss) -> Sequence[int]:
        return sorted({number for number in loss.packets if number > 0})


def _percent(share: float) -> str:
    return f"{100 * share:.7f}%"


LOSSES: Mapping[type[Struct], LossModel[Any]] = {
    BernoulliLoss: _Bernoulli(),
    GilbertElliottLoss: _GilbertElliott(),
    ListLoss: _List(),
}
"""The kinds of losses that the kernel's links or a self-check know."""


def loss_model(loss: Loss) -> LossModel[Any]:
    """The model of the kind of ``loss``."""
    return LOSSES.get(type(loss), LossModel())


# Delays --------------------------------------------------------------------------------------------------------------


class DelayModel(Generic[D]):
    """A kind of delay line. This class is for kinds that the kernel lacks."""

    varies = True
    """Whether packets differ in their delay."""

    def obstacle(self, delay: D) -> str | None:
        """What netem lacks; ``None`` if it delays packets alike."""
        return f"a delay of kind {kind_of(delay)}"

    def netem(self, delay: D) -> tuple[str, ...]:
        """The arguments of netem after the delay itself.

        Raises:
            ValueError: netem has no such delay, as :meth:`obstacle` says.
        """
        raise ValueError(f"netem has no delay of kind {kind_of(delay)}")

    def spread_ns(self, delay: D) -> int:
        """By how much a packet may be later: four standard deviations, or the maximum."""
        return 0

    def is_memoryless(self, delay: D) -> bool:
        """Whether the delay of a packet does not depend on those before."""
        return False


class _Fixed(DelayModel[FixedDelay]):
    varies = False

    def obstacle(self, delay: FixedDelay) -> str | None:
        return None

    def netem(self, delay: FixedDelay) -> tuple[str, ...]:
        return ()

    def is_memoryless(self, delay: FixedDelay) -> bool:
        return True


class _Jitter(DelayModel[JitterDelay]):
    def obstacle(self, delay: JitterDelay) -> str | None:
        kept = "jitter that keeps the order of packets (netem's does not; `overtaking: true` allows it)"
        return None if delay.reorder else kept

    def netem(self, delay: JitterDelay) -> tuple[str, ...]:
        return (microseconds(delay.jitter_ns), *(("distribution", "normal") if delay.normal else ()))

    def spread_ns(self, delay: JitterDelay) -> int:
        return delay.jitter_ns * (_DEVIATIONS if delay.normal else 1)

    def is_memoryless(self, delay: JitterDelay) -> bool:
        return delay.reorder


class _Reorder(DelayModel[ReorderDelay]):
    def obstacle(self, delay: ReorderDelay) -> str | None:
        return "reordering of single packets (netem's is another one)"

    def spread_ns(self, delay: ReorderDelay) -> int:
        return delay.extra_ns

    def is_memoryless(self, delay: ReorderDelay) -> bool:
        return True


DELAYS: Mapping[type[Struct], DelayModel[Any]] = {
    FixedDelay: _Fixed(),
    JitterDelay: _Jitter(),
    ReorderDelay: _Reorder(),
}
"""The kinds of delay lines that the kernel's links or a self-check know."""


def delay_model(delay: Delay) -> DelayModel[Any]:
    """The model of the kind of ``delay``."""
    return DELAYS.get(type(delay), DelayModel())
