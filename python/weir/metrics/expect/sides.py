"""The numbers of a comparison, and the outcome that they and their intervals give.

A comparison holds or fails if the confidence interval of its margin excludes zero. If the interval includes zero, the
comparison is undecided: the repeats differ by more than the margin. The interval has two sides, so that at 95 % a false
comparison holds in at most 2.5 % of cases, and a true one fails in at most 2.5 %. ``within`` and ``between`` are two
comparisons each, both of which must hold, which needs no correction (Berger, Technometrics 24, 1982; for equivalence,
Schuirmann's two one-sided tests, J. Pharmacokinetics and Biopharmaceutics 15, 1987).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from weir.metrics.expect.syntax import Within
from weir.metrics.expect.values import Amount, Bound, UndecidedError, arithmetic
from weir.metrics.expect.verdict import Outcome

__all__ = ["NO_INTERVAL", "Decision", "Range", "Sides", "compare", "decide", "lies_between", "lies_within"]

Range = tuple[float, float]
NO_INTERVAL: Range = (math.nan, math.nan)

_CLOSE = 1e-9
"""Relative difference up to which two floating-point sums count as equal."""


@dataclass(frozen=True)
class Sides:
    """The value, the threshold, and the margins of a comparison."""

    value: Amount
    threshold: Amount
    margins: tuple[Amount, ...]
    """Each is positive if its part of the comparison holds."""
    either: bool = False
    """Whether one part suffices (``!=``); else all must hold."""
    strict: bool = False
    tolerance: float = 0.0
    """How far the value may be from the threshold, on either side; 0 for a threshold on one side."""

    @property
    def margin(self) -> Amount:
        """The margin of the comparison as a whole."""
        pick = max if self.either else min
        return pick(self.margins, key=lambda m: m.value)

    @property
    def bound(self) -> Bound:
        """Kind of bound that the margin is: that of its only part, or unknown if one of several parts is a bound."""
        if len(self.margins) == 1:
            return self.margins[0].bound
        return "exact" if all(m.bound == "exact" for m in self.margins) else "unknown"

    @property
    def scale(self) -> float:
        """Magnitude of the numbers compared; rounding is relative to it."""
        return max(abs(self.value.value), abs(self.threshold.value))

    def combine(self, ranges: list[Range]) -> Range:
        """Combines the intervals of the parts into the interval of the margin."""
        pick = max if self.either else min
        return pick(low for low, _ in ranges), pick(high for _, high in ranges)


@dataclass(frozen=True)
class Decision:
    """The outcome of a comparison."""

    outcome: Outcome
    within_chance: bool = False
    """Undecided because the interval of the margin includes zero."""
    note: str = ""


def compare(operator: str, left: Amount, right: Amount) -> Sides:
    """The sides of ``left operator right``.

    Raises:
        UndecidedError: their dimensions differ.
    """
    if left.value != 0 and right.value != 0 and left.dimension != right.dimension:
        raise UndecidedError(f"{left.dimension} and {right.dimension} cannot be compared")
    if operator in ("<", "<="):
        return Sides(left, right, (_less(right, left),), strict=operator == "<")
    if operator in (">", ">="):
        return Sides(left, right, (_less(left, right),), strict=operator == ">")
    both = (_unknown(_less(left, right)), _unknown(_less(right, left)))
    return Sides(left, right, both, either=operator == "!=", strict=operator == "!=")


def lies_within(node: Within, left: Amount, right: Amount) -> Sides:
    """The sides of ``left within tolerance of right``."""
    share = node.tolerance.value
    allowance = Amount(share, left.dimension) if not node.tolerance.percent else _part(share, right)
    off = _less(left, right)
    margins = _unknown(arithmetic("-", allowance, off)), _unknown(arithmetic("+", allowance, off))
    return Sides(left, right, margins, tolerance=allowance.value)


def lies_between(part: Amount, low: Amount, high: Amount) -> Sides:
    """The sides of ``part between low and high``."""
    above, below = _less(part, low), _less(high, part)
    return Sides(part, low if above.value < below.value else high, (_unknown(above), _unknown(below)))


def _less(left: Amount, right: Amount) -> Amount:
    """``left - right``; exactly 0 if they are equal up to rounding."""
    found = arithmetic("-", left, right)
    if math.isclose(left.value, right.value, rel_tol=_CLOSE):
        return Amount(0.0, found.dimension, found.bound, found.bounds)
    return found


def _part(share: float, of: Amount) -> Amount:
    return Amount(share * abs(of.value), of.dimension, of.bound, abs(of.bounds).scaled(share))


def _unknown(margin: Amount) -> Amount:
    """Marks the margin as unknown: a one-sided bound does not decide a two-sided comparison."""
    return margin if margin.bound == "exact" else Amount(margin.value, margin.dimension, "unknown", margin.bounds)


def decide(sides: Sides, margin: Range, *, certain: bool = False, missing: bool = False) -> Decision:
    """Decides the outcome from the margin's interval (``nan`` without one).

    Accounts for values that are only bounds: a margin that can only grow proves what already holds. ``certain`` means
    that the margin is a mean over repeats of values that all have the same sign, so one nonzero repeat decides: a count
    that cannot be negative and was positive once is positive on average. ``missing`` means that bounds are those of
    cells that were not executed.
    """
    why = "not every cell of it was executed" if missing else "the window ended first"
    value = sides.margin.value
    truth = value > 0 if sides.strict else value >= 0
    if math.isnan(value):
        return Decision("undecided", note="undefined")
    match sides.bound:
        case "exact":
            return _by_interval(sides, margin, truth, certain=certain)
        case "more" if truth:
            return Decision("holds", note=f"at least that: {why}")
        case "less" if not truth:
            return Decision("fails", note=f"at least that: {why}")
        case _ if missing:
            return Decision("undecided", note=why)
        case _:
            return Decision("undecided", note="the window ended before the event, so that the value is only a bound")


def _by_interval(sides: Sides, margin: Range, truth: bool, *, certain: bool) -> Decision:
    low, high = margin
    if math.isnan(low) or low == high or (certain and _one_sign(sides)):
        return Decision("holds" if truth else "fails")
    if low > 0 or (low == 0 and not sides.strict):
        return Decision("holds")
    if high < 0 or (high == 0 and sides.strict):
        return Decision("fails")
    return Decision("undecided", within_chance=True)


def _one_sign(sides: Sides) -> bool:
    margin = sides.margin
    return (margin.bounds.high <= 0 and margin.value < 0) or (margin.bounds.low >= 0 and margin.value > 0)
