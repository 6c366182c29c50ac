"""What a run may make a reader allocate, and what its rows may hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl

from weir.run.documents import MOST_NS
from weir.run.errors import RunError
from weir.run.plan import MEASURE, Plan

__all__ = ["MOST_INTERVALS", "check_intervals", "check_times", "latest_ns"]

MOST_INTERVALS = 1 << 24
"""Intervals of a table in a cell: a series of so many takes a gigabyte in metrics and charts."""
_PER_ROW = 8
"""A table of more rows than that has read as much already; those of `links` leave out intervals without packets."""


def check_intervals(file: Path, plan: Plan, table: str, rows: Callable[[], int]) -> None:
    """Checks that the plan, of ``file``, has no more intervals of ``table`` than a series may have.

    ``rows`` counts those of the table, and is called if it matters.

    Raises:
        RunError: it has.
    """
    step = plan.interval_ns(table)
    count = plan.end_ns // step if step else 0
    if count <= MOST_INTERVALS or count <= (most := max(MOST_INTERVALS, _PER_ROW * rows())):
        return
    raise RunError(
        file, f"{plan.end_ns / 1e9:g} s in intervals of {step} ns are {count} intervals of {table!r}", f"at most {most}"
    )


def latest_ns(plan: Plan, table: str) -> int:
    """The latest instant that a row of ``table`` may have.

    At intervals: with a real clock it may be late, but not by as much again. Else no time series is made of it.
    """
    return 2 * plan.end_ns + 10 * plan.interval_ns(table) if table in MEASURE else MOST_NS


def check_times(file: Path, times_ns: pl.Series, latest: int) -> None:
    """Checks that no instant is later than ``latest``.

    Raises:
        RunError: one is.
    """
    most = times_ns.max()
    if isinstance(most, int) and most > latest:
        raise RunError(file, f"{times_ns.name} has the instant {most} ns", f"at most {latest} ns")
