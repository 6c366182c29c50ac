"""The metrics of a run's summary, shared by `weir show` and the report.

They are computed in every phase of the scenario, or over the whole run if it has none. The two directions are kept
apart if flows of both are under test.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from weir.metrics.window import CellData, window
from weir.plan import queue_classes
from weir.run import Flow, Plan, Run, RunError

__all__ = [
    "OF_CLASSES",
    "OF_PORTS",
    "both_ways",
    "classes_of",
    "entries_of",
    "has_pages",
    "most_switched",
    "split_of",
    "switched",
    "windows_of",
]

OF_CLASSES = ("class.throughput", "class.loss", "class.delay")
"""Metrics of each class of a scheduler."""
OF_PORTS = ("port.rate", "switch.loss", "switch.starvation")
"""Metrics of each flow through a switch, for its input and output port."""


def windows_of(run: Run) -> str | None:
    """The option ``phase`` of a summary: all phases, or ``None`` for the whole run."""
    return "*" if any(plan.phases for plan in _plans(run)) else None


def split_of(run: Run) -> list[str]:
    """The option ``by`` of a summary: all factors, and ``direction`` if flows of both are under test."""
    return [*run.factors, *(("direction",) if both_ways(run) else ())]


def both_ways(run: Run) -> bool:
    """Whether flows of both directions are under test."""
    return len({flow.reverse for plan in _plans(run) for flow in plan.flows if flow.role == "test"}) > 1


def entries_of(run: Run) -> list[str]:
    """The entries of the workload whose flows are under test, in the order of the scenario."""
    return list(dict.fromkeys(flow.group for plan in _plans(run) for flow in plan.flows if flow.role == "test"))


def has_pages(run: Run) -> bool:
    """Whether users load pages."""
    tested = (flow for plan in _plans(run) for flow in plan.flows if flow.role == "test")
    return any(page is not None for flow in tested for page in flow.pages)


def classes_of(run: Run) -> dict[str, list[str]]:
    """The classes at the bottleneck of the flows under test, each with the ids of the cells that have it.

    Empty without a scheduler there, and for cells without table ``classes``.
    """
    found: dict[str, list[str]] = {}
    for cell in run.cells:
        with suppress(RunError):
            if not cell.has("classes"):
                continue
            for link in window(CellData(cell)).links:
                for name, _ in queue_classes(link.typed.queue):
                    found.setdefault(name, []).append(cell.id)
    return found


def switched(plan: Plan) -> list[Flow]:
    """The flows under test that pass a switch."""
    if not any(node.get("switch") for node in plan.raw.get("nodes", ())):
        return []  # most plans: without a switch, nothing need be converted
    switches = {number for number, node in enumerate(plan.typed.nodes) if node.switch is not None}
    into = {number for number, link in enumerate(plan.typed.links) if link.to in switches}
    return [flow for flow in plan.flows if flow.role == "test" and into.intersection(flow.path)]


def most_switched(run: Run) -> int:
    """The most flows under test that pass a switch in a cell."""
    return max((len(switched(plan)) for plan in _plans(run)), default=0)


def _plans(run: Run) -> Iterator[Plan]:
    """The readable plans of the run."""
    for cell in run.cells:
        with suppress(RunError):
            yield cell.plan
