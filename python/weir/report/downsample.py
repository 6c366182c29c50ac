"""Thins long time series for drawing and keeps their visible shape.

A series is cut into buckets of equal duration, about one per pixel. Each bucket keeps its minimum, mean and maximum.
Drawn as a band around a line, they cover the same pixels as the full series, and no extreme is lost. A quantity that
changes in steps keeps the two samples with the extremes instead, at their own instants. The result depends on the data
alone.
"""

from __future__ import annotations

import polars as pl

__all__ = ["aggregate", "bucket_ends", "bucket_ns", "envelope", "note", "samples", "steps_note"]


def bucket_ns(duration_ns: int, buckets: int, interval_ns: int) -> int:
    """Length of a bucket if ``duration_ns`` is cut into at most ``buckets``: a whole number of intervals."""
    interval = max(1, interval_ns)
    wanted = -(-duration_ns // max(1, buckets))
    return max(interval, -(-wanted // interval) * interval)


def _bucket(width_ns: int) -> pl.Expr:
    # Instants end an interval: (0, width] is the first bucket.
    return (pl.max_horizontal(pl.col("time_ns"), pl.lit(1, pl.UInt64)) - 1) // width_ns


def bucket_ends(frame: pl.LazyFrame, width_ns: int) -> pl.LazyFrame:
    """Moves each instant to the end of its bucket, so that all series of a bucket share one instant."""
    return frame.with_columns(time_ns=(_bucket(width_ns) + 1) * width_ns)


def aggregate(frame: pl.LazyFrame, values: dict[str, pl.Expr], *, by: list[str], width_ns: int) -> pl.DataFrame:
    """Aggregates of each bucket, with ``time_s``, the mean instant of its rows.

    Args:
        frame: rows of a long table with ``time_ns``, the end of an interval.
        values: the aggregating expression of each result column.
        by: columns that identify a series.
        width_ns: length of a bucket; see `bucket_ns`.

    Returns:
        Columns ``by``, ``time_s`` and ``values``, ordered by series and time.
    """
    time = (pl.col("time_ns").cast(pl.Float64).mean() / 1e9).alias("time_s")
    grouped = frame.group_by([*by, _bucket(width_ns).alias("_bucket")])
    out = grouped.agg([time, *(e.alias(name) for name, e in values.items())])
    return out.sort([*by, "_bucket"]).drop("_bucket").collect()


def samples(frame: pl.LazyFrame, value: pl.Expr, *, by: list[str], width_ns: int) -> pl.DataFrame:
    """Samples of ``value`` at their own instants: of each bucket the smallest and the largest, in their order.

    For steps: a sample that repeats its predecessor's value is left out unless it is the last one.

    Returns:
        Columns ``by``, ``time_s`` and ``value``, ordered by series and time.
    """
    valued = frame.with_columns(value.cast(pl.Float64).alias("value")).filter(pl.col("value").is_not_null())
    v, time = pl.col("value"), pl.col("time_ns")
    grouped = valued.sort([*by, "time_ns"]).group_by([*by, _bucket(width_ns).alias("_bucket")], maintain_order=True)
    ends = grouped.agg(
        pl.concat_list(time.get(v.arg_min()), time.get(v.arg_max())).alias("time_ns"),
        pl.concat_list(v.min(), v.max()).alias("value"),
    )
    points = ends.explode("time_ns", "value").unique([*by, "time_ns"]).sort([*by, "time_ns"])
    changes = (v != v.shift().over(by)).fill_null(value=True) | (time == time.max().over(by))
    return points.filter(changes).select(*by, (time / 1e9).alias("time_s"), "value").collect()


def steps_note(width_ns: int, interval_ns: int) -> tuple[str, ...]:
    """The remark on thinned steps; empty if every sample is drawn."""
    many = width_ns // max(1, interval_ns)
    if many <= 1:
        return ()
    return (f"Thinned for drawing: of {many} samples ({_width(width_ns)}), the smallest and the largest are drawn.",)


def envelope(frame: pl.LazyFrame, value: pl.Expr, *, by: list[str], width_ns: int) -> pl.DataFrame:
    """Minimum, mean and maximum of ``value`` per bucket: columns ``by``, ``time_s``, ``low``, ``mean``, ``high``.

    Buckets with only nulls are left out.
    """
    valued = frame.with_columns(value.cast(pl.Float64).alias("_value")).filter(pl.col("_value").is_not_null())
    v = pl.col("_value")
    values = {"low": v.min(), "mean": v.mean(), "high": v.max()}
    return aggregate(valued, values, by=by, width_ns=width_ns)


def note(width_ns: int, interval_ns: int) -> tuple[str, ...]:
    """The remark on a thinned series; empty if every sample is drawn."""
    many = width_ns // max(1, interval_ns)
    if many <= 1:
        return ()
    return (
        f"Thinned for drawing: the line is the mean of {many} samples ({_width(width_ns)}), the band their extremes.",
    )


def _width(width_ns: int) -> str:
    return f"{width_ns / 1e9:.3g} s" if width_ns >= 10**9 else f"{width_ns / 1e6:.3g} ms"
