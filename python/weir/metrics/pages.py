"""Completion times of pages. A page counts in the phase in which its last object completes.

A page belongs to its user, and so to the first of the user's connections. A selection of flows selects the users whose
first connection is among them; their pages count with all objects.
"""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from weir.metrics.bounds import NON_NEGATIVE, SHARE
from weir.metrics.registry import Category, View, metric
from weir.metrics.results import Sample, Values
from weir.metrics.window import Window

__all__ = ["loaded"]

_USER = (View.END_USER,)


def loaded(window: Window) -> pl.DataFrame:
    """The pages of the selected users, whenever they were begun.

    Columns ``owner`` (the user's first flow), ``page``, ``start_ns``, ``end_ns``; the last is null if an object did not
    complete.
    """
    wanted = window.data.pages.filter(pl.col("owner").is_in(window.flow_ids))
    instants = [pl.col(name).cast(pl.Int64) for name in ("start_ns", "end_ns")]
    rows = window.data.transfers.select("flow", "transfer", *instants)
    ends = pl.col("end_ns")
    return (
        wanted.join(rows, on=["flow", "transfer"], how="left")
        .group_by("owner", "page", maintain_order=True)
        .agg(pl.col("start_ns").min(), pl.when(ends.is_not_null().all()).then(ends.max()).alias("end_ns"))
        .filter(pl.col("start_ns").is_not_null())
    )


def _completed(window: Window) -> pl.DataFrame:
    return loaded(window).filter(pl.col("end_ns").is_between(window.from_ns, window.to_ns, closed="both"))


def _one(value: float) -> Values:
    return Values("all", [0], np.array([value]))


@metric(
    "page.completion",
    symbol="T_p",
    formula="time of the last acknowledgement of the page's last object - time of its request",
    unit="s",
    bounds=NON_NEGATIVE,
    category=Category.THROUGHPUT,
    scope="group",
    views=_USER,
    source="3GPP2 C.R1002-0 (page response time)",
    tables=("flows",),
)
def page_completion(window: Window) -> Sample:
    """Completion time of a page, from the request of its document to the end of its last object.

    A population over all pages of the selected users: ``page.completion.median``, ``page.completion.p95``. Pages that
    did not complete are left out: see ``page.unfinished``.
    """
    pages = _completed(window)
    times = (pages["end_ns"] - pages["start_ns"]).to_numpy().astype(np.float64) / 1e9
    return Sample(pages["owner"].to_numpy().astype(np.int64), times)


@metric(
    "page.count",
    symbol="N_p",
    formula="number of pages completed",
    unit="count",
    bounds=NON_NEGATIVE,
    category=Category.THROUGHPUT,
    scope="group",
    views=_USER,
    source="as completion.count, of pages",
    tables=("flows",),
)
def page_count(window: Window) -> Values:
    """Number of pages that completed in the window."""
    return _one(float(_completed(window).height))


@metric(
    "page.unfinished",
    symbol="u_p",
    formula="pages begun and not completed / pages begun",
    unit="1",
    bounds=SHARE,
    category=Category.ROBUSTNESS,
    scope="group",
    views=_USER,
    source="as completion.unfinished, of pages",
    tables=("flows",),
    percent=True,
)
def page_unfinished(window: Window) -> Values:
    """Share of the pages begun in the window that had not completed at its end."""
    pages = loaded(window)
    begun = pages.filter(pl.col("start_ns").is_between(window.from_ns, window.to_ns, closed="left"))
    late = begun["end_ns"].is_null() | (begun["end_ns"] > window.to_ns).fill_null(value=True)
    return _one(float(late.sum()) / begun.height if begun.height else math.nan)
