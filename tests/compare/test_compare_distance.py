"""Distances of time series: properties of a distance, and series computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from weir.compare import trace_distance, value_distance
from weir.compare._distance import grid, hold, rates

values = st.floats(0, 1e9, allow_subnormal=False)
pairs = st.integers(1, 30).flatmap(lambda n: st.tuples(*(arrays(np.float64, n, elements=values) for _ in range(2))))


@pytest.mark.parametrize("measure", [trace_distance, value_distance])
@given(pair=pairs)
def test_identity_symmetry_scale_and_bound(measure, pair) -> None:  # type: ignore[no-untyped-def]
    a, b = pair
    assert measure(a, a) == 0
    assert measure(a, b) == pytest.approx(measure(b, a))
    assert 0 <= measure(a, b) <= 2 + 1e-9
    assume(max(a.max(), b.max()) > 1e-3)
    assert measure(8 * a, 8 * b) == pytest.approx(measure(a, b))


@given(pair=pairs)
def test_the_values_are_never_farther_apart_than_the_traces(pair: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = pair
    assert value_distance(a, b) <= trace_distance(a, b) + 1e-9


def test_numbers_by_hand() -> None:
    a, b = np.array([10.0, 20.0]), np.array([20.0, 10.0])
    assert trace_distance(a, b) == pytest.approx(10 / 15)
    assert value_distance(a, b) == 0
    assert trace_distance(a, np.zeros(2)) == pytest.approx(2)
    assert value_distance(np.array([10.0, 10.0]), np.array([11.0, 11.0])) == pytest.approx(1 / 10.5)
    assert trace_distance(np.zeros(3), np.zeros(3)) == 0
    assert math.isnan(trace_distance(np.zeros(0), np.zeros(0)))


def test_the_wasserstein_distance_is_that_of_scipy() -> None:
    from scipy.stats import wasserstein_distance

    rng = np.random.default_rng(1)
    a, b = rng.random(50), rng.random(50) + 0.3
    assert value_distance(a, b) * (a.mean() + b.mean()) / 2 == pytest.approx(wasserstein_distance(a, b))


def test_a_shifted_saw_tooth_is_far_in_time_and_near_in_value() -> None:
    saw = np.tile(np.arange(50.0, 100.0), 20)
    assert trace_distance(saw, np.roll(saw, 25)) > 0.25
    assert value_distance(saw, np.roll(saw, 25)) == 0


def test_series_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="series of 2 and 3 values"):
        value_distance(np.zeros(2), np.zeros(3))


def test_a_state_is_held_until_the_next_sample() -> None:
    held = hold(np.array([10, 20]), np.array([1.0, 2.0]), np.array([5, 10, 15, 20, 99]))
    np.testing.assert_array_equal(held, [np.nan, 1, 1, 2, 2])


def test_amounts_are_spread_over_their_intervals_and_none_is_lost() -> None:
    ends, amounts = np.array([1, 2, 4]) * 10**9, np.array([10.0, 20.0, 40.0])  # the third second is unknown
    np.testing.assert_allclose(rates(ends, amounts, 10**9, grid(0, 4 * 10**9, 10**9)), [10, 20, 0, 40])
    np.testing.assert_allclose(rates(ends, amounts, 10**9, grid(0, 4 * 10**9, 2 * 10**9)), [15, 20])
    fine = rates(ends, amounts, 10**9, grid(0, 4 * 10**9, 10**8))
    assert fine.sum() / 10 == pytest.approx(amounts.sum())


@given(st.integers(1, 10), st.integers(0, 20), st.integers(1, 40))
def test_a_grid_has_multiples_of_its_step_inside(step: int, begin: int, length: int) -> None:
    found = grid(begin, begin + length, step)
    assert all(instant % step == 0 and begin < instant <= begin + length for instant in found)
    assert len(found) == (begin + length) // step - begin // step
