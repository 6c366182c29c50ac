"""Metrics as a summary of a run has them: what `weir show` and the report agree on.

In every phase that the scenario names, or over the whole run where it names none; the two directions apart where flows
of both are under test.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from weir.run import Plan, Run, RunError

__all__ = ["both_ways", "has_pages", "split_of", "windows_of"]


def windows_of(run: Run) -> str | None:
    """The option ``phase`` of a summary: all phases, or none, for the whole run."""
    return "*" if any(plan.phases for plan in _plans(run)) else None


def split_of(run: Run) -> list[str]:
    """The option ``by`` of a summary: all factors, and ``direction`` where there are both."""
    return [*run.factors, *(("direction",) if both_ways(run) else ())]


def both_ways(run: Run) -> bool:
    """Whether flows of both directions are under test."""
    return len({flow.reverse for plan in _plans(run) for flow in plan.flows if flow.role == "test"}) > 1


def has_pages(run: Run) -> bool:
    """Whether users load pages."""
    tested = (flow for plan in _plans(run) for flow in plan.flows if flow.role == "test")
    return any(page is not None for flow in tested for page in flow.pages)


def _plans(run: Run) -> Iterator[Plan]:
    """The plans that can be read."""
    for cell in run.cells:
        with suppress(RunError):
            yield cell.plan
