"""Statistics: over time, over members, over repeats.

Over time and over members, deviations are of the population (divided by N), as in the thesis' equation 2.6. Over
repeats, they are of a sample (divided by n - 1), and the confidence interval is

- ``t``: mean ± t(n-1, (1 + level)/2) · s / sqrt(n), which assumes independent, about normal repeats;
- ``bootstrap``: percentiles of the means of 10 000 resamples drawn with a fixed seed; it assumes independence only, and
  is too narrow below about ten repeats.

One repeat has no interval: both ends are ``nan`` (null in a frame). An undefined repeat is left out and lowers ``n``.
If all repeats have the same value, up to rounding, the interval is that value. Intervals are cut at the bounds of their
quantity (:mod:`weir.metrics.bounds`).

A quantile of a sample, such as the median error of many cells, has a distribution-free interval between two order
statistics (:func:`quantile_interval`). A share of repeats has that of a proportion (:func:`proportion_interval`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from weir.metrics.bounds import ANY, Bounds
from weir.metrics.errors import MetricError
from weir.metrics.results import Floats, Histogram

__all__ = [
    "Interval",
    "Summary",
    "alike",
    "jackknife",
    "of_bins",
    "over_members",
    "over_time",
    "proportion_interval",
    "quantile_interval",
    "single_repeats",
    "student_t",
    "summarise",
]

Interval = Literal["t", "bootstrap"]

_ROUNDING = 1e-9
"""Relative difference up to which two values count as equal: sums over a million intervals are exact to some 1e-10."""

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

    @property
    def same(self) -> bool:
        """Whether all of at least two repeats have the same value."""
        return self.n > 1 and self.low == self.high


def student_t(level: float, freedom: float) -> float:
    """Half-width factor of a two-sided interval of Student's t; Welch's degrees of freedom need not be whole.

    Raises:
        ValueError: ``level`` is not between 0 and 1, or ``freedom`` is less than 1.
    """
    if not 0 < level < 1 or freedom < 1:
        raise ValueError(f"level {level} and {freedom} degrees of freedom: expected 0 < level < 1 and at least one")
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + level) / 2))


def alike(values: Floats) -> bool:
    """Whether all values are equal up to rounding."""
    return len(values) > 0 and float(np.ptp(values)) <= _ROUNDING * float(np.max(np.abs(values)))


def summarise(values: Floats, level: float = 0.95, interval: Interval = "t", bounds: Bounds = ANY) -> Summary:
    """Mean, deviation and confidence interval over repeats; ``values`` has shape (repeats,), undefined ones ``nan``.

    The interval is cut at ``bounds``, such as 0 and 1 for a share.

    Raises:
        ValueError: ``interval`` is unknown, or ``level`` is not between 0 and 1.
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
    if alike(values):
        return Summary(mean, 0.0, n, mean, mean)
    sd = float(np.std(values, ddof=1))
    if interval == "t":
        half = student_t(level, n - 1) * sd / math.sqrt(n)
        return Summary(mean, sd, n, *bounds.cut(mean - half, mean + half, mean))
    draws = np.random.default_rng(_SEED).choice(values, size=(_RESAMPLES, n)).mean(axis=1)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Summary(mean, sd, n, float(low), float(high))


def jackknife(all_: float, without: Floats, level: float = 0.95, scale: float = 0.0) -> tuple[float, float]:
    """Confidence interval of any function of means over repeats (Tukey 1958), around its value on all of them.

    ``without[k]`` is the function with repeat k left out. For a linear function the interval is Student's exactly; a
    smooth function is treated as linear near its value (Miller, Biometrika 61, 1974). A width within the rounding of
    numbers of size ``scale`` counts as 0: all repeats are equal. Fewer than two repeats, or an undefined value: ``nan``
    twice.
    """
    n = len(without)
    if n < 2 or not np.all(np.isfinite(without)) or not math.isfinite(all_):
        return math.nan, math.nan
    error = math.sqrt((n - 1) / n * float(np.sum((without - np.mean(without)) ** 2)))
    return _around(all_, student_t(level, n - 1) * error, scale)


