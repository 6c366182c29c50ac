"""The values of a run from which errors follow."""

from __future__ import annotations

import math
from collections.abc import Mapping

from weir.compare import measure_run, metric_of
from weir.run import Run
from weir.study.validation._errors import METRICS

__all__ = ["Values", "by_cell"]

Values = Mapping[str, float | None]
"""By metric."""


def by_cell(run: Run) -> dict[str, dict[str, float]]:
    """Metrics over the whole run by the cell's id; undefined ones are left out."""
    measured, _ = measure_run(run, [metric_of(text) for text in METRICS], [None], flows=False, strict=False)
    found: dict[str, dict[str, float]] = {}
    for (metric, _, _), cells in measured.items():
        for cell, value in cells.items():
            if not math.isnan(value.value):
                found.setdefault(cell, {})[metric] = value.value
    return found
