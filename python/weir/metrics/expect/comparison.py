"""One comparison of a check at one point of a sweep: its values, its margin, and their intervals.

:mod:`weir.metrics.expect.resample` computes the intervals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weir.metrics.expect.amounts import Amounts
from weir.metrics.expect.dimensions import dimension_of, is_percent
from weir.metrics.expect.labels import is_label, judge_label, rank_interval
from weir.metrics.expect.resample import Resampling
from weir.metrics.expect.sides import (
    NO_INTERVAL,
    Range,
    Sides,
    compare,
    decide,
    lies_between,
    lies_within,
)
from weir.metrics.expect.source import Context, Source
from weir.metrics.expect.syntax import Between, Call, Compare, Metric, Node, Number, Within
from weir.metrics.expect.values import Amount, UndecidedError
from weir.metrics.expect.verdict import Measurement
from weir.run.quantity import ONE, Dimension

__all__ = ["Comparison"]


@dataclass
class Comparison:
    """Evaluates one comparison."""

    source: Source
    node: Node
    level: float = 0.95

    def measure(self, context: Context, shown: Mapping[str, str]) -> Measurement:
        """Evaluates the comparison at the point that ``context`` fixes; ``shown`` are the factors that label it."""
        try:
            repeats, of = self.source.pairs(self.node, context)
            here = context.only(repeats) if repeats else context
            note = f"some repeats are missing: {len(repeats)} of {of} compared" if len(repeats) < of else ""
            if is_label(self.node):
                return judge_label(self._amounts, self.node, here, shown, repeats, self.level, note)
            return self._numeric(here, shown, repeats, note)
        except UndecidedError as reason:
            dimension = dimension_of(self.node.left) if isinstance(self.node, Compare) else None
            return self._undecided(shown, dimension or ONE, str(reason))

    @property
    def _amounts(self) -> Amounts:
        return Amounts(self.source)

    def _numeric(self, context: Context, shown: Mapping[str, str], repeats: Sequence[int], missing: str) -> Measurement:
        sides = self._sides(context)
        value_ci, margin_ci = self._intervals(sides, context, repeats)
        decision = decide(sides, margin_ci, certain=self._is_plain())
        return Measurement(
            text=self.node.text,
            factors=shown,
            outcome=decision.outcome,
            value=sides.value.value,
            low=value_ci[0],
            high=value_ci[1],
            threshold=sides.threshold.value,
            margin=sides.margin.value,
            margin_low=margin_ci[0],
            margin_high=margin_ci[1],
            repeats=len(repeats),
            dimension=sides.value.dimension,
            note="; ".join(filter(None, [decision.note, missing])),
            within_chance=decision.within_chance,
            level=self.level,
            fixed=self._is_fixed(),
            tolerance=sides.tolerance,
            percent=is_percent(self.node),
        )

    def _intervals(self, sides: Sides, context: Context, repeats: Sequence[int]) -> tuple[Range, Range]:
        if len(repeats) < 2 or sides.bound != "exact":
            return NO_INTERVAL, NO_INTERVAL
        try:
            if isinstance(self.node, Compare):
                for side in (self.node.left, self.node.right):
                    if isinstance(side, Call) and side.function == "rank":
                        return self._of_rank(sides, side, context, repeats)
            return self._of_repeats(sides, context, repeats)
        except UndecidedError:
            return NO_INTERVAL, NO_INTERVAL

    def _of_repeats(self, sides: Sides, context: Context, repeats: Sequence[int]) -> tuple[Range, Range]:
        resampling = Resampling.of(self.node, repeats, self.level)
        parts = [self._sides(part) for part in resampling.contexts(context)]
        margins = [
            resampling.interval(margin, [p.margins[i] for p in parts], sides.scale)
            for i, margin in enumerate(sides.margins)
        ]
        value = resampling.interval(sides.value, [p.value for p in parts], sides.scale)
        return value, sides.combine(margins)

    def _of_rank(self, sides: Sides, rank: Call, context: Context, repeats: Sequence[int]) -> tuple[Range, Range]:
        assert isinstance(self.node, Compare)
        ends = rank_interval(self._amounts, rank, context, repeats, self.level)
        if math.isnan(ends[0]):
            return NO_INTERVAL, NO_INTERVAL
        margins = []
        for place in range(round(ends[0]), round(ends[1]) + 1):
            amount = Amount(float(place), ONE)
            left, right = (amount, sides.threshold) if rank is self.node.left else (sides.value, amount)
            margins.append(compare(self.node.operator, left, right).margin.value)
        return (ends if rank is self.node.left else NO_INTERVAL), (min(margins), max(margins))

    def _sides(self, context: Context) -> Sides:
        node, amount = self.node, self._amounts.amount
        match node:
            case Compare(operator=operator):
                return compare(operator, amount(node.left, context), amount(node.right, context))
            case Within():
                return lies_within(node, amount(node.left, context), amount(node.right, context))
            case Between():
                return lies_between(*(amount(part, context) for part in (node.part, node.low, node.high)))
            case _:
                raise AssertionError(f"not a comparison: {node}")

    def _is_fixed(self) -> bool:
        """Whether the threshold is constant, so that the value's interval is equivalent to the margin's."""
        match self.node:
            case Compare(right=right) | Within(right=right):
                return isinstance(right, Number)
            case Between(low=low, high=high):
                return isinstance(low, Number) and isinstance(high, Number)
            case _:
                return False

    def _is_plain(self) -> bool:
        """Whether a mean over repeats is compared with a constant, rather than a function of means."""
        match self.node:
            case Compare(left=left, right=right):
                return all(isinstance(side, Number | Metric) for side in (left, right))
            case _:
                return False

    def _undecided(self, shown: Mapping[str, str], dimension: Dimension, reason: str) -> Measurement:
        nan = math.nan
        return Measurement(
            self.node.text, shown, "undecided", nan, nan, nan, "", nan, nan, nan, 0, dimension, reason, level=self.level
        )
