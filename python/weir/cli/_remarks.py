"""The methods' remarks on a scenario before it is executed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weir.cli._common import console

if TYPE_CHECKING:
    from weir.engine import Cell
    from weir.methods import Method

__all__ = ["print_remarks", "remarks"]

_MOST_CELLS = 50
"""Maximum number of cells examined; of more, a regular selection."""


def remarks(cells: Sequence[Cell]) -> Iterator[str]:
    """The methods' remarks on ``cells``, each once."""
    from weir import methods

    plans = [cell.plan() for cell in cells[:: -(-len(cells) // _MOST_CELLS) or 1]]
    for name in methods.names():
        method = methods.registered(name)  # a method that cannot be loaded has none
        if method is not None:
            yield from (f"method {name}: {text}" for text in _said(method, plans))


def print_remarks(method: Method, plans: Sequence[Mapping[str, Any]]) -> None:
    """Prints the remarks of ``method`` on ``plans``."""
    for text in _said(method, plans):
        console().print(f"note: {text}", style="dim")


def _said(method: Method, plans: Sequence[Mapping[str, Any]]) -> list[str]:
    from weir.engine import estimate

    found = (text for plan in plans for text in method.remarks(plan, estimate(dict(plan)).packets))
    return list(dict.fromkeys(found))
