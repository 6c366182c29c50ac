"""The errors of a method against another: one number a cell, of which 0 is perfect."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from weir.compare import Comparison

__all__ = ["ERRORS", "METRICS", "ErrorKind", "Summary", "cell_errors", "summarise"]

METRICS = ("goodput.aggregate.mean", "utilisation", "jain", "link.loss", "queue.delay", "completion.mean")
"""What is compared for the errors."""

_LEAST_LOSS = 1e-4
"""Below this, two rates of loss are equal: a few packets of a run."""


@dataclass(frozen=True)
class ErrorKind:
    """A kind of error."""

    name: str
    title: str
    definition: str
    aim: float | None
    """What nine cells in ten should keep within."""
    of: Callable[[Mapping[str, Any], Sequence[Mapping[str, Any]]], float]
    """Its value from the differences of a cell by metric, and the distances of its series."""


def _relative(metric: str) -> Callable[[Mapping[str, Any], Sequence[Mapping[str, Any]]], float]:
    def error(differences: Mapping[str, Any], _traces: Sequence[Mapping[str, Any]]) -> float:
        row = differences.get(metric)
        return math.nan if row is None or row["relative"] is None else abs(float(row["relative"]))

    return error


def _absolute(metric: str) -> Callable[[Mapping[str, Any], Sequence[Mapping[str, Any]]], float]:
    def error(differences: Mapping[str, Any], _traces: Sequence[Mapping[str, Any]]) -> float:
        row = differences.get(metric)
        return math.nan if row is None or row["difference"] is None else abs(float(row["difference"]))

    return error


def _factor(differences: Mapping[str, Any], _traces: Sequence[Mapping[str, Any]]) -> float:
    row = differences.get("link.loss")
    if row is None or row["a_value"] is None or row["b_value"] is None:
        return math.nan
    low, high = sorted(max(float(v), _LEAST_LOSS) for v in (row["a_value"], row["b_value"]))
    return high / low - 1


def _distance(trace: str, column: str) -> Callable[[Mapping[str, Any], Sequence[Mapping[str, Any]]], float]:
    def error(_differences: Mapping[str, Any], traces: Sequence[Mapping[str, Any]]) -> float:
        found = [float(row[column]) for row in traces if row["trace"] == trace and row[column] is not None]
        return float(np.mean(found)) if found else math.nan

    return error


ERRORS: tuple[ErrorKind, ...] = (
    ErrorKind("goodput_error", "Goodput", "relative difference of the aggregate mean goodput", 0.03,
              _relative("goodput.aggregate.mean")),
    ErrorKind("utilisation_error", "Utilisation", "relative difference of the mean utilisation of the bottleneck", 0.03,
              _relative("utilisation")),
    ErrorKind("jain_error", "Jain's index", "absolute difference", 0.03, _absolute("jain")),
    ErrorKind("loss_error", "Loss rate", "the larger over the smaller, less 1; rates under 0.01 % count as 0.01 %", 0.3,
              _factor),
    ErrorKind("queue_delay_error", "Queueing delay",
              "relative difference of the mean over packets; below 0.1 ms, relative to 0.1 ms", 0.1,
              _relative("queue.delay")),
    ErrorKind("completion_error", "Completion time", "relative difference of the mean over transfers", 0.08,
              _relative("completion.mean")),
    ErrorKind("cwnd_distance", "Congestion window", "distance of the traces instant by instant, mean over flows", None,
              _distance("cwnd", "distance")),
    ErrorKind("cwnd_value_distance", "Congestion window, values",
              "Wasserstein distance of the windows, which ignores when, mean over flows", None,
              _distance("cwnd", "value_distance")),
    ErrorKind("goodput_distance", "Goodput over time", "distance of the flows' traces instant by instant, mean", None,
              _distance("goodput", "distance")),
)  # fmt: skip


def cell_errors(comparison: Comparison) -> list[dict[str, float]]:
    """The errors of each cell of a comparison of two runs, by name; ``nan`` where undefined."""
    whole = comparison.differences.filter(pl.col("flow").is_null() & pl.col("phase").is_null())
    differences = {key[0]: part.to_dicts() for key, part in whole.partition_by("cell", as_dict=True).items()}
    traces = {key[0]: part.to_dicts() for key, part in comparison.traces.partition_by("cell", as_dict=True).items()}
    found = []
    for group in comparison.groups:
        by_metric = {row["metric"]: row for row in differences.get(group.number, ())}
        found.append({kind.name: kind.of(by_metric, traces.get(group.number, [])) for kind in ERRORS})
    return found


@dataclass(frozen=True)
class Summary:
    """One kind of error over all cells in which it is defined."""

    median: float
    p90: float
    worst: float
    cells: int
    within: float | None
    """Share of the cells that keep within the aim; none without an aim."""

    def to_json(self) -> dict[str, float | int | None]:
        """The summary as JSON types."""
        return {**self.__dict__}


def summarise(kind: ErrorKind, values: Sequence[float]) -> Summary | None:
    """Median, 90th percentile (linear between order statistics) and worst; none where no cell defines the error."""
    known = sorted(v for v in values if not math.isnan(v))
    if not known:
        return None
    within = None if kind.aim is None else sum(v <= kind.aim for v in known) / len(known)
    return Summary(_quantile(known, 0.5), _quantile(known, 0.9), known[-1], len(known), within)


def _quantile(ordered: Sequence[float], part: float) -> float:
    """Linear between order statistics; infinite where it is next to an infinite error (one method got nothing)."""
    place = part * (len(ordered) - 1)
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return low if low == high else low + (high - low) * (place - math.floor(place))
