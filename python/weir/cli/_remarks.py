"""The methods' remarks on a scenario before it is executed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weir.cli._common import console

if TYPE_CHECKING:
    from weir.methods import Method
    from weir.scenario import Cell

__all__ = ["Said", "print_remarks", "said"]

_MAX_CELLS = 50
"""Maximum number of cells examined; of more, a regular selection."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?: (?:ms|s|min|h|days?)\b)?")
"""A number, with its unit if it is a time: an estimate may be in another one."""
_MAX_WORK = 50_000
"""Maximum work of compiling them (``weir.scenario.Cell.weighed``); the cell that exceeds it is the last."""


@dataclass
class Said:
    """What the methods say of a scenario before it is executed."""

    notes: list[str]
    """Their remarks, each once."""
    unfit: list[str]
    """What no method can execute, with the reasons, each once."""


def said(cells: Sequence[Cell]) -> Said:
    """What the methods say of ``cells``; holds one plan at a time.

    Raises:
        ScenarioError: a cell has no plan.
    """
    from weir import methods

    # A method that cannot be loaded has no remarks.
    known = [(name, method) for name in methods.names() if (method := methods.registered(name)) is not None]
    found: dict[str, _Remarks] = {name: _Remarks() for name, _ in known}
    unfit: dict[str, str] = {}
    left = _MAX_WORK
    for cell in cells[:: -(-len(cells) // _MAX_CELLS) or 1]:
        plan, work = cell.weighed()
        _look(plan, known, found)
        if (why := _unfit(plan, known)) is not None:
            unfit.setdefault(why, _called(cell))
        left -= work
        if left < 0:
            break
    notes = [f"method {name}: {text}" for name, remarks in found.items() for text in remarks.texts]
    return Said(notes, [f"{where}no method can execute this: {why}" for why, where in unfit.items()])


def _called(cell: Cell) -> str:
    factors = ", ".join(f"{name} = {value}" for name, value in cell.factors.items())
    return f"{factors}: " if factors else ""


def _unfit(plan: Mapping[str, Any], known: Sequence[tuple[str, Method]]) -> str | None:
    """Why no method can execute ``plan``; ``None`` if one can. One with an inventory can no more than the others."""
    reasons: dict[str, list[str]] = {}
    for name, method in known:
        if method.takes_inventory:
            continue
        if (why := method.unfit(plan)) is None:
            return None
        reasons.setdefault(why, []).append(name)
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in reasons.items()) or None


def _look(plan: Mapping[str, Any], known: Sequence[tuple[str, Method]], found: Mapping[str, _Remarks]) -> None:
    """Adds the methods' remarks on ``plan`` to ``found``."""
    from weir.engine import estimate

    packets = estimate(dict(plan)).packets
    for name, method in known:
        found[name].add(_remarks(method, plan, packets), packets)


class _Remarks:
    """Remarks on several cells: of those that differ in numbers only, that on the cell with the most packets."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, dict[str, None]]] = {}

    def add(self, texts: Iterable[str], packets: int) -> None:
        """Adds the remarks on a cell."""
        for text in texts:
            outline = _NUMBER.sub("#", text)
            most, known = self._found.get(outline, (-1, {}))
            order = [text, *known] if packets > most else [*known, text]
            self._found[outline] = (max(most, packets), dict.fromkeys(order))

    @property
    def texts(self) -> Iterator[str]:
        """The remarks, each once."""
        for _, known in self._found.values():
            more = " (the largest cell; others have other numbers)" if len(known) > 1 else ""
            yield f"{next(iter(known))}{more}"


def _remarks(method: Method, plan: Mapping[str, Any], packets: int) -> Iterator[str]:
    """The remarks of ``method`` on a plan, and on what it cannot record of it."""
    from weir.methods import NO_ACKS

    yield from method.remarks(plan, packets)
    if method.lacks_acks(plan):
        yield f"it {NO_ACKS}"


def print_remarks(method: Method, plans: Sequence[Mapping[str, Any]]) -> None:
    """Prints the remarks of ``method`` on ``plans``."""
    for text in _said(method, plans):
        console().print(f"note: {text}", style="dim")


def _said(method: Method, plans: Sequence[Mapping[str, Any]]) -> list[str]:
    from weir.engine import estimate

    found = _Remarks()
    for plan in plans:
        packets = estimate(dict(plan)).packets
        found.add(_remarks(method, plan, packets), packets)
    return list(found.texts)
