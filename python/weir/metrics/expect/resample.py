"""Confidence interval of a function of means over repeats, from its values on subsets of the repeats."""

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
    """The subsets of repeats on which a part of a check is evaluated, and the resulting interval.

    Each subset leaves one repeat out. For a linear function, such as the difference of two metrics, that gives
    Student's interval of the paired differences exactly (Jain, The Art of Computer Systems Performance Analysis, 1991,
    section 13.4.1). Rank correlations do not change smoothly: their interval is that of the single repeats'
    correlations.
    """

    repeats: Sequence[int]
    level: float
    alone: bool

    @classmethod
    def of(cls, node: Node, repeats: Sequence[int], level: float) -> Resampling:
        """The resampling for ``node``."""
        return cls(repeats, level, any(isinstance(part, Call) and part.function == "spearman" for part in walk(node)))

    def contexts(self, context: Context) -> list[Context]:
        """The contexts to evaluate in."""
        every = frozenset(self.repeats)
        return [context.only({k} if self.alone else every - {k}) for k in self.repeats]

    def interval(self, amount: Amount, others: Sequence[Amount], scale: float) -> tuple[float, float]:
        """The interval around ``amount``, from its values in ``contexts``, cut at its bounds.

        A width within the rounding of numbers of size ``scale`` counts as 0.
        """
        values = np.array([other.value for other in others])
        made = single_repeats if self.alone else jackknife
        with np.errstate(all="ignore"):  # extreme numbers may overflow when squared
            low, high = made(amount.value, values, self.level, scale)
        return amount.bounds.cut(low, high, amount.value)
