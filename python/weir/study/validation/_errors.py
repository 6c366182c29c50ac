"""The errors of a method against another: one number per cell; 0 is perfect."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from weir import methods
from weir.compare import Comparison
from weir.metrics.statistics import quantile_interval

__all__ = [
    "ERRORS",
    "METRICS",
    "Aim",
    "ErrorKind",
    "Summary",
    "aims",
    "cell_errors",
    "errors_of",
    "sizes_of_chance",
    "summarise",
]

METRICS = ("goodput.aggregate.mean", "utilisation", "jain", "link.loss", "queue.delay", "completion.mean")
"""The metrics from which the errors follow."""

_MIN_LOSS = 1e-4
"""Smaller loss rates count as equal: they are a few packets of a run."""


_FLOORS = {"link.loss": _MIN_LOSS, "queue.delay": 1e-4, "completion.mean": 1e-3}
"""In the metric's unit: errors of smaller values are relative to the floor instead of the value."""


@dataclass(frozen=True)
class ErrorKind:
    """A kind of error."""

    name: str
    title: str
    definition: str
    of: Callable[[Mapping[str, Any], Sequence[Mapping[str, Any]]], float]
    """Computes the error from the differences of a cell by metric, and the distances of its series."""
    scalar: bool = True
    """Whether it follows from metrics alone, without series."""


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
    low, high = sorted(max(float(v), _MIN_LOSS) for v in (row["a_value"], row["b_value"]))
    return high / low - 1


def _distance(trace: str, column: str) -> Callable[[Mapping[str, Any], Sequence[Mapping[str, Any]]], float]:
    def error(_differences: Mapping[str, Any], traces: Sequence[Mapping[str, Any]]) -> float:
        found = [float(row[column]) for row in traces if row["trace"] == trace and row[column] is not None]
        return float(np.mean(found)) if found else math.nan

    return error


ERRORS: tuple[ErrorKind, ...] = (
    ErrorKind("goodput_error", "Goodput", "relative difference of the aggregate mean goodput",
              _relative("goodput.aggregate.mean")),
    ErrorKind("utilisation_error", "Utilisation", "relative difference of the mean utilisation of the bottleneck",
              _relative("utilisation")),
    ErrorKind("jain_error", "Jain's index", "absolute difference", _absolute("jain")),
    ErrorKind("loss_error", "Loss rate", "the larger over the smaller, less 1; rates under 0.01 % count as 0.01 %",
              _factor),
    ErrorKind("queue_delay_error", "Queueing delay",
              "relative difference of the mean over packets; below 0.1 ms, relative to 0.1 ms",
              _relative("queue.delay")),
    ErrorKind("completion_error", "Completion time", "relative difference of the mean over transfers",
              _relative("completion.mean")),
    ErrorKind("cwnd_distance", "Congestion window", "distance of the traces instant by instant, mean over flows",
              _distance("cwnd", "distance"), scalar=False),
    ErrorKind("cwnd_value_distance", "Congestion window, values",
              "Wasserstein distance of the windows, which ignores time, mean over flows",
              _distance("cwnd", "value_distance"), scalar=False),
    ErrorKind("goodput_distance", "Goodput over time", "distance of the flows' traces instant by instant, mean",
              _distance("goodput", "distance"), scalar=False),
)  # fmt: skip


def errors_of(test: Mapping[str, float | None], reference: Mapping[str, float | None]) -> dict[str, float]:
    """The errors that follow from values of metrics alone; ``nan`` if undefined."""
    rows = {}
    for text in METRICS:
        a, b = reference.get(text), test.get(text)
        if a is None or b is None:
            continue
        scale = max(abs(a), _FLOORS.get(text, 0.0))
        relative = (b - a) / scale if scale else math.copysign(math.inf, b - a) if b != a else 0.0
        rows[text] = {"a_value": a, "b_value": b, "difference": b - a, "relative": relative}
    return {kind.name: kind.of(rows, ()) for kind in ERRORS if kind.scalar}


def cell_errors(comparison: Comparison) -> list[dict[str, float]]:
    """The errors of each cell of a comparison of two runs, by name; ``nan`` if undefined."""
    whole = comparison.differences.filter(pl.col("flow").is_null() & pl.col("phase").is_null())
    differences = {key[0]: part.to_dicts() for key, part in whole.partition_by("cell", as_dict=True).items()}
    traces = {key[0]: part.to_dicts() for key, part in comparison.traces.partition_by("cell", as_dict=True).items()}
    found = []
    for group in comparison.groups:
        by_metric = {row["metric"]: row for row in differences.get(group.number, ())}
        found.append({kind.name: kind.of(by_metric, traces.get(group.number, [])) for kind in ERRORS})
    return found


_SCALED = {"goodput_error": "goodput.aggregate.mean", "utilisation_error": "utilisation", "loss_error": "link.loss",
           "queue_delay_error": "queue.delay", "completion_error": "completion.mean"}  # fmt: skip


