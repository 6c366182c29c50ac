"""``weir plan`` for methods with a real clock: the demands of each cell on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weir._duration import estimate_text
from weir.cli._common import console, emit_json, plural, print_table
from weir.plan import typed

if TYPE_CHECKING:
    from weir.engine import Cell
    from weir.methods import Capacity, Method, Need

__all__ = ["capacities", "show_capacities"]


def capacities(method: Method, cells: Sequence[Cell]) -> list[Capacity] | None:
    """The demands of ``cells``; ``None`` if any machine can carry them.

    Raises:
        weir.methods.MethodError: the measurement failed.
    """
    found = []
    for cell in cells:
        capacity = method.capacity(cell.plan())
        if capacity is None:
            return None
        found.append(capacity)
    return found


def show_capacities(cells: Sequence[Cell], found: Sequence[Capacity], *, as_json: bool) -> bool:
    """Prints the demands of ``cells``; returns whether the machine meets all of them."""
    seconds = [typed(cell.plan()).end_ns / 1e9 for cell in cells]
    if as_json:
        emit_json([_as_dict(*item) for item in zip(cells, found, seconds, strict=True)])
    else:
        _print(cells, found, seconds)
    return not any(capacity.missing for capacity in found)


def _as_dict(cell: Cell, capacity: Capacity, seconds: float) -> dict[str, object]:
    needs = [
        {"what": n.what, "asked": n.asked, "available": n.available, "unit": n.unit, "met": n.met}
        for n in capacity.needs
    ]
    return {"id": cell.id, "factors": dict(cell.factors), "seconds": seconds, "needs": needs, "basis": capacity.basis}


def _print(cells: Sequence[Cell], found: Sequence[Capacity], seconds: Sequence[float]) -> None:
    factors, needs = list(cells[0].factors), found[0].needs
    rows = [
        (cell.id, *cell.factors.values(), f"{s:g} s", *map(_asked, capacity.needs), _verdict(capacity))
        for cell, capacity, s in zip(cells, found, seconds, strict=True)
    ]
    head = ("cell", *factors, "time", *(need.what for need in needs), "")
    print_table(head, rows, right=range(1 + len(factors), 2 + len(factors) + len(needs)))
    out = console()
    out.print()
    for need in needs:
        unit = "" if need.unit.startswith("1") else need.unit  # "1/s" is said by "packets a second"
        out.print(f"this machine: {_scaled(need.available)}{unit} {need.what}")
    for basis in dict.fromkeys(capacity.basis for capacity in found):
        out.print(basis, style="dim")
    out.print(f"{plural(len(cells), 'cell')}, one after the other: {estimate_text(sum(seconds))} plus set-up")


def _asked(need: Need) -> str:
    return f"{_scaled(need.asked)}{'' if need.met else ' !'}"


def _verdict(capacity: Capacity) -> str:
    return f"too much: {', '.join(need.what for need in capacity.missing)}" if capacity.missing else "fits"


def _scaled(value: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= limit:
            return f"{value / (1000 if unit == 'k' else limit):.3g}{unit}"
    return f"{value:.3g}"
