"""Metrics: one definition each, computed from the tables of a run.

No module here reads a host or a scenario: a metric function receives only a :class:`~weir.metrics.window.Window`.
``catalogue`` lists the metrics, ``compute`` returns a frame, ``weir.metrics.expect`` judges claims.
``open_run`` opens a run that has all of these as methods.
"""

from __future__ import annotations

from weir.metrics.errors import MetricError
from weir.metrics.frame import compute
from weir.metrics.listing import catalogue_markdown
from weir.metrics.measured import MeasuredRun, MetricOptions, open_run
from weir.metrics.reference import Reference, parse_reference
from weir.metrics.registry import Category, MetricInfo, Param, View, catalogue, get, metric, names
from weir.metrics.statistics import Summary, summarise
from weir.metrics.timeseries import series

__all__ = [
    "Category",
    "MeasuredRun",
    "MetricError",
    "MetricInfo",
    "MetricOptions",
    "Param",
    "Reference",
    "Summary",
    "View",
    "catalogue",
    "catalogue_markdown",
    "compute",
    "get",
    "metric",
    "names",
    "open_run",
    "parse_reference",
    "series",
    "summarise",
]
