"""Thinning: extremes survive, means are right, buckets are whole intervals."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.report.downsample import bucket_ns, envelope, note, samples

values = st.lists(st.one_of(st.none(), st.floats(-1e9, 1e9)), min_size=1, max_size=400)


def _frame(series: list[float | None], interval: int, flow: int = 0) -> pl.LazyFrame:
    return pl.LazyFrame(
        {"flow": [flow] * len(series), "time_ns": [(i + 1) * interval for i in range(len(series))], "v": series},
        schema={"flow": pl.UInt32, "time_ns": pl.UInt64, "v": pl.Float64},
    )


@given(values, st.integers(1, 50), st.integers(1, 10**9))
def test_extremes_and_order_survive(series: list[float | None], buckets: int, interval: int) -> None:
    width = bucket_ns(len(series) * interval, buckets, interval)
    rows = envelope(_frame(series, interval), pl.col("v"), by=["flow"], width_ns=width)
    present = [v for v in series if v is not None]
    assert rows.height <= buckets
    assert rows["time_s"].is_sorted()
    if present:
        assert rows["low"].min() == min(present)
        assert rows["high"].max() == max(present)
        assert (rows["low"] <= rows["high"]).all()
    else:
        assert rows.is_empty()


@given(values, st.integers(1, 50))
def test_the_order_of_rows_does_not_matter(series: list[float | None], buckets: int) -> None:
    width = bucket_ns(len(series) * 1000, buckets, 1000)
    forward = envelope(_frame(series, 1000), pl.col("v"), by=["flow"], width_ns=width)
    backward = envelope(_frame(series, 1000).reverse(), pl.col("v"), by=["flow"], width_ns=width)
    assert forward.select("low", "high").equals(backward.select("low", "high"))


@given(st.integers(1, 10**13), st.integers(1, 5000), st.integers(1, 10**10))
def test_a_bucket_is_a_whole_number_of_intervals(duration: int, buckets: int, interval: int) -> None:
    width = bucket_ns(duration, buckets, interval)
    assert width % interval == 0
    assert -(-duration // width) <= max(buckets, 1)


def test_each_bucket_ends_with_the_interval_that_ends_there() -> None:
    rows = envelope(_frame([1, 2, 3, 4], 10), pl.col("v"), by=["flow"], width_ns=20)
    assert rows["mean"].to_list() == [1.5, 3.5]
    assert rows["time_s"].to_list() == pytest.approx([15e-9, 35e-9])


def test_steps_keep_the_samples_with_the_extremes_at_their_instants() -> None:
    rows = samples(_frame([5, 9, 1, 4, 4, 4, None, 7], 10), pl.col("v"), by=["flow"], width_ns=40)
    assert (rows["time_s"] * 1e9).round().to_list() == [
        20,
        30,
        50,
        80,
    ]  # 9 and 1 of the first four, 4 and 7 of the rest
    assert rows["value"].to_list() == [9, 1, 4, 7]


def test_steps_of_one_sample_a_bucket_are_all_samples_but_repetitions() -> None:
    rows = samples(_frame([2, 2, 3, 3, 3], 10), pl.col("v"), by=["flow"], width_ns=10)
    assert list(zip((rows["time_s"] * 1e9).round(), rows["value"], strict=True)) == [(10, 2), (30, 3), (50, 3)]


def test_flows_are_apart() -> None:
    both = pl.concat([_frame([1, 2], 10, 0), _frame([5, 6], 10, 1)])
    rows = envelope(both, pl.col("v"), by=["flow"], width_ns=20)
    assert rows["high"].to_list() == [2, 6]


def test_the_note_says_what_was_done() -> None:
    assert note(20, 20) == ()
    assert "5 samples (500 ms)" in note(500_000_000, 100_000_000)[0]
