"""Medians over repeats, for a reference on a real clock: one disturbed execution of three does not count."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from weir.compare import Comparison
from weir.run import Cell
from weir.study.validation._values import Values, by_cell

__all__ = ["medians"]


def medians(comparison: Comparison) -> list[tuple[Values, Values]]:
    """The medians of each metric over the repeats of each cell: of the method under test, and of the reference."""
    reference, test = (by_cell(entry.run) for entry in comparison.runs)
    labels = comparison.labels
    return [(_median(group.cells[labels[1]], test), _median(group.cells[labels[0]], reference))
            for group in comparison.groups]  # fmt: skip


def _median(cells: Sequence[Cell], values: Mapping[str, Mapping[str, float]]) -> Values:
    every = [values.get(cell.id, {}) for cell in cells]
    names = dict.fromkeys(name for one in every for name in one)
    return {name: statistics.median(one[name] for one in every if name in one) for name in names}
