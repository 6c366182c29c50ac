"""Numbers during the evaluation of a check: value, dimension, and kind of bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from weir.metrics.bounds import ANY, Bounds, after
from weir.metrics.statistics import over_time
from weir.run.quantity import ONE, Dimension

__all__ = ["Amount", "Bound", "MissingError", "UndecidedError", "aggregate", "arithmetic", "fit"]

Bound = Literal["exact", "more", "less", "unknown"]
"""The true value is this one; at least this one; at most this one; or unknown, after arithmetic on a bound."""


class UndecidedError(Exception):
    """A part of a check is undefined on this run; the message says why."""


class MissingError(UndecidedError):
    """The cell of a value was not executed, in a sweep without repeats: its value may be any."""


@dataclass(frozen=True)
class Amount:
    """A number in base units."""

    value: float
    dimension: Dimension
    bound: Bound = "exact"
    bounds: Bounds = ANY
    """Bounds of the value for any run."""

    def __neg__(self) -> Amount:
        flipped: dict[Bound, Bound] = {"exact": "exact", "more": "less", "less": "more", "unknown": "unknown"}
        return Amount(-self.value, self.dimension, flipped[self.bound], -self.bounds)

    def __abs__(self) -> Amount:
        bound: Bound = "exact" if self.bound == "exact" else "unknown"
        return Amount(abs(self.value), self.dimension, bound, abs(self.bounds))


def _both(one: Bound, other: Bound) -> Bound:
    if "exact" in (one, other):
        return other if one == "exact" else one
    return one if one == other else "unknown"


def arithmetic(operator: str, left: Amount, right: Amount) -> Amount:
    """``left operator right``.

    Raises:
        UndecidedError: the divisor is zero, or the result overflows.
    """
    if operator == "+":
        bounds = left.bounds + right.bounds
        total = _finite(left.value + right.value)
        return Amount(total, left.dimension, _both(left.bound, right.bound), bounds)
    if operator == "-":
        return arithmetic("+", left, -right)
    sign = 1 if operator == "*" else -1
    dimension = (
        left.dimension[0] + sign * right.dimension[0],
        left.dimension[1] + sign * right.dimension[1],
    )
    bound: Bound = left.bound if right.bound == "exact" and right.value > 0 else "unknown"
    if left.bound == right.bound == "exact":
        bound = "exact"
    if operator == "*":
        if left.bound == "exact" and left.value > 0:
            bound = right.bound
        return Amount(_finite(left.value * right.value), dimension, bound, left.bounds * right.bounds)
    if right.value == 0:
        raise UndecidedError("a division by zero")
    return Amount(_finite(left.value / right.value), dimension, bound, left.bounds / right.bounds)


def _finite(value: float) -> float:
    if math.isinf(value):
        raise UndecidedError("a result too large for a number")
    return value


def aggregate(function: str, amounts: Sequence[Amount]) -> Amount:
    """``min``, ``max``, ``mean``, ``median``, ``sum``, ``sd``, ``cov`` or ``spread`` of at least one amount.

    Deviations are of the population, as for all members.
    """
    values = np.array([a.value for a in amounts], dtype=np.float64)
    dimension = ONE if function == "cov" else amounts[0].dimension
    with np.errstate(over="ignore", invalid="ignore"):
        value = float(np.ptp(values)) if function == "spread" else over_time(values, function)
    _finite(value)
    bounds = {a.bound for a in amounts} - {"exact"}
    bound: Bound = "exact"
    if bounds:
        rising = function in ("min", "max", "mean", "median", "sum") and len(bounds) == 1
        bound = bounds.pop() if rising else "unknown"
    return Amount(value, dimension, bound, _bounds_of(function, [a.bounds for a in amounts]))


def _bounds_of(function: str, bounds: Sequence[Bounds]) -> Bounds:
    if function == "sum":
        return Bounds(sum(b.low for b in bounds), sum(b.high for b in bounds))
    return after(function, Bounds(min(b.low for b in bounds), max(b.high for b in bounds)))


def fit(function: str, x: Sequence[float], y: Sequence[float]) -> float:
    """``slope``, ``intercept``, ``r2`` (least squares) or ``spearman`` (rank correlation) of y against x.

    Raises:
        UndecidedError: fewer than two different x, or fewer than three points for ``r2`` and ``spearman``.
    """
    if len(set(x)) < 2:
        raise UndecidedError(f"{function} needs at least two different values of the factor")
    if function in ("r2", "spearman") and len(x) < 3:
        raise UndecidedError(f"{function} of two points says nothing; it needs three values of the factor")
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if function == "spearman":
        return _correlation(_ranks(a), _ranks(b))
    slope = float(np.sum((a - a.mean()) * (b - b.mean())) / np.sum((a - a.mean()) ** 2))
    if function == "slope":
        return slope
    if function == "intercept":
        return float(b.mean() - slope * a.mean())
    return _correlation(a, b) ** 2


def _correlation(a: np.typing.NDArray[np.float64], b: np.typing.NDArray[np.float64]) -> float:
    scale = math.sqrt(float(np.sum((a - a.mean()) ** 2) * np.sum((b - b.mean()) ** 2)))
    if scale == 0:
        raise UndecidedError("the values are all the same, so that no correlation is defined")
    return float(np.sum((a - a.mean()) * (b - b.mean()))) / scale


def _ranks(values: np.typing.NDArray[np.float64]) -> np.typing.NDArray[np.float64]:
    """Ranks from 1; ties share their mean rank."""
    return np.array([np.sum(values < v) + (np.sum(values == v) + 1) / 2 for v in values], dtype=np.float64)
