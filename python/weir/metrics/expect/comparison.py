"""One comparison of a check at one point of a sweep: its values, its margin, and their intervals.

:mod:`weir.metrics.expect.resample` computes the intervals.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from weir.metrics.expect.amounts import Amounts, picks
from weir.metrics.expect.dimensions import dimension_of, is_percent
from weir.metrics.expect.labels import is_label, judge_label, rank_interval
from weir.metrics.expect.repeats import repeat_calls, repeat_interval, sides_of
from weir.metrics.expect.resample import Resampling
from weir.metrics.expect.sides import (
    NO_INTERVAL,
    Range,
    Sides,
    compare,
    decide,
)
from weir.metrics.expect.source import Context, Source
from weir.metrics.expect.syntax import Between, Call, Compare, Metric, Node, Number, Within
from weir.metrics.expect.values import Amount, UndecidedError, arithmetic
from weir.metrics.expect.verdict import Measurement, percent
from weir.run.quantity import ONE, Dimension

__all__ = ["Comparison"]

_MOST_CHOICES = 64
"""A comparison with more combinations of candidates of ``min``, ``max`` and ``abs`` has no interval."""


@dataclass
class Comparison:
    """Evaluates one comparison."""

    source: Source
    node: Node
    level: float = 0.95

    def measure(self, context: Context, shown: Mapping[str, str]) -> Measurement:
        """Evaluates the comparison at the point that ``context`` fixes; ``shown`` are the factors that label it."""
        self.source.missing = False
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
        decision = decide(sides, margin_ci, certain=self._is_plain(), missing=self.source.missing)
        few = ""
        if math.isinf(margin_ci[0]) and math.isinf(margin_ci[1]):
            margin_ci, few = NO_INTERVAL, f"{len(repeats)} repeats do not bound a median at {percent(self.level)}"
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
            note="; ".join(filter(None, [decision.note, few, missing])),
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
            for call in repeat_calls(self.node):
                return self._over_repeats(sides, call, context)
            if isinstance(self.node, Compare):
                for side in (self.node.left, self.node.right):
                    if isinstance(side, Call) and side.function == "rank":
                        return self._of_rank(sides, side, context, repeats)
            return self._of_repeats(sides, context, repeats)
        except UndecidedError:
            return NO_INTERVAL, NO_INTERVAL

    def _of_repeats(self, sides: Sides, context: Context, repeats: Sequence[int]) -> tuple[Range, Range]:
        """The intervals of value and margin.

        ``min``, ``max`` and ``abs`` are not smooth: where one candidate is returned by a hair, the values on subsets of
        the repeats say nothing of another one that might be. So the intervals are those around all candidates that
        may be the smallest or largest.
        """
        resampling = Resampling.of(self.node, repeats, self.level)
        found = [
            self._around(Amounts(self.source, chosen), resampling, context, sides.scale)
            for chosen in self._choices(resampling, context, sides.scale)
        ]
        one = len(picks(self.node)) == 1
        values = _combined(sides.value.value, [(whole.value.value, ends) for whole, ends, _ in found], one)
        margins = _combined(sides.margin.value, [(whole.margin.value, ends) for whole, _, ends in found], one)
        return values, margins

    def _around(
        self, amounts: Amounts, resampling: Resampling, context: Context, scale: float
    ) -> tuple[Sides, Range, Range]:
        whole = self._sides(context, amounts)
        parts = [self._sides(part, amounts) for part in resampling.contexts(context)]
        margins = [
            resampling.interval(margin, [p.margins[i] for p in parts], scale) for i, margin in enumerate(whole.margins)
        ]
        return whole, resampling.interval(whole.value, [p.value for p in parts], scale), whole.combine(margins)

    def _choices(self, resampling: Resampling, context: Context, scale: float) -> Iterator[dict[Call, int]]:
        """The combinations of candidates that calls in the comparison may return.

        Raises:
            UndecidedError: there are too many.
        """
        calls = picks(self.node)
        possible = [self._possible(call, resampling, context, scale) for call in calls]
        if math.prod(map(len, possible)) > _MOST_CHOICES:
            raise UndecidedError("too many of the compared values may be the smallest or largest")
        for places in itertools.product(*possible):
            yield dict(zip(calls, places, strict=True))

    def _possible(self, call: Call, resampling: Resampling, context: Context, scale: float) -> list[int]:
        """The candidates of a call that no other one surely precedes."""
        sign = -1.0 if call.function == "min" else 1.0
        every = [self._amounts.candidates(call, part) for part in (context, *resampling.contexts(context))]

        def surely_behind(one: int, other: int) -> bool:
            ahead, *others = (arithmetic("-", amounts[other], amounts[one]) for amounts in every)
            low, high = resampling.interval(ahead, others, scale)
            return (low if sign > 0 else -high) > 0

        places = range(len(every[0]))
        return [one for one in places if not any(surely_behind(one, other) for other in places if other != one)]

    def _over_repeats(self, sides: Sides, call: Call, context: Context) -> tuple[Range, Range]:
        """The intervals with a function over repeats, beside which a comparison has constants only."""
        ends = repeat_interval(self._amounts, call, context, self.level)
        if math.isinf(ends[0]) or math.isinf(ends[1]):
            return NO_INTERVAL, (-math.inf, math.inf)
        whole = self._amounts.amount(call, context)
        given = (Amounts(self.source, given={call: replace(whole, value=end)}) for end in ends)
        moved = [[margin.value for margin in self._sides(context, amounts).margins] for amounts in given]
        return ends, sides.combine([(min(pair), max(pair)) for pair in zip(*moved, strict=True)])

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

    def _sides(self, context: Context, amounts: Amounts | None = None) -> Sides:
        return sides_of(amounts or self._amounts, self.node, context)

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


def _combined(actual: float, found: Sequence[tuple[float, Range]], one: bool) -> Range:
    """The interval of a number, from its value and interval with each candidate.

    With ``one`` call among candidates, the number is the smallest or the largest of its values, and so are the ends of
    its interval. With several calls, the interval holds all of theirs.
    """
    values, lows, highs = [v for v, _ in found], [low for _, (low, _) in found], [high for _, (_, high) in found]
    if any(map(math.isnan, (*lows, *highs))):
        return NO_INTERVAL
    if one and actual == min(values) < max(values):
        return min(lows), min(highs)
    if one and actual == max(values) > min(values):
        return max(lows), max(highs)
    return min(lows), max(highs)