def single_repeats(all_: float, each: Floats, level: float = 0.95, scale: float = 0.0) -> tuple[float, float]:
    """Student's interval around ``all_`` for a function that is not smooth, such as a rank correlation.

    ``each[k]`` is the function of repeat k alone; otherwise as :func:`jackknife`.
    """
    n = len(each)
    if n < 2 or not np.all(np.isfinite(each)) or not math.isfinite(all_):
        return math.nan, math.nan
    return _around(all_, student_t(level, n - 1) * float(np.std(each, ddof=1)) / math.sqrt(n), scale)


def _around(value: float, half: float, scale: float) -> tuple[float, float]:
    return (value, value) if half <= _ROUNDING * scale else (value - half, value + half)


def quantile_interval(values: Floats, part: float, level: float = 0.95) -> tuple[float, float]:
    """Confidence interval of the quantile ``part`` of the population that ``values`` sample: two order statistics.

    Let K ~ Binomial(n, part) be the number of values below the quantile. The interval from the l-th to the u-th value
    covers the quantile with P(l <= K < u) >= level (Hahn and Meeker, Statistical Intervals, 1991, section 5.2; Le
    Boudec, Performance Evaluation of Computer and Communication Systems, 2010, theorem 2.1). l and u leave at most half
    of the remaining probability at each end. An end that the sample cannot give is infinite: below 6 values, the median
    has no two-sided interval at 95 %. Undefined values are left out.

    Raises:
        ValueError: ``part`` or ``level`` is not between 0 and 1.
    """
    if not 0 < part < 1 or not 0 < level < 1:
        raise ValueError(f"part {part}, level {level}: expected numbers between 0 and 1")
    from scipy.stats import binom

    ordered = np.sort(values[~np.isnan(values)])
    n = len(ordered)
    if n == 0:
        return math.nan, math.nan
    tail = (1 - level) / 2
    below = binom.cdf(np.arange(n + 1), n, part)  # P(K <= k)
    low = int(np.searchsorted(below, tail, side="right"))  # the largest l with P(K < l) <= tail
    high = int(np.searchsorted(below, 1 - tail)) + 1  # the smallest u with P(K >= u) <= tail
    return (
        float(ordered[low - 1]) if low >= 1 else -math.inf,
        float(ordered[high - 1]) if high <= n else math.inf,
    )


def proportion_interval(count: int, of: int, level: float = 0.95) -> tuple[float, float]:
    """Confidence interval of the probability of an event that came in ``count`` of ``of`` independent trials.

    It is exact (Clopper and Pearson, Biometrika 26, 1934): at least ``level``, whatever the probability.

    Raises:
        ValueError: ``level`` is not between 0 and 1, or ``count`` is not between 0 and ``of``.
    """
    if not 0 < level < 1 or not 0 <= count <= of or of == 0:
        raise ValueError(f"{count} of {of}, level {level}: expected a part of at least one trial, and 0 < level < 1")
    from scipy.stats import beta

    tail = (1 - level) / 2
    low = float(beta.ppf(tail, count, of - count + 1)) if count else 0.0
    high = float(beta.ppf(1 - tail, count + 1, of - count)) if count < of else 1.0
    return low, high


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


def of_bins(histograms: Sequence[Histogram], stat: str) -> float:
    """A statistic of all values of ``histograms`` together; ``nan`` without values.

    The mean, the sum and the extremes are exact. A percentile is the middle of the bin that holds the value of that
    rank, or an extreme if that is nearer. Deviations place each value at the middle of its bin.

    Raises:
        MetricError: no such statistic, or one that needs an order.
    """
    counts = np.concatenate([h.counts for h in histograms]) if histograms else np.zeros(0)
    number = float(counts.sum())
    if number == 0:
        return math.nan
    total = math.fsum(h.total for h in histograms)
    extremes = [v for h in histograms for v in (h.least, h.greatest) if not math.isnan(v)]
    exact = {"mean": total / number, "sum": total, "min": min(extremes), "max": max(extremes)}
    if stat in exact:
        return exact[stat]
    if stat == "last":
        raise MetricError("values that are counted in bins have no last one")
    middles = np.concatenate([(h.low + h.high) / 2 for h in histograms])
    return _weighted(np.clip(middles, exact["min"], exact["max"]), counts, stat)


def over_members(values: Floats, stat: str) -> float:
    """Combines the members of a group: by ``min``, ``max`` or ``sum`` if ``stat`` is one of them, else by the mean."""
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
