"""Evaluates one metric in one window: calls the metric function and applies the statistics in its name."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weir.metrics.errors import MetricError
from weir.metrics.reference import Reference
from weir.metrics.results import Axis, Binned, Distribution, Floats, Result, Sample, Series, Values
from weir.metrics.statistics import of_bins, over_members, over_time
from weir.metrics.window import Window

__all__ = ["Measured", "Scalar", "measure", "result", "to_scalar"]

FindBaseline = Callable[[Mapping[str, str]], Window]
"""Returns the window of the cell with these factor values; other factors and the repeat stay."""


@dataclass(frozen=True)
class Measured:
    """Values of a metric in one window: one per member, or one row of bins per member."""

    axis: Axis
    members: Sequence[int]
    values: Floats
    """Shape (members,), or (members, bins) for a distribution."""
    censored: NDArray[np.bool_]
    edges: Floats | None = None
    stat: str = "mean"
    """How the members are combined into one value (see :func:`to_scalar`)."""


@dataclass(frozen=True)
class Scalar:
    """One value. ``censored``: the window ended first and the true value is larger."""

    value: float
    censored: bool = False


def result(reference: Reference, window: Window, find_baseline: FindBaseline) -> Result:
    """Returns the result of the metric's function in ``window``, before any statistic.

    Raises:
        MetricError: the metric cannot be computed on this run.
    """
    metric = reference.metric
    arguments: dict[str, object] = {param.name: param.default for param in metric.params}
    arguments |= dict(reference.arguments)
    baseline = arguments.get("baseline")
    if isinstance(baseline, Mapping):
        arguments["baseline"] = find_baseline(baseline)
    try:
        return metric.function(window, **{_keyword(name): value for name, value in arguments.items()})
    except MetricError as error:
        raise MetricError(f"{reference.text}: {error}") from error


def _keyword(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


def measure(reference: Reference, window: Window, find_baseline: FindBaseline, split_flows: bool = False) -> Measured:
    """Returns the metric in ``window`` with its statistics over time applied; ``split_flows`` keeps flows of a sample
    apart.

    Raises:
        MetricError: the metric cannot be computed on this run.
    """
    found = result(reference, window, find_baseline)
    stats = reference.stats
    if isinstance(found, Series):
        return _series(found, stats)
    if isinstance(found, Sample):
        return _sample(found, stats[0] if stats else "mean", window, split_flows)
    if isinstance(found, Binned):
        return _binned(found, stats[0] if stats else "mean", split_flows)
    if isinstance(found, Distribution):
        none = np.zeros(len(found.members), dtype=bool)
        return Measured(found.axis, found.members, found.shares, none, found.edges)
    return _values(found, stats[0] if stats else "mean")


def to_scalar(measured: Measured, text: str) -> Scalar:
    """Combines all members: their minimum or maximum if that is the statistic, else their mean.

    Undefined members are left out. The result is censored if any member is, except for a minimum whose member is not.

    Raises:
        MetricError: the metric is a distribution.
    """
    if measured.edges is not None:
        raise MetricError(
            f"{text} is a distribution, not a number; see goodput.share, goodput.mode_share or a percentile"
        )
    if measured.stat in ("min", "max", "mean", "sum"):
        value = over_members(measured.values, measured.stat)
    else:
        value = over_time(measured.values, measured.stat)
    if not measured.censored.any():
        return Scalar(value)
    if measured.stat == "min":
        sure = measured.values[~measured.censored]
        return Scalar(value, not (len(sure) and np.nanmin(sure) <= value))
    return Scalar(value, True)


def _series(found: Series, stats: tuple[str, ...]) -> Measured:
    stat = stats[0] if stats else found.default
    weights: Sequence[Floats | None] = found.weights if found.weights is not None else [None] * len(found.values)
    values = np.array([over_time(v, stat, w) for v, w in zip(found.values, weights, strict=True)], dtype=np.float64)
    across = stats[1] if len(stats) == 2 else (stat if stat in ("min", "max") else "mean")
    return Measured(found.axis, found.members, values, np.zeros(len(values), dtype=bool), None, across)


def _sample(found: Sample, stat: str, window: Window, split_flows: bool) -> Measured:
    if not split_flows:
        return Measured("all", [0], np.array([over_time(found.values, stat)]), np.zeros(1, dtype=bool))
    members = window.flow_ids
    values = np.array([over_time(found.values[found.owner == flow], stat) for flow in members], dtype=np.float64)
    return Measured("flow", members, values, np.zeros(len(members), dtype=bool))


def _binned(found: Binned, stat: str, split_flows: bool) -> Measured:
    if not split_flows:
        return Measured("all", [0], np.array([of_bins(found.histograms, stat)]), np.zeros(1, dtype=bool))
    values = np.array([of_bins([histogram], stat) for histogram in found.histograms], dtype=np.float64)
    return Measured("flow", found.members, values, np.zeros(len(values), dtype=bool))


def _values(found: Values, stat: str) -> Measured:
    censored = np.zeros(len(found.members), dtype=bool) if found.censored is None else found.censored
    return Measured(found.axis, found.members, found.values, censored, None, stat)
