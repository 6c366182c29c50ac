"""Prints the warnings of a run in a few lines: equal ones of several cells or flows are merged."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from weir.cli._common import console, plural

__all__ = ["Alike", "alike", "print_warnings"]

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_MAX_COUNT = 8
"""Kinds of warnings printed without ``--verbose``."""
_MAX_LENGTH = 300
"""Characters of a warning printed without ``--verbose``."""


@dataclass
class Alike:
    """Warnings that differ only in numbers."""

    text: str
    """The first of them, without its cell."""
    count: int = 0
    cells: dict[str, None] = field(default_factory=dict)
    """Their cells; empty if they are about the run."""

    def line(self, cells: int, *, whole: bool) -> str:
        """The line for people; the run has ``cells`` cells."""
        text = self.text if whole or len(self.text) <= _MAX_LENGTH else f"{self.text[: _MAX_LENGTH - 3]}..."
        said = [f"{self.count} like this"] if self.count > 1 else []
        if self.cells and cells > 1:
            said.append(f"cell {next(iter(self.cells))}" if len(self.cells) == 1 else f"in {len(self.cells)} cells")
        return f"warning: {text}" + (f" ({', '.join(said)})" if said else "")


def alike(warnings: Iterable[str], cells: Collection[str]) -> list[Alike]:
    """Groups ``warnings`` by their text, the most frequent first; a prefix ``CELL: `` names the cell."""
    found: dict[str, Alike] = {}
    for warning in warnings:
        cell, _, text = warning.partition(": ")
        if cell not in cells:
            cell, text = "", warning
        group = found.setdefault(_NUMBER.sub("#", text), Alike(text))
        group.count += 1
        if cell:
            group.cells[cell] = None
    return sorted(found.values(), key=lambda group: -group.count)


def print_warnings(warnings: Iterable[str], cells: Collection[str], *, verbose: bool) -> None:
    """Prints one line per kind of warning; with ``verbose``, each warning."""
    if verbose:
        for warning in warnings:
            console().print(f"warning: {warning}", style="yellow")
        return
    groups = alike(warnings, cells)
    for group in groups[:_MAX_COUNT]:
        console().print(group.line(len(cells), whole=False), style="yellow")
    if len(groups) > _MAX_COUNT:
        more = plural(sum(group.count for group in groups[_MAX_COUNT:]), "more warning")
        console().print(f"and {more}: -v shows all", style="yellow")
