"""One cell of a scenario: ``weir run --cell``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from weir.scenario import Cell, Expectation, Scenario, Shown

__all__ = ["OneCell", "choose"]

_HINT = "--cell"
_FEW = 8
_NEXT = r",(?=\s*[A-Za-z_]\w*\s*=)"
"""The comma before the next factor: a value may have commas itself, as ``{name: cubic, hystart: 2}``."""


@dataclass(frozen=True)
class OneCell:
    """A scenario with one of its cells. It makes no claim: claims are about the whole scenario."""

    scenario: Scenario
    cell: Cell
    expect: Sequence[Expectation] = field(default=())
    summary: Sequence[Shown] = field(default=())

    @property
    def title(self) -> str:
        """Of the scenario."""
        return self.scenario.title

    @property
    def text(self) -> str:
        """Of the scenario."""
        return self.scenario.text

    @property
    def file(self) -> str:
        """Of the scenario."""
        return self.scenario.file

    def cells(self) -> list[Cell]:
        """The single cell."""
        return [self.cell]


def choose(scenario: Scenario, text: str) -> OneCell:
    """The cell that ``text`` names: its id, or ``factor=value,...`` (and ``repeat=1``; default: the first repeat).

    Raises:
        click.BadParameter: no cell matches, or several do.
    """
    cells = scenario.cells()
    found = [cell for cell in cells if cell.id == text]
    if not found:
        found = _by_factors(scenario, cells, text)
    first = min(cell.repeat for cell in found)
    kept = [cell for cell in found if cell.repeat == first]
    if len(kept) > 1:
        free = [name for name in scenario.factors if len({cell.factors[name] for cell in kept}) > 1]
        raise click.BadParameter(
            f"{text!r} selects {len(kept)} cells ({_some(cell.id for cell in kept)}); add {', '.join(free)}",
            param_hint=_HINT,
        )
    return OneCell(scenario, kept[0])


def _by_factors(scenario: Scenario, cells: Sequence[Cell], text: str) -> list[Cell]:
    from weir.cli._factors import is_named, short_names
    from weir.metrics.errors import nearest

    if "=" not in text:
        ids = [cell.id for cell in cells]
        raise click.BadParameter(f"no cell {text!r} ({_some(ids)}).{nearest(text, ids)}", param_hint=_HINT)
    found = list(cells)
    for word in re.split(_NEXT, text):
        name, _, value = (part.strip() for part in word.partition("="))
        known = [*scenario.factors, "repeat"]
        if name not in known:
            raise click.BadParameter(
                f"no factor {name!r} ({', '.join(known)}).{nearest(name, known)}", param_hint=_HINT
            )
        have = {cell.id: str(cell.repeat) if name == "repeat" else cell.factors[name] for cell in cells}
        short = short_names(have.values())
        found = [cell for cell in found if is_named(have[cell.id], short[have[cell.id]], value)]
        if not found:
            values = list(dict.fromkeys(have.values()))
            raise click.BadParameter(f"no cell is {text!r}: {name} is {_some(values)}", param_hint=_HINT)
    return found


def _some(values: Iterable[str]) -> str:
    found = list(values)
    return ", ".join(found[:_FEW]) + (", ..." if len(found) > _FEW else "")
