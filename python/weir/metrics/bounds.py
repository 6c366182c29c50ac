"""What values a quantity can have at all: a share is between 0 and 1, a rate not negative.

Bounds go through arithmetic as intervals do (Moore, Interval Analysis, 1966), so that the ratio of two rates is not
negative and the difference of two shares is at most 1. A confidence interval is cut at them: the true mean lies within,
so that the interval covers it as often as before (Mandelkern, Statistical Science 17(2), 2002, section 2). A transform
(the logit of a share) would keep within the bounds, too, but it is undefined where a repeat is at its bound, which
Jain's index, utilisation and loss rates often are, and its interval is not one of the mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["ANY", "NON_NEGATIVE", "SHARE", "Bounds", "after"]


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest value that a quantity can have; both may be infinite."""

    low: float = -math.inf
    high: float = math.inf

    def __neg__(self) -> Bounds:
        return Bounds(-self.high, -self.low)

    def __add__(self, other: Bounds) -> Bounds:
        return Bounds(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Bounds) -> Bounds:
        return self + -other

    def __mul__(self, other: Bounds) -> Bounds:
        ends = [_product(a, b) for a in (self.low, self.high) for b in (other.low, other.high)]
        return Bounds(min(ends), max(ends))

    def __truediv__(self, other: Bounds) -> Bounds:
        if other.low < 0 < other.high:
            return ANY
        if other.high <= 0:
            return -self / -other
        most = math.inf if other.low == 0 else 1 / other.low
        return self * Bounds(0.0 if math.isinf(other.high) else 1 / other.high, most)

    def __abs__(self) -> Bounds:
        if self.low >= 0:
            return self
        return -self if self.high <= 0 else Bounds(0.0, max(-self.low, self.high))

    def scaled(self, factor: float) -> Bounds:
        """Of the quantity times a constant."""
        return self * Bounds(factor, factor)

    def cut(self, low: float, high: float, value: float) -> tuple[float, float]:
        """The part of an interval around ``value`` that is within the bounds.

        A value beyond them stays in its interval: utilisation counts whole packets, so that it may be 1.0004.
        """
        return max(low, min(self.low, value)), min(high, max(self.high, value))


def _product(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b  # a bound of 0 times an infinite one is 0: no value is infinite


ANY = Bounds()
NON_NEGATIVE = Bounds(0.0)
SHARE = Bounds(0.0, 1.0)


def after(statistic: str, bounds: Bounds) -> Bounds:
    """The bounds of a statistic of values with ``bounds``: a deviation is not negative, a mean where they are."""
    if statistic in ("sd", "var", "spread"):
        return NON_NEGATIVE
    if statistic in ("sum", "cov"):
        return NON_NEGATIVE if bounds.low >= 0 else ANY
    return bounds
