"""Statistics: over time, over members, over repeats.

Over time and over members, deviations are of the population (divided by N), as in the thesis' equation 2.6. Over
repeats, they are of a sample (divided by n - 1), and the confidence interval is

- ``t``: mean ± t(n-1, (1 + level)/2) · s / sqrt(n), which assumes repeats that are independent and about normal;
- ``bootstrap``: percentiles of the means of 10 000 resamples drawn with a fixed seed; it assumes independence only, and
  is too narrow below about ten repeats.

One repeat has no interval: both ends are ``nan`` (null in a frame). An undefined repeat is left out and lowers ``n``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from weir.metrics.errors import MetricError
from weir.metrics.results import Floats

__all__ = ["Interval", "Summary", "jackknife", "over_members", "over_time", "student_t", "summarise"]

Interval = Literal["t", "bootstrap"]

_RESAMPLES = 10_000
_SEED = 20_060


@dataclass(frozen=True)
class Summary:
    """A mean over ``n`` repeats, its standard deviation and confidence interval (``nan`` where undefined)."""

    mean: float
    sd: float
    n: int
    low: float
    high: float


def student_t(level: float, freedom: int) -> float:
    """The half width factor of a two-sided interval of Student's t.

    Raises:
        ValueError: ``level`` is not between 0 and 1, or ``freedom`` is not positive.
    """
    if not 0 < level < 1 or freedom < 1:
        raise ValueError(f"level {level} and {freedom} degrees of freedom: expected 0 < level < 1 and at least one")
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + level) / 2))


def summarise(values: Floats, level: float = 0.95, interval: Interval = "t") -> Summary:
    """Mean, deviation and confidence interval over repeats; ``values`` has shape (repeats,), undefined ones ``nan``.

    Raises:
        ValueError: no such interval, or a level outside 0 to 1.
    """
    if interval not in ("t", "bootstrap"):
        raise ValueError(f"no interval {interval!r}; there are 't' and 'bootstrap'")
    if not 0 < level < 1:
        raise ValueError(f"level {level}: expected a number between 0 and 1, such as 0.95")
    values = values[~np.isnan(values)]
    n = len(values)
    if n == 0:
        return Summary(math.nan, math.nan, 0, math.nan, math.nan)
    mean = float(np.mean(values))
    if n == 1:
        return Summary(mean, math.nan, 1, math.nan, math.nan)
    sd = float(np.std(values, ddof=1))
    if interval == "t":
        half = student_t(level, n - 1) * sd / math.sqrt(n)
        return Summary(mean, sd, n, mean - half, mean + half)
    draws = np.random.default_rng(_SEED).choice(values, size=(_RESAMPLES, n)).mean(axis=1)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Summary(mean, sd, n, float(low), float(high))


def jackknife(all_: float, without: Floats, level: float = 0.95) -> tuple[float, float]:
    """Confidence interval of any function of means over repeats (Tukey 1958), around its value on all of them.

    ``without[k]`` is the function with repeat k left out. For a linear function it is Student's interval exactly.
    Fewer than two repeats, or an undefined value: ``nan`` twice.
    """
    n = len(without)
    if n < 2 or not np.all(np.isfinite(without)) or not math.isfinite(all_):
        return math.nan, math.nan
    error = math.sqrt((n - 1) / n * float(np.sum((without - np.mean(without)) ** 2)))
    half = student_t(level, n - 1) * error
    return all_ - half, all_ + half


def over_time(values: Floats, stat: str, weights: Floats | None = None) -> float:
    """A statistic of one series; undefined instants are left out, an empty series is ``nan``.

    Raises:
        MetricError: no such statistic.
    """
    defined = ~np.isnan(values)
    if weights is not None:
        defined &= weights > 0
    values = values[defined]
    if len(values) == 0:
        return math.nan
    if weights is not None and stat not in ("max", "min", "sum", "last"):
        return _weighted(values, weights[defined], stat)
    return _plain(values, stat)


def over_members(values: Floats, stat: str) -> float:
    """How the members of a group make one value: ``min``, ``max`` and ``sum`` are that, all else is their mean."""
    return over_time(values, stat if stat in ("min", "max", "sum") else "mean")


_SIMPLE: dict[str, Callable[[Floats], float]] = {
    "mean": lambda v: float(np.mean(v)),
    "max": lambda v: float(np.max(v)),
    "min": lambda v: float(np.min(v)),
    "sd": lambda v: float(np.std(v)),
    "var": lambda v: float(np.var(v)),
    "cov": lambda v: float(np.std(v) / np.mean(v)) if np.mean(v) else math.nan,
    "median": lambda v: float(np.median(v)),
    "last": lambda v: float(v[-1]),
    "sum": lambda v: float(np.sum(v)),
}


def _plain(values: Floats, stat: str) -> float:
    if stat in _SIMPLE:
        return _SIMPLE[stat](values)
    return float(np.quantile(values, _quantile(stat)))


def _weighted(values: Floats, weights: Floats, stat: str) -> float:
    mean = float(np.average(values, weights=weights))
    if stat == "mean":
        return mean
    if stat in ("sd", "var", "cov"):
        variance = float(np.average((values - mean) ** 2, weights=weights))
        return {"var": variance, "sd": math.sqrt(variance), "cov": math.sqrt(variance) / mean if mean else math.nan}[
            stat
        ]
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    at = int(np.searchsorted(reached, _quantile(stat) * reached[-1]))
    return float(values[order[min(at, len(order) - 1)]])


def _quantile(stat: str) -> float:
    if stat == "median":
        return 0.5
    try:
        return float(stat.removeprefix("p").replace("_", ".")) / 100
    except ValueError as error:
        raise MetricError(f"no statistic {stat!r}") from error
