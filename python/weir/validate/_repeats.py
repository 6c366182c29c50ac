"""Medians over repeats, where a reference runs on a real clock: one disturbed execution of three does not count."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from weir.compare import Comparison
from weir.compare._metrics import measure_run, metric_of
from weir.run import Cell, Run
from weir.validate._errors import METRICS

__all__ = ["medians"]

Values = Mapping[str, float | None]


def medians(comparison: Comparison) -> list[tuple[Values, Values]]:
    """The medians of each metric over the repeats of each cell: of the method under test, and of the reference."""
    reference, test = (_by_cell(entry.run) for entry in comparison.runs)
    labels = comparison.labels
    return [(_median(group.cells[labels[1]], test), _median(group.cells[labels[0]], reference))
            for group in comparison.groups]  # fmt: skip


def _by_cell(run: Run) -> dict[str, dict[str, float]]:
    """Metrics by the cell's id; those that are undefined are left out."""
    measured, _ = measure_run(run, [metric_of(text) for text in METRICS], [None], flows=False, strict=False)
    found: dict[str, dict[str, float]] = {}
    for (metric, _, _), cells in measured.items():
        for cell, value in cells.items():
            if not math.isnan(value.value):
                found.setdefault(cell, {})[metric] = value.value
    return found


def _median(cells: Sequence[Cell], values: Mapping[str, Mapping[str, float]]) -> Values:
    every = [values.get(cell.id, {}) for cell in cells]
    names = dict.fromkeys(name for one in every for name in one)
    return {name: statistics.median(one[name] for one in every if name in one) for name in names}
