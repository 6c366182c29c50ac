"""The difference and the ratio of two means over repeats, with their confidence intervals.

- **paired**, if repeats of both runs were executed with the same seeds and so got the same workload: with
  d_k = b_k - a_k over the common seeds, the interval is mean(d) ± t(n-1, (1+level)/2) · s_d / sqrt(n) (Student
  1908; Jain, The Art of Computer Systems Performance Analysis, 1991, section 13.4.1).
- **welch** otherwise: (mean(b) - mean(a)) ± t(ν, (1+level)/2) · sqrt(s_a²/n_a + s_b²/n_b) with the degrees of freedom
  ν = (s_a²/n_a + s_b²/n_b)² / ((s_a²/n_a)²/(n_a-1) + (s_b²/n_b)²/(n_b-1)) (Welch, Biometrika 34, 1947; Satterthwaite,
  Biometrics Bulletin 2, 1946). The variances need not be equal.

The ratio of the means has the interval of Fieller (Journal of the Royal Statistical Society B 16, 1954): all θ for
which mean(b) - θ mean(a) does not differ from zero, by the same t, variances and covariance. So it excludes 1 exactly
if the interval of the difference excludes 0. It is unbounded if mean(a) itself may be zero.

All deviations are of a sample (n - 1). Both assume about normal means. With one repeat on a side there is no interval.
Intervals are cut at the bounds of the metric (:mod:`weir.metrics.bounds`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from weir.metrics.bounds import ANY, Bounds
from weir.metrics.results import Floats
from weir.metrics.statistics import alike, student_t

__all__ = ["Difference", "Kind", "difference"]

Kind = Literal["paired", "welch", "none"]


@dataclass(frozen=True)
class Difference:
    """``b`` minus ``a``; ``nan`` if undefined."""

    a: float
    b: float
    difference: float
    low: float
    high: float
    n_a: int
    n_b: int
    kind: Kind
    """Kind of the interval."""
    ratio_low: float = math.nan
    ratio_high: float = math.nan
    """Interval of ``b`` over ``a``; infinite if unbounded."""

    @property
    def ratio(self) -> float:
        """``b`` over ``a``; 1 if both are 0."""
        if self.a == 0:
            return 1.0 if self.b == 0 else math.copysign(math.inf, self.b) if self.b == self.b else math.nan
        return self.b / self.a

    @property
    def same(self) -> bool:
        """Whether all repeats have the same difference."""
        return self.kind != "none" and self.low == self.high


@dataclass(frozen=True)
class _Moments:
    """Variances and covariance of two means, and the factor of Student's t for their difference."""

    a: float
    b: float
    both: float
    t: float
    kind: Kind


def difference(a: Floats, b: Floats, *, paired: bool, level: float = 0.95, bounds: Bounds = ANY) -> Difference:
    """The difference of the means of ``a`` and ``b``, of shape (repeats,); undefined repeats (nan) are left out.

    With ``paired``, both have the same length, and an undefined repeat removes its partner. ``bounds`` limit the
    values, such as 0 and 1 for shares.

    Raises:
        ValueError: the lengths of pairs differ, or the level is not between 0 and 1.
    """
    if paired:
        if len(a) != len(b):
            raise ValueError(f"pairs of {len(a)} and {len(b)} repeats")
        both = ~(np.isnan(a) | np.isnan(b))
        a, b = a[both], b[both]
    else:
        a, b = a[~np.isnan(a)], b[~np.isnan(b)]
    if len(a) == 0 or len(b) == 0:
        return Difference(_mean(a), _mean(b), math.nan, math.nan, math.nan, len(a), len(b), "none")
    d = float(np.mean(b - a)) if paired else _mean(b) - _mean(a)
    moments = _pairs(a, b, level) if paired else _welch(a, b, level)
    half = moments.t * math.sqrt(max(moments.a + moments.b - 2 * moments.both, 0.0))
    if paired and _same_difference(a, b):
        half = 0.0
    low, high = (bounds - bounds).cut(d - half, d + half, d)
    ratio = _fieller(_mean(a), _mean(b), moments, bounds / bounds) if moments.kind != "none" else (math.nan, math.nan)
    return Difference(_mean(a), _mean(b), d, low, high, len(a), len(b), moments.kind, *ratio)


def _mean(values: Floats) -> float:
    return float(np.mean(values)) if len(values) else math.nan


_NONE = _Moments(math.nan, math.nan, math.nan, math.nan, "none")


def _same_difference(a: Floats, b: Floats) -> bool:
    """Whether all pairs have the same difference, up to rounding."""
    return len(a) > 1 and float(np.ptp(b - a)) <= 1e-9 * max(float(np.max(np.abs(a))), float(np.max(np.abs(b))))


def _pairs(a: Floats, b: Floats, level: float) -> _Moments:
    n = len(a)
    if n < 2:
        return _NONE
    covariance = np.cov(a, b) / n
    return _Moments(
        float(covariance[0, 0]), float(covariance[1, 1]), float(covariance[0, 1]), student_t(level, n - 1), "paired"
    )


def _welch(a: Floats, b: Floats, level: float) -> _Moments:
    if len(a) < 2 or len(b) < 2:
        return _NONE
    u, v = (0.0 if alike(x) else float(np.var(x, ddof=1)) / len(x) for x in (a, b))
    if u + v == 0:
        return _Moments(0.0, 0.0, 0.0, student_t(level, 1), "welch")
    share = u / (u + v)  # ν with both parts divided by their sum: squares of small variances would underflow
    freedom = 1 / (share**2 / (len(a) - 1) + (1 - share) ** 2 / (len(b) - 1))
    return _Moments(u, v, 0.0, student_t(level, max(freedom, 1.0)), "welch")


def _fieller(a: float, b: float, moments: _Moments, bounds: Bounds) -> tuple[float, float]:
    """All θ with (b - θ a)² <= t² (var b - 2 θ cov + θ² var a): between the roots, if a is significantly not 0."""
    t2 = moments.t**2
    square, middle, constant = a * a - t2 * moments.a, a * b - t2 * moments.both, b * b - t2 * moments.b
    if a == 0 or square <= 1e-12 * a * a:
        return bounds.low, bounds.high
    root = math.sqrt(max(middle**2 - square * constant, 0.0))
    return bounds.cut((middle - root) / square, (middle + root) / square, b / a)