def sizes_of_chance(halves: Mapping[str, float], reference: Mapping[str, float | None]) -> dict[str, float]:
    """The error that chance alone makes, by kind; unknown ones are left out.

    Args:
        halves: half of the 95 % interval of a difference between two executions that differ in their seeds only, by
            metric, in its unit.
        reference: the values that the errors are relative to, by metric.
    """
    found = {"jain_error": halves["jain"]} if "jain" in halves else {}
    for kind, metric in _SCALED.items():
        value, half = reference.get(metric), halves.get(metric)
        scale = max(abs(value), _FLOORS.get(metric, 0.0)) if value is not None else 0.0
        if half is not None and scale > 0:
            found[kind] = half / scale
    return {kind: size for kind, size in found.items() if not math.isnan(size)}


@dataclass(frozen=True)
class Aim:
    """Upper limits that errors should meet; ``None``: no aim."""

    median: float | None
    p90: float | None


_SHARES = {"loss_error": Aim(None, 0.3), "queue_delay_error": Aim(None, 0.1), "completion_error": Aim(0.03, 0.08)}
_VIRTUAL = {"goodput_error": Aim(0.02, 0.05), "utilisation_error": Aim(0.02, 0.05), "jain_error": Aim(None, 0.02)}
_REAL = {"goodput_error": Aim(None, 0.03), "utilisation_error": Aim(None, 0.03), "jain_error": Aim(None, 0.03)}


def aims(reference: str) -> Mapping[str, Aim]:
    """The aims against a reference, by kind of error; they depend on its clock, virtual or real."""
    try:
        real = methods.get(reference).clock == "real"
    except methods.UnknownMethodError:  # a document may name a method that is not here
        real = False
    return {**(_REAL if real else _VIRTUAL), **_SHARES}


@dataclass(frozen=True)
class Summary:
    """One kind of error over all cells in which it is defined."""

    median: float
    p90: float
    worst: float
    cells: int
    within: float | None
    """Share of the cells within the aim of the 90th percentile; ``None`` without an aim."""
    aim: Aim | None = None
    by_chance: int | None = None
    """Number of the cells beyond that aim that chance alone explains; ``None`` if no cell tells."""
    median_interval: tuple[float, float] = (math.nan, math.nan)
    """At 95 %, of the median of the population that the sample is from; infinite if the sample is too small."""
    p90_interval: tuple[float, float] = (math.nan, math.nan)

    @property
    def met(self) -> bool | None:
        """Whether the aims are met; ``None`` without an aim."""
        if self.aim is None:
            return None
        return all(most is None or value <= most for value, most in
                   ((self.median, self.aim.median), (self.p90, self.aim.p90)))  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """The summary as JSON types."""
        aim = None if self.aim is None else {"median": self.aim.median, "p90": self.aim.p90}
        numbers = {"median": self.median, "p90": self.p90, "worst": self.worst, "cells": self.cells}
        intervals = {"median_interval": list(self.median_interval), "p90_interval": list(self.p90_interval)}
        return {
            **numbers,
            **{name: [end if math.isfinite(end) else None for end in ends] for name, ends in intervals.items()},
            "within": self.within,
            "aim": aim,
            "met": self.met,
            "beyond_by_chance": self.by_chance,
        }


def summarise(values: Sequence[float], aim: Aim | None = None, chances: Sequence[float | None] = ()) -> Summary | None:
    """Median, 90th percentile (linear between order statistics) and worst; ``None`` if no cell defines the error.

    :func:`weir.metrics.statistics.quantile_interval` gives the intervals of the first two and treats the cells as a
    random sample. Errors are not negative, so an end below all of them is 0. ``chances`` are the errors that chance
    alone makes, if known.
    """
    known = sorted(v for v in values if not math.isnan(v))
    if not known:
        return None
    most = None if aim is None else aim.p90
    within = None if most is None else sum(v <= most for v in known) / len(known)
    by_chance = None
    if most is not None and any(size is not None for size in chances):
        by_chance = sum(v > most and size is not None and v <= size for v, size in zip(values, chances, strict=True))
    return Summary(
        _quantile(known, 0.5),
        _quantile(known, 0.9),
        known[-1],
        len(known),
        within,
        aim,
        by_chance,
        _interval(known, 0.5),
        _interval(known, 0.9),
    )


def _interval(ordered: Sequence[float], part: float) -> tuple[float, float]:
    low, high = quantile_interval(np.array(ordered), part)
    return max(low, 0.0), high


def _quantile(ordered: Sequence[float], part: float) -> float:
    """Linear between order statistics; infinite beside an infinite error (one method got nothing)."""
    place = part * (len(ordered) - 1)
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return low if low == high else low + (high - low) * (place - math.floor(place))
