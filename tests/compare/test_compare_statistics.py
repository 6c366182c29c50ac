"""Differences over repeats, against numbers computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.compare import difference
from weir.metrics.bounds import NON_NEGATIVE, SHARE

A = np.array([10.0, 12.0, 14.0])
B = np.array([11.0, 14.0, 14.0])


def test_pairs_use_the_deviation_of_their_differences() -> None:
    # d = 1, 2, 0: mean 1, s = 1; t(2, 0.975) = 4.302653; half = 4.302653 / sqrt(3) = 2.484138
    found = difference(A, B, paired=True)
    assert found.difference == pytest.approx(1.0)
    assert (found.low, found.high) == (pytest.approx(1 - 2.484138), pytest.approx(1 + 2.484138))
    assert found.kind == "paired"
    assert found.ratio == pytest.approx(13 / 12)


def test_welch_takes_both_variances_and_its_own_degrees_of_freedom() -> None:
    # var 4 and 3, over 3: 4/3 and 1; error sqrt(7/3) = 1.527525
    # freedom = (7/3)^2 / ((4/3)^2/2 + 1/2) = 5.444444 / 1.388889 = 3.92; t(3.92, 0.975) = 2.79893
    found = difference(A, B, paired=False)
    assert found.difference == pytest.approx(1.0)
    assert found.high - 1.0 == pytest.approx(2.79893 * 1.527525, rel=1e-5)
    assert found.kind == "welch"


def test_welch_agrees_with_scipy() -> None:
    from scipy.stats import ttest_ind

    a, b = np.array([1.0, 2.5, 3.1, 0.4]), np.array([5.0, 5.5, 9.0])
    expected = ttest_ind(b, a, equal_var=False).confidence_interval(0.9)
    found = difference(a, b, paired=False, level=0.9)
    assert (found.low, found.high) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_one_repeat_has_a_difference_and_no_interval() -> None:
    found = difference(A[:1], B[:1], paired=True)
    assert found.difference == 1.0
    assert math.isnan(found.low)
    assert found.kind == "none"
    assert math.isnan(difference(A, B[:1], paired=False).low)


def test_equal_repeats_have_an_interval_of_no_width() -> None:
    found = difference(np.full(3, 2.0), np.full(3, 3.0), paired=False)
    assert (found.low, found.high) == (1.0, 1.0)


def test_an_undefined_repeat_takes_its_partner_with_it() -> None:
    found = difference(np.array([10.0, math.nan, 14.0]), np.array([11.0, 100.0, 14.0]), paired=True)
    assert (found.n_a, found.n_b, found.difference) == (2, 2, 0.5)
    assert difference(np.array([math.nan]), B, paired=False).kind == "none"


def test_ratios_at_zero() -> None:
    zero, one = np.zeros(1), np.ones(1)
    assert difference(zero, zero, paired=False).ratio == 1
    assert difference(zero, one, paired=False).ratio == math.inf


def test_pairs_need_partners() -> None:
    with pytest.raises(ValueError, match="pairs of 3 and 2"):
        difference(A, B[:2], paired=True)


def test_the_interval_of_a_ratio_is_that_of_fieller() -> None:
    """Against the roots of (b - θ a)² = t² (var b - 2 θ cov + θ² var a), found by another way."""
    from scipy.optimize import brentq
    from scipy.stats import t

    found = difference(A, B, paired=True)

    def excess(theta: float) -> float:
        d = B - theta * A
        return float(abs(d.mean()) - t.ppf(0.975, 2) * d.std(ddof=1) / math.sqrt(3))

    assert found.ratio_low == pytest.approx(brentq(excess, 0.5, found.ratio))
    assert found.ratio_high == pytest.approx(brentq(excess, found.ratio, 3.0))


@pytest.mark.parametrize("paired", [True, False])
def test_intervals_of_ratio_and_difference_say_the_same_and_cover(paired: bool) -> None:
    rng = np.random.default_rng(1)
    covered = agree = 0
    for _ in range(2000):
        common = rng.normal(0, 5, 5) if paired else np.zeros(5)
        a, b = 50 + common + rng.normal(0, 1, 5), 50 + common + rng.normal(0, 1, 5)
        found = difference(a, b, paired=paired)
        covered += found.ratio_low <= 1.0 <= found.ratio_high
        agree += (found.ratio_low <= 1.0 <= found.ratio_high) == (found.low <= 0.0 <= found.high)
    assert agree == 2000
    assert 0.93 <= covered / 2000 <= 0.97


def test_a_ratio_to_what_may_be_zero_has_no_upper_end() -> None:
    found = difference(np.array([0.0, 0.1, 0.0]), np.array([1.0, 2.0, 1.5]), paired=True, bounds=NON_NEGATIVE)
    assert (found.ratio_low, found.ratio_high) == (0.0, math.inf)


def test_differences_of_shares_are_at_most_one() -> None:
    found = difference(np.array([0.0, 0.9]), np.array([1.0, 1.0]), paired=True, bounds=SHARE)
    assert found.high == 1.0
    assert difference(np.array([0.0, 0.9]), np.array([1.0, 1.0]), paired=True).high > 1.0


samples = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=6).map(np.array)


@given(samples, samples)
def test_swapping_the_runs_turns_the_sign(a: np.ndarray, b: np.ndarray) -> None:
    one, other = difference(a, b, paired=False), difference(b, a, paired=False)
    assert one.difference == pytest.approx(-other.difference)
    assert one.low == pytest.approx(-other.high, abs=1e-6)
    assert one.low <= one.difference <= one.high
