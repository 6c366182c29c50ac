"""Compares runs side by side: how much methods, stacks, seeds or versions differ.

``compare`` returns a :class:`Comparison`: metrics with differences and their confidence intervals, distances between
time series, verdicts of claims, and a report. It executes no run. The package itself is callable:
``weir.compare(...)``.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from weir.compare._align import Alignment, Group, Labelled, Unaligned, independent
from weir.compare._claims import Claim, agreement
from weir.compare._comparison import Comparison, compare
from weir.compare._distance import trace_distance, value_distance
from weir.compare._limits import Limit, parse_limit
from weir.compare._majority import Agreement, Tolerance, apart, names, of_figures, of_outcomes, tolerance_of
from weir.compare._metrics import COMPARED, Metric, measure_run, metric_of
from weir.compare._statistics import Difference, difference
from weir.compare.errors import CompareError

__all__ = [
    "COMPARED",
    "Agreement",
    "Alignment",
    "Claim",
    "CompareError",
    "Comparison",
    "Difference",
    "Group",
    "Labelled",
    "Limit",
    "Metric",
    "Tolerance",
    "Unaligned",
    "agreement",
    "apart",
    "compare",
    "difference",
    "independent",
    "measure_run",
    "metric_of",
    "names",
    "of_figures",
    "of_outcomes",
    "parse_limit",
    "tolerance_of",
    "trace_distance",
    "value_distance",
]


class _Callable(ModuleType):
    """Makes the package callable: a notebook calls ``weir.compare(...)``."""

    def __call__(self, *args: Any, **kwargs: Any) -> Comparison:
        return compare(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
