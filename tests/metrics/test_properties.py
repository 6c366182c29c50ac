"""Properties of fairness and distribution measures for any shares."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from weir.metrics import MetricError
from weir.metrics.distribution import histogram
from weir.metrics.fairness import alpha_fairness, jain_index
from weir.metrics.results import Histogram, Series
from weir.metrics.robustness import kolmogorov_smirnov
from weir.metrics.statistics import of_bins

from .synthetic import bin_of

Floats = NDArray[np.float64]

SHARES = st.lists(st.floats(0, 1e11), min_size=1, max_size=40).map(np.array)
SCALES = st.floats(1e-6, 1e6)


@given(SHARES)
def test_jain_is_between_one_nth_and_one(shares: Floats) -> None:
    assume(shares.max() > 0)
    index = jain_index(shares)
    assert 1 / len(shares) - 1e-9 <= index <= 1 + 1e-9


@given(SHARES, SCALES)
def test_jain_does_not_change_with_the_unit(shares: Floats, scale: float) -> None:
    assume(shares.max() > 1)
    assert jain_index(shares * scale) == pytest.approx(jain_index(shares), rel=1e-9)


@given(st.floats(1e-300, 1e300), st.integers(1, 50))
def test_jain_of_equal_shares_is_one(share: float, number: int) -> None:
    assert jain_index(np.full(number, share)) == pytest.approx(1.0)


@given(st.integers(1, 50))
def test_jain_is_one_nth_if_one_has_everything(number: int) -> None:
    assert jain_index(np.eye(number)[0]) == pytest.approx(1 / number)


def test_jain_without_anything_is_undefined() -> None:
    assert math.isnan(jain_index(np.zeros(3)))
    assert math.isnan(jain_index(np.array([])))


@given(SHARES, st.floats(0, 20))
def test_alpha_fairness_is_between_zero_and_one(shares: Floats, alpha: float) -> None:
    assume(shares.max() > 1)
    assert -1e-9 <= alpha_fairness(shares, alpha) <= 1 + 1e-6


@given(SHARES, SCALES, st.floats(0, 10))
def test_alpha_fairness_does_not_change_with_the_unit(shares: Floats, scale: float, alpha: float) -> None:
    assume(shares.max() > 1)
    assert alpha_fairness(shares * scale, alpha) == pytest.approx(alpha_fairness(shares, alpha), rel=1e-5, abs=1e-9)


@given(st.lists(st.floats(1, 1e10), min_size=2, max_size=20).map(np.array), st.floats(0, 5), st.floats(0.01, 5))
def test_alpha_fairness_falls_as_alpha_grows(shares: Floats, alpha: float, more: float) -> None:
    assert alpha_fairness(shares, alpha + more) <= alpha_fairness(shares, alpha) + 1e-6


@given(st.lists(st.floats(1, 1e10), min_size=1, max_size=20).map(np.array))
def test_alpha_fairness_tends_to_min_over_mean(shares: Floats) -> None:
    assert alpha_fairness(shares, 3000.0) == pytest.approx(float(shares.min() / shares.mean()), rel=5e-3)


@given(st.lists(st.lists(st.floats(0, 3e9), max_size=60).map(np.array), min_size=1, max_size=5))
def test_shares_of_a_histogram_sum_to_one(values: list[Floats]) -> None:
    times = [np.arange(len(v), dtype=np.int64) for v in values]
    shares = histogram(Series("flow", range(len(values)), times, values), np.full(len(values), 1e9))
    for row, found in zip(shares, values, strict=True):
        if len(found):
            assert row.sum() == pytest.approx(1.0)
            assert row.min() >= 0
        else:
            assert np.isnan(row).all()


SAMPLES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60).map(np.array)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # scipy's p-value, which is not used
@given(SAMPLES, SAMPLES)
def test_kolmogorov_smirnov_agrees_with_scipy(one: Floats, other: Floats) -> None:
    found = kolmogorov_smirnov(one, other, weighted=False)
    assert found == pytest.approx(stats.ks_2samp(one, other, method="asymp").statistic)
    assert kolmogorov_smirnov(other, one, weighted=False) == pytest.approx(found)


@given(SAMPLES)
def test_kolmogorov_smirnov_of_a_sample_with_itself_is_zero(one: Floats) -> None:
    assert kolmogorov_smirnov(one, one, weighted=False) == 0
    assert kolmogorov_smirnov(one, one, weighted=True) == 0


def binned(values: list[int]) -> Histogram:
    bins = [bin_of(value) for value in values]
    low, high = (np.array(edge, dtype=np.float64) for edge in zip(*bins, strict=True))
    return Histogram(low, high, np.ones(len(values)), sum(values), min(values), max(values))


DELAYS = st.lists(st.integers(0, 10**11), min_size=1, max_size=60)


@given(DELAYS, st.sampled_from([1, 25, 50, 95, 99]))
def test_a_percentile_of_bins_is_off_by_half_a_bin_at_most(values: list[int], percent: int) -> None:
    exact = sorted(values)[max(1, math.ceil(percent * len(values) / 100)) - 1]
    assert of_bins([binned(values)], f"p{percent}") == pytest.approx(exact, rel=1 / 256, abs=0)


@given(DELAYS, DELAYS, st.sampled_from(["mean", "sum", "min", "max", "p50", "p95", "sd"]))
def test_bins_of_parts_together_are_those_of_the_whole(one: list[int], other: list[int], stat: str) -> None:
    apart = of_bins([binned(one), binned(other)], stat)
    assert apart == pytest.approx(of_bins([binned(one + other)], stat), rel=1e-12)


def test_equal_values_are_exact_and_nothing_is_undefined() -> None:
    value = 123_456_789
    assert {of_bins([binned([value] * 5)], stat) for stat in ("mean", "p1", "median", "p99", "max")} == {value}
    empty = Histogram(np.zeros(0), np.zeros(0), np.zeros(0), 0.0, math.nan, math.nan)
    assert math.isnan(of_bins([empty], "p95"))
    assert math.isnan(of_bins([], "mean"))
    assert of_bins([empty, binned([7])], "min") == 7
    with pytest.raises(MetricError, match="no last"):
        of_bins([binned([7])], "last")
