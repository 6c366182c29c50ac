"""The metrics of a run's summary, shared by `weir show` and the report.

They are computed in every phase of the scenario, or over the whole run if it has none. The two directions are kept
apart if flows of both are under test.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from weir.run import Plan, Run, RunError

__all__ = ["both_ways", "has_pages", "split_of", "windows_of"]


def windows_of(run: Run) -> str | None:
    """The option ``phase`` of a summary: all phases, or ``None`` for the whole run."""
    return "*" if any(plan.phases for plan in _plans(run)) else None


def split_of(run: Run) -> list[str]:
    """The option ``by`` of a summary: all factors, and ``direction`` if flows of both are under test."""
    return [*run.factors, *(("direction",) if both_ways(run) else ())]


def both_ways(run: Run) -> bool:
    """Whether flows of both directions are under test."""
    return len({flow.reverse for plan in _plans(run) for flow in plan.flows if flow.role == "test"}) > 1


def has_pages(run: Run) -> bool:
    """Whether users load pages."""
    tested = (flow for plan in _plans(run) for flow in plan.flows if flow.role == "test")
    return any(page is not None for flow in tested for page in flow.pages)


def _plans(run: Run) -> Iterator[Plan]:
    """The readable plans of the run."""
    for cell in run.cells:
        with suppress(RunError):
            yield cell.plan
