"""The range that a quantity is confined to: a share lies between 0 and 1, a rate is not negative.

Bounds propagate through arithmetic as intervals do (Moore, Interval Analysis, 1966): the ratio of two rates is not
negative, the difference of two shares is at most 1. A confidence interval is cut at its bounds. The true mean lies
within them, so the cut interval keeps its coverage (Mandelkern, Statistical Science 17(2), 2002, section 2). A
transform such as the logit of a share would also stay within the bounds. But it is undefined where a repeat lies on its
bound, as Jain's index, utilisation and loss rates often do, and its interval is not one of the mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["ANY", "NON_NEGATIVE", "SHARE", "Bounds", "after"]


@dataclass(frozen=True)
class Bounds:
    """The smallest and the largest value of a quantity; both may be infinite."""

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
        """The bounds of the quantity times a constant."""
        return self * Bounds(factor, factor)

    def cut(self, low: float, high: float, value: float) -> tuple[float, float]:
        """Cuts an interval around ``value`` at the bounds.

        A value beyond the bounds stays in its interval: utilisation counts whole packets and may reach 1.0004.
        """
        return max(low, min(self.low, value)), min(high, max(self.high, value))


def _product(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b  # 0 times an infinite bound is 0: no value is infinite


ANY = Bounds()
NON_NEGATIVE = Bounds(0.0)
SHARE = Bounds(0.0, 1.0)


def after(statistic: str, bounds: Bounds) -> Bounds:
    """The bounds of a statistic of values with ``bounds``: 0 or more for a deviation, the same for a mean."""
    if statistic in ("sd", "var", "spread"):
        return NON_NEGATIVE
    if statistic in ("sum", "cov"):
        return NON_NEGATIVE if bounds.low >= 0 else ANY
    return bounds
