"""The methods' remarks on a scenario before it is executed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weir.cli._common import console

if TYPE_CHECKING:
    from weir.methods import Method
    from weir.scenario import Cell

__all__ = ["print_remarks", "remarks"]

_MAX_CELLS = 50
"""Maximum number of cells examined; of more, a regular selection."""
_MAX_WORK = 50_000
"""Maximum work of compiling them (``weir.scenario.Cell.weighed``); the cell that exceeds it is the last."""


def remarks(cells: Sequence[Cell]) -> Iterator[str]:
    """The methods' remarks on ``cells``, each once; holds one plan at a time.

    Raises:
        ScenarioError: a cell has no plan.
    """
    from weir import methods

    # A method that cannot be loaded has no remarks.
    known = [(name, method) for name in methods.names() if (method := methods.registered(name)) is not None]
    found: dict[str, dict[str, None]] = {name: {} for name, _ in known}
    left = _MAX_WORK
    for cell in cells[:: -(-len(cells) // _MAX_CELLS) or 1]:
        left -= _look(cell, known, found)
        if left < 0:
            break
    for name, texts in found.items():
        yield from (f"method {name}: {text}" for text in texts)


def _look(cell: Cell, known: Sequence[tuple[str, Method]], found: Mapping[str, dict[str, None]]) -> int:
    """Adds the methods' remarks on ``cell`` to ``found``; returns the work of compiling the cell."""
    from weir.engine import estimate

    plan, work = cell.weighed()
    packets = estimate(plan).packets
    for name, method in known:
        found[name].update(dict.fromkeys(_remarks(method, plan, packets)))
    return work


def _remarks(method: Method, plan: Mapping[str, Any], packets: int) -> Iterator[str]:
    """The remarks of ``method`` on a plan, and on what it cannot record of it."""
    yield from method.remarks(plan, packets)
    if plan["measure"].get("acks") and "acks" not in method.tables:
        yield "it records no table `acks`: `measure.acks` is without effect"


def print_remarks(method: Method, plans: Sequence[Mapping[str, Any]]) -> None:
    """Prints the remarks of ``method`` on ``plans``."""
    for text in _said(method, plans):
        console().print(f"note: {text}", style="dim")


def _said(method: Method, plans: Sequence[Mapping[str, Any]]) -> list[str]:
    from weir.engine import estimate

    found = (text for plan in plans for text in _remarks(method, plan, estimate(dict(plan)).packets))
    return list(dict.fromkeys(found))
