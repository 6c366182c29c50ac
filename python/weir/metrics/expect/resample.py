"""The confidence interval of a function of means over repeats, from its values on some of the repeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weir.metrics.expect.source import Context
from weir.metrics.expect.syntax import Call, Node, walk
from weir.metrics.expect.values import Amount
from weir.metrics.statistics import jackknife, single_repeats

__all__ = ["Resampling"]


@dataclass(frozen=True)
class Resampling:
    """Which repeats a part of a check is evaluated on, besides all, and the interval that follows.

    One repeat is left out at a time. For what is linear, such as the difference of two metrics, that gives Student's
    interval of the paired differences exactly (Jain, The Art of Computer Systems Performance Analysis, 1991, section
    13.4.1). Rank correlations do not change smoothly: theirs is of the correlations of single repeats.
    """

    repeats: Sequence[int]
    level: float
    alone: bool

    @classmethod
    def of(cls, node: Node, repeats: Sequence[int], level: float) -> Resampling:
        """The one that suits ``node``."""
        return cls(repeats, level, any(isinstance(part, Call) and part.function == "spearman" for part in walk(node)))

    def contexts(self, context: Context) -> list[Context]:
        """Where to evaluate."""
        every = frozenset(self.repeats)
        return [context.only({k} if self.alone else every - {k}) for k in self.repeats]

    def interval(self, amount: Amount, others: Sequence[Amount], scale: float) -> tuple[float, float]:
        """The interval around ``amount``, from its values in ``contexts``; within its bounds.

        A width that is the rounding of numbers of size ``scale`` is none.
        """
        values = np.array([other.value for other in others])
        made = single_repeats if self.alone else jackknife
        with np.errstate(all="ignore"):  # squares of absurd numbers
            low, high = made(amount.value, values, self.level, scale)
        return amount.bounds.cut(low, high, amount.value)
