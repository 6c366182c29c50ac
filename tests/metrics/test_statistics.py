"""Statistics: known values, and properties for any values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from weir.metrics.statistics import jackknife, over_members, over_time, student_t, summarise

VALUES = st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=30).map(np.array)


def test_student_t_is_that_of_the_tables() -> None:
    assert student_t(0.95, 2) == pytest.approx(4.302653, rel=1e-6)
    assert student_t(0.99, 9) == pytest.approx(3.249836, rel=1e-6)
    with pytest.raises(ValueError, match="0 < level < 1"):
        student_t(1.0, 3)


def test_summary_of_three_repeats() -> None:
    found = summarise(np.array([1.0, 2.0, 3.0]))
    half = 4.302652729911275 / math.sqrt(3)
    assert (found.mean, found.sd, found.n) == (2.0, 1.0, 3)
    assert (found.low, found.high) == pytest.approx((2 - half, 2 + half))


def test_one_repeat_has_no_deviation_and_no_interval() -> None:
    found = summarise(np.array([5.0]))
    assert (found.mean, found.n) == (5.0, 1)
    assert math.isnan(found.sd)
    assert math.isnan(found.low)
    assert math.isnan(found.high)


def test_undefined_repeats_are_left_out() -> None:
    assert summarise(np.array([1.0, math.nan, 3.0])).n == 2
    assert summarise(np.array([math.nan])).n == 0
    assert math.isnan(summarise(np.array([])).mean)


def test_bootstrap_is_the_same_each_time_and_inside_the_sample() -> None:
    values = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    one, two = summarise(values, interval="bootstrap"), summarise(values, interval="bootstrap")
    assert one == two
    assert 1.0 <= one.low < one.mean < one.high <= 16.0


def test_bad_options_are_refused() -> None:
    with pytest.raises(ValueError, match="bootstrap"):
        summarise(np.array([1.0, 2.0]), interval="x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="between 0 and 1"):
        summarise(np.array([1.0]), level=95)


@given(VALUES)
def test_interval_agrees_with_scipy(values: np.typing.NDArray[np.float64]) -> None:
    found = summarise(values)
    if found.sd > 1e-3:
        low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
        assert found.low == pytest.approx(low, rel=1e-6, abs=1e-6)
        assert found.high == pytest.approx(high, rel=1e-6, abs=1e-6)


@given(VALUES, st.floats(-100, 100), st.floats(-1e6, 1e6))
def test_jackknife_of_a_linear_function_is_student(
    values: np.typing.NDArray[np.float64], slope: float, offset: float
) -> None:
    without = np.array([slope * np.mean(np.delete(values, k)) + offset for k in range(len(values))])
    low, high = jackknife(float(slope * np.mean(values) + offset), without)
    expected = summarise(slope * values + offset)
    tolerance = 1e-6 * (1 + abs(slope) * float(np.max(np.abs(values))) + abs(offset))
    assert low == pytest.approx(expected.low, abs=tolerance)
    assert high == pytest.approx(expected.high, abs=tolerance)


def test_jackknife_needs_two_finite_values() -> None:
    assert math.isnan(jackknife(1.0, np.array([1.0]))[0])
    assert math.isnan(jackknife(1.0, np.array([1.0, math.nan]))[0])


@pytest.mark.parametrize(
    ("stat", "expected"),
    [
        ("mean", 2.5),
        ("max", 4.0),
        ("min", 1.0),
        ("sd", math.sqrt(1.25)),
        ("var", 1.25),
        ("cov", math.sqrt(1.25) / 2.5),
        ("median", 2.5),
        ("last", 2.0),
        ("sum", 10.0),
        ("p0", 1.0),
        ("p50", 2.5),
        ("p99_9", 3.997),
    ],
)
def test_statistics_over_time(stat: str, expected: float) -> None:
    assert over_time(np.array([1.0, 4.0, math.nan, 3.0, 2.0]), stat) == pytest.approx(expected)
    assert math.isnan(over_time(np.array([math.nan]), stat))


@pytest.mark.parametrize(
    ("stat", "expected"),
    [("mean", 1.25), ("max", 9.0), ("min", 1.0), ("median", 1.0), ("p80", 2.0), ("var", 0.1875), ("sum", 12.0)],
)
def test_weights_count_values_several_times(stat: str, expected: float) -> None:
    values, weights = np.array([1.0, 9.0, 2.0]), np.array([3.0, 0.5, 1.0])
    if stat not in ("max", "sum"):
        weights[1] = 0.0  # a value without weight does not count
    assert over_time(values, stat, weights) == pytest.approx(expected)


def test_extremes_of_members_stay_extremes_and_the_rest_is_a_mean() -> None:
    values = np.array([1.0, 2.0, 6.0, math.nan])
    assert over_members(values, "max") == 6.0
    assert over_members(values, "min") == 1.0
    assert over_members(values, "sd") == 3.0
    assert over_members(values, "p99") == 3.0


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=50).map(np.array), st.floats(0.001, 1000))
def test_deviation_scales_and_variation_does_not(values: np.typing.NDArray[np.float64], scale: float) -> None:
    spread, mean = over_time(values, "sd"), float(np.mean(values))
    assert over_time(values * scale, "sd") == pytest.approx(spread * scale, rel=1e-6, abs=1e-6 * scale * (1 + mean))
    if mean > 1e-3:
        assert over_time(values * scale, "cov") == pytest.approx(over_time(values, "cov"), rel=1e-6, abs=1e-6)
