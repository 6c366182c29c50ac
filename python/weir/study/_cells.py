"""The cells of a scenario to execute: all, or an evenly spread sample."""

from __future__ import annotations

import random
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weir.compare import independent
from weir.engine import Cell
from weir.scenario import Expectation, Scenario, Shown
from weir.study._covering import covering_array
from weir.study.errors import StudyError

__all__ = ["Chosen", "covering", "sample"]

_MAX_RUNS = 100_000
"""As many as a whole scenario may have."""


@dataclass(frozen=True)
class Chosen:
    """Selected cells of a scenario, in the form that the engine executes."""

    title: str
    text: str
    file: str
    chosen: tuple[Cell, ...]
    factors: tuple[str, ...]
    """The factors that distinguish cells."""
    expect: Sequence[Expectation] = ()
    summary: Sequence[Shown] = ()

    def cells(self) -> Sequence[Cell]:
        """The selected cells, in the order of the sweep."""
        return self.chosen

    def without(self, ids: Container[str]) -> Chosen:
        """Removes some cells."""
        return replace(self, chosen=tuple(cell for cell in self.chosen if cell.id not in ids))


def sample(scenario: Scenario, number: int | None, seed: int) -> Chosen:
    """The scenario with ``number`` combinations of its factors (``None``: all), with all their repeats.

    The sample is a Latin hypercube (McKay, Beckman and Conover, Technometrics 21, 1979): the counts of a factor's
    values differ by at most one. The same seed gives the same cells.

    Raises:
        StudyError: fewer than one combination is asked for.
    """
    cells = scenario.combinations()
    if number is not None and number < 1:
        raise StudyError(f"{number} cells: expected at least 1")
    combinations = {tuple(cell.factors.items()): dict(cell.factors) for cell in cells}
    if number is None or number >= len(combinations):
        number = len(combinations)
    names = independent(scenario.factors, list(combinations.values()))
    wanted = _hypercube(names, scenario.factors, list(combinations.values()), number, random.Random(seed))
    return _chosen(scenario, wanted, names)


def covering(scenario: Scenario, times: int, seed: int) -> Chosen:
    """The scenario with few combinations of its factors, in which every two values of two factors meet ``times`` times.

    They meet less often only if the scenario has fewer combinations with both. All repeats are kept; the same seed
    gives the same cells.
    """
    cells = scenario.combinations()
    names = independent(scenario.factors, [cell.factors for cell in cells])
    places = {tuple(cell.factors[name] for name in names): tuple(cell.factors.items()) for cell in cells}
    rows = covering_array([scenario.factors[name] for name in names], times, seed, places)
    return _chosen(scenario, {places[row] for row in rows}, names)


def _chosen(scenario: Scenario, wanted: Container[tuple[tuple[str, str], ...]], names: tuple[str, ...]) -> Chosen:
    some = [cell for cell in scenario.combinations() if tuple(cell.factors.items()) in wanted]
    if len(some) * scenario.repeat > _MAX_RUNS:
        runs = f"{len(some) * scenario.repeat} runs ({len(some)} cells, {scenario.repeat} repeats)"
        raise StudyError(f"{runs}: at most {_MAX_RUNS}")
    return Chosen(scenario.title, scenario.text, scenario.file, tuple(scenario.repeats(some)), names)


def _hypercube(
    names: Sequence[str],
    factors: Mapping[str, Sequence[str]],
    cells: Sequence[Mapping[str, str]],
    number: int,
    rng: random.Random,
) -> set[tuple[tuple[str, str], ...]]:
    places = {tuple(cell[name] for name in names): tuple(cell.items()) for cell in cells}
    columns = [_dealt(factors[name], number, rng) for name in names]
    found: dict[Any, None] = {}
    for place in zip(*columns, strict=True):
        if place in places:
            found[places[place]] = None
    rest = [key for key in places.values() if key not in found]
    rng.shuffle(rest)  # values that came twice
    return set([*found, *rest][:number])


def _dealt(values: Sequence[str], number: int, rng: random.Random) -> list[str]:
    order = list(values)
    rng.shuffle(order)
    column = [order[i % len(order)] for i in range(number)]
    rng.shuffle(column)
    return column
