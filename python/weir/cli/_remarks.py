"""What methods have to say of a scenario before it is executed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weir.cli._common import console

if TYPE_CHECKING:
    from weir.engine import Cell
    from weir.methods import Method

__all__ = ["print_remarks", "remarks"]

_MOST_CELLS = 50
"""Cells that are looked at; of more, a regular selection stands for all."""


def remarks(cells: Sequence[Cell]) -> Iterator[str]:
    """What each method says of ``cells``, each remark once."""
    from weir import methods

    plans = [cell.plan() for cell in cells[:: -(-len(cells) // _MOST_CELLS) or 1]]
    for name in methods.names():
        method = methods.registered(name)  # one that cannot be loaded says nothing
        if method is not None:
            yield from (f"method {name}: {text}" for text in _said(method, plans))


def print_remarks(method: Method, plans: Sequence[Mapping[str, Any]]) -> None:
    """Prints what ``method`` says of ``plans``."""
    for text in _said(method, plans):
        console().print(f"note: {text}", style="dim")


def _said(method: Method, plans: Sequence[Mapping[str, Any]]) -> list[str]:
    from weir.engine import estimate

    found = (text for plan in plans for text in method.remarks(plan, estimate(dict(plan)).packets))
    return list(dict.fromkeys(found))
