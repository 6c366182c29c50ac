"""Limits on the memory that a run may make a reader allocate, and on the values of its rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl

from weir.run.documents import MAX_NS
from weir.run.errors import RunError
from weir.run.plan import MEASURE, Plan

__all__ = ["MAX_INTERVALS", "check_intervals", "check_times", "latest_ns"]

MAX_INTERVALS = 1 << 24
"""Limit on the intervals of a table in a cell: such a series takes a gigabyte in metrics and charts."""
_PER_ROW = 8
"""Intervals permitted per row: `links` omits intervals without packets, and a table with many rows has used as much
memory.
"""


def check_intervals(file: Path, plan: Plan, table: str, rows: Callable[[], int]) -> None:
    """Verifies that the plan, of ``file``, has no more intervals of ``table`` than a series may have.

    ``rows`` counts those of the table, and is called only if needed.

    Raises:
        RunError: it has more.
    """
    step = plan.interval_ns(table)
    count = plan.end_ns // step if step else 0
    if count <= MAX_INTERVALS or count <= (most := max(MAX_INTERVALS, _PER_ROW * rows())):
        return
    raise RunError(
        file, f"{plan.end_ns / 1e9:g} s in intervals of {step} ns are {count} intervals of {table!r}", f"at most {most}"
    )


def latest_ns(plan: Plan, table: str) -> int:
    """The latest instant that a row of ``table`` may have.

    Rows at intervals may be late on a real clock, but not by as much again. Other rows do not make a time series.
    """
    return 2 * plan.end_ns + 10 * plan.interval_ns(table) if table in MEASURE else MAX_NS


def check_times(file: Path, times_ns: pl.Series, latest: int) -> None:
    """Verifies that no instant is later than ``latest``.

    Raises:
        RunError: one is.
    """
    most = times_ns.max()
    if isinstance(most, int) and most > latest:
        raise RunError(file, f"{times_ns.name} has the instant {most} ns", f"at most {latest} ns")
