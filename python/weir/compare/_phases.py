"""Runs with exact and with real clocks, at ports of switches where phases decide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weir.compare._align import Group, Labelled
from weir.plan import first_phase_remark

__all__ = ["phases_apart"]


def phases_apart(runs: Sequence[Labelled], groups: Iterable[Group]) -> list[str]:
    """A remark, if the clocks of some runs are exact and phases decide in a cell; empty otherwise."""
    plans = (group.cells[next(iter(group.cells))][0].plan.raw for group in groups)
    remark = next((found for plan in plans if (found := first_phase_remark(plan)) is not None), None)
    if remark is None:
        return []
    from weir.report.provenance import clock_of  # with the charts: only where it is needed

    return [remark] if {"virtual", "real"} <= {clock_of(run.method) for run in runs} else []
