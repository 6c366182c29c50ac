"""Other results that the cells of a sweep might have had: numbers exchanged, moved within their limits, or graded."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from weir.metrics.bounds import Bounds
from weir.run import Cell

__all__ = ["Numbers", "Places", "changes", "made_up", "nearly_equal"]

Numbers = dict[str, dict[str, float]]
"""By cell and name: a metric's value."""
Move = Callable[[Bounds, float], float]
"""What a number becomes, given its limits."""

_SHADE = 1e-3
"""Relative difference of numbers that are as good as equal."""


@dataclass
class Places:
    """The cells of a sweep and its factors, and between which limits each number of a cell lies."""

    cells: Sequence[Cell]
    factors: Mapping[str, Sequence[str]]
    limits: dict[tuple[str, str], Bounds]


def made_up(limits: Bounds) -> float:
    """A number within its limits, where no result is stored."""
    return _at(0.6)(limits, 1.0)


def nearly_equal(numbers: Numbers) -> Iterator[Numbers]:
    """Numbers that differ by a thousandth from cell to cell: rising, and falling."""
    for step in (_SHADE, -_SHADE):
        yield {cell: dict.fromkeys(of, 0.5 * (1 + step * place)) for place, (cell, of) in enumerate(numbers.items())}


def changes(numbers: Numbers, places: Places) -> Iterator[Numbers]:
    """The numbers themselves, and what else they might be, the most sweeping changes first."""
    yield numbers
    names = sorted({name for of in numbers.values() for name in of})
    whole, *groups = _groups(numbers, places)
    yield from (_moved(numbers, places, name, whole, move) for name in names for move in (_at(0.0), _at(1.0)))
    for group in groups:
        for name in names:
            yield from _contrasts(numbers, places, name, group)
    for factor in places.factors:
        yield _mirrored(numbers, places, factor)
        yield from (_graded(numbers, places, factor, name, rising) for name in names for rising in (True, False))
    for group in (whole, *groups):
        yield from (_moved(numbers, places, name, group, move) for name in names for move in _MOVES)
    yield from _corners(numbers, places, names, whole)


def _corners(numbers: Numbers, places: Places, names: Sequence[str], group: frozenset[str]) -> Iterator[Numbers]:
    """Two metrics at once as small or as large as they can be: a quantity computed from both may need that."""
    for (one, other), (first, second) in itertools.product(
        itertools.combinations(names, 2), itertools.product((0.0, 1.0), repeat=2)
    ):
        yield _moved(_moved(numbers, places, one, group, _at(first)), places, other, group, _at(second))


def _at(share: float) -> Move:
    """The number at ``share`` of its range."""

    def move(limits: Bounds, value: float) -> float:
        low, high = _ends(limits, value)
        return low + share * (high - low)

    return move


def _times(scale: float) -> Move:
    """The number ``scale`` times as large, as far as its limits allow."""

    def move(limits: Bounds, value: float) -> float:
        low, high = _ends(limits, value)
        return min(max(scale * value, low), high)

    return move


def _ends(limits: Bounds, value: float) -> tuple[float, float]:
    """Finite limits; without a largest number, ten times the present one and more."""
    low = limits.low if math.isfinite(limits.low) else 0.0
    return low, limits.high if math.isfinite(limits.high) else 10 * abs(value) + 10


_MOVES = (*map(_at, (0.0, 1.0, 0.5, 0.25, 0.75, 0.05, 0.02)), *map(_times, (0.5, 0.8, 1.25, 2.0)))


def _contrasts(numbers: Numbers, places: Places, name: str, group: frozenset[str]) -> Iterator[Numbers]:
    """``name`` as large as it can be in some cells and as small in the others, and the other way round."""
    others = frozenset(numbers) - group
    for share in (0.0, 1.0):
        yield _moved(_moved(numbers, places, name, group, _at(share)), places, name, others, _at(1 - share))


def _groups(numbers: Numbers, places: Places) -> list[frozenset[str]]:
    """All cells, those with one value of a factor, and single ones."""
    cells = [cell for cell in places.cells if cell.id in numbers]
    found = {frozenset(numbers): None}
    for factor in places.factors:
        for value in dict.fromkeys(cell.factors.get(factor) for cell in cells):
            found[frozenset(cell.id for cell in cells if cell.factors.get(factor) == value)] = None
    return [*found, *(frozenset([cell.id]) for cell in cells)]


def _moved(numbers: Numbers, places: Places, name: str, cells: frozenset[str], move: Move) -> Numbers:
    return {
        cell: {
            key: move(places.limits[cell, key], value) if key == name and cell in cells else value
            for key, value in of.items()
        }
        for cell, of in numbers.items()
    }


def _graded(numbers: Numbers, places: Places, factor: str, name: str, rising: bool) -> Numbers:
    """``name`` spread over its range, from the first value of a factor to the last."""
    known = list(places.factors[factor])
    order = known if rising else known[::-1]
    changed = numbers
    for cell in places.cells:
        if name in numbers.get(cell.id, ()) and cell.factors.get(factor) in order:
            share = (order.index(cell.factors[factor]) + 0.5) / len(order)
            changed = _moved(changed, places, name, frozenset([cell.id]), _at(share))
    return changed


def _mirrored(numbers: Numbers, places: Places, factor: str) -> Numbers:
    """A factor's values in reverse: the last one's numbers are the first one's."""
    known = list(places.factors[factor])
    at = {tuple(cell.factors.items()): cell.id for cell in places.cells if cell.id in numbers}
    other = dict(zip(known, reversed(known), strict=True))
    changed = dict(numbers)
    for cell in places.cells:
        if cell.id in numbers and factor in cell.factors:
            theirs = at.get(tuple({**cell.factors, factor: other[cell.factors[factor]]}.items()), cell.id)
            changed[cell.id] = {name: numbers[theirs].get(name, value) for name, value in numbers[cell.id].items()}
    return changed
