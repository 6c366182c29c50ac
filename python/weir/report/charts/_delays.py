"""One-way delays of packets, from the histograms of table ``delay_bins``."""

from __future__ import annotations

import polars as pl

from weir.report.downsample import bucket_ends, bucket_ns
from weir.report.view import CellView

__all__ = ["PERCENTILES", "delay_width", "percentiles", "ranks"]

PERCENTILES = {"p50": 0.5, "p95": 0.95}
"""Percentiles drawn over time, by column."""


def delay_width(cell: CellView, buckets: int) -> int:
    """Length of a bucket, ns."""
    return bucket_ns(cell.end_ns, buckets, cell.plan.interval_ns("delays"))


def ranks(frame: pl.LazyFrame, by: list[str]) -> pl.DataFrame:
    """Bins of each population in order: ``by``, ``delay_s`` (the middle of the bin), ``rank`` and ``total`` packets."""
    bins = frame.filter(pl.col("delay_packets") > 0).group_by(*by, "low_ns", "high_ns")
    counted = bins.agg(pl.col("delay_packets").sum()).sort(*by, "low_ns")
    middle = (pl.col("low_ns").cast(pl.Float64) + pl.col("high_ns").cast(pl.Float64)) / 2e9
    packets = pl.col("delay_packets")
    rank, total = packets.cum_sum(), packets.sum()
    if by:
        rank, total = rank.over(by), total.over(by)
    return counted.select(*by, middle.alias("delay_s"), rank.alias("rank"), total.alias("total")).collect()


def percentiles(cell: CellView, width_ns: int) -> pl.DataFrame | None:
    """Columns ``flow``, ``time_s`` and those of ``PERCENTILES`` in s; null in a bucket without a packet."""
    frame = cell.of_tested("delay_bins")
    if frame is None:
        return None
    found = ranks(bucket_ends(frame, width_ns), ["flow", "time_ns"])
    if found.is_empty():
        return None
    values = [
        pl.col("delay_s").filter(pl.col("rank") >= share * pl.col("total")).first().alias(name)
        for name, share in PERCENTILES.items()
    ]
    rows = found.group_by("flow", "time_ns", maintain_order=True).agg(values)
    spans = rows.group_by("flow").agg(first=pl.col("time_ns").min(), last=pl.col("time_ns").max())
    ends = spans.select("flow", time_ns=pl.int_ranges("first", pl.col("last") + 1, width_ns)).explode("time_ns")
    ends = ends.with_columns(pl.col("time_ns").cast(rows.schema["time_ns"]))
    filled = ends.join(rows, on=["flow", "time_ns"], how="left").sort("flow", "time_ns")
    return filled.select("flow", (pl.col("time_ns") / 1e9).alias("time_s"), *PERCENTILES)
