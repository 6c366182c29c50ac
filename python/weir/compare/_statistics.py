"""The difference of two means over repeats, with its confidence interval.

- **paired**, where repeat k of one run and repeat k of the other were executed with the same seed, so that they got
  the same workload: with d_k = b_k - a_k, the interval is mean(d) ± t(n-1, (1+level)/2) · s_d / sqrt(n) (Student 1908;
  Jain, The Art of Computer Systems Performance Analysis, 1991, section 13.4.1).
- **welch** otherwise: (mean(b) - mean(a)) ± t(ν, (1+level)/2) · sqrt(s_a²/n_a + s_b²/n_b) with the degrees of freedom
  ν = (s_a²/n_a + s_b²/n_b)² / ((s_a²/n_a)²/(n_a-1) + (s_b²/n_b)²/(n_b-1)) (Welch, Biometrika 34, 1947; Satterthwaite,
  Biometrics Bulletin 2, 1946). The variances need not be equal.

All deviations are of a sample (n - 1). Both assume means that are about normal. With one repeat on a side there is no
interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from weir.metrics.results import Floats
from weir.metrics.statistics import student_t

__all__ = ["Difference", "Kind", "difference"]

Kind = Literal["paired", "welch", "none"]


@dataclass(frozen=True)
class Difference:
    """``b`` less ``a``; ``nan`` where undefined."""

    a: float
    b: float
    difference: float
    low: float
    high: float
    n_a: int
    n_b: int
    kind: Kind
    """How the interval was made."""

    @property
    def ratio(self) -> float:
        """``b`` over ``a``; 1 where both are 0."""
        if self.a == 0:
            return 1.0 if self.b == 0 else math.copysign(math.inf, self.b) if self.b == self.b else math.nan
        return self.b / self.a


def difference(a: Floats, b: Floats, *, paired: bool, level: float = 0.95) -> Difference:
    """The difference of the means of ``a`` and ``b``, of shape (repeats,); an undefined repeat (nan) is left out.

    With ``paired``, both have the same length, and an undefined repeat takes its partner with it.

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
    half, kind = _paired(b - a, level) if paired else _welch(a, b, level)
    return Difference(_mean(a), _mean(b), d, d - half, d + half, len(a), len(b), kind)


def _mean(values: Floats) -> float:
    return float(np.mean(values)) if len(values) else math.nan


def _paired(d: Floats, level: float) -> tuple[float, Kind]:
    n = len(d)
    if n < 2:
        return math.nan, "none"
    return student_t(level, n - 1) * float(np.std(d, ddof=1)) / math.sqrt(n), "paired"


def _welch(a: Floats, b: Floats, level: float) -> tuple[float, Kind]:
    if len(a) < 2 or len(b) < 2:
        return math.nan, "none"
    u, v = (float(np.var(x, ddof=1)) / len(x) for x in (a, b))
    if u + v == 0:
        return 0.0, "welch"
    share = u / (u + v)  # ν with both parts divided by their sum: squares of small variances would vanish
    freedom = 1 / (share**2 / (len(a) - 1) + (1 - share) ** 2 / (len(b) - 1))
    return _t(level, freedom) * math.sqrt(u + v), "welch"


def _t(level: float, freedom: float) -> float:
    """Student's t for degrees of freedom that need not be whole."""
    if not 0 < level < 1:
        raise ValueError(f"level {level}: expected a number between 0 and 1, such as 0.95")
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + level) / 2))
