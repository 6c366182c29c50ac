"""The share of chance in an error: the distance of two executions of one method that differ in their seeds only.

There are two sources. Repeats of both methods give a confidence interval of their difference; half of it is the
uncertainty of the difference. If one method is expensive and the other cheap, the cheap one is executed with further
seeds. Let s be the standard deviation of its values over n seeds. Two means over r repeats each of *equal* methods
differ by less than t(n-1) s sqrt(2/r) in 95 of 100 cases. A smaller error is not significant; a larger one shows that
the methods are not equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from weir.compare import Comparison, compare
from weir.metrics.statistics import student_t
from weir.run import Run
from weir.study.validation._errors import METRICS, sizes_of_chance

__all__ = ["chances", "own_chance"]

_LEVEL = 0.95


def own_chance(comparison: Comparison) -> list[dict[str, float]]:
    """Chance in each cell, from the repeats of both runs."""
    found = []
    for rows in _by_cell(comparison):
        halves = {m: (row["ci_high"] - row["ci_low"]) / 2 for m, row in rows.items() if row["ci_low"] is not None}
        found.append(sizes_of_chance(halves, {m: row["a_value"] for m, row in rows.items()}))
    return found


def chances(comparison: Comparison, seeds: Run) -> list[dict[str, float]]:
    """Chance in each cell, from a run of the method under test with further seeds."""
    reference = comparison.runs[0]
    label = "further seeds"
    spread = compare(
        [reference.run, seeds],
        labels=[reference.label, label],
        metrics=METRICS,
        phases=[None],
        flows=False,
        strict=False,
    )
    deviations: dict[tuple[tuple[str, str], ...], dict[str, tuple[float, int]]] = {}
    places = [tuple(group.factors.items()) for group in spread.groups]
    for row in spread.values.filter(run=label).to_dicts():
        if row["sd"] is not None and row["n"] > 1:
            deviations.setdefault(places[row["cell"]], {})[row["metric"]] = (row["sd"], row["n"])
    found = []
    for group, rows in zip(comparison.groups, _by_cell(comparison), strict=True):
        repeats = min(len(cells) for cells in group.cells.values())
        known = deviations.get(tuple(group.factors.items()), {})
        halves = {m: student_t(_LEVEL, n - 1) * sd * math.sqrt(2 / repeats) for m, (sd, n) in known.items()}
        found.append(sizes_of_chance(halves, {m: row["a_value"] for m, row in rows.items()}))
    return found


def _by_cell(comparison: Comparison) -> list[Mapping[str, Mapping[str, Any]]]:
    rows = comparison.differences.to_dicts()
    return [{r["metric"]: r for r in rows if r["cell"] == group.number} for group in comparison.groups]
