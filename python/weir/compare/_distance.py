"""Distances between two time series, on one grid of instants.

Two distances answer two questions:

- **trace**: the normalised mean absolute difference, sum |a - b| / sum (|a| + |b|)/2. It compares instant by instant,
  so a saw-tooth that is shifted by half a period is far away. It is twice the dissimilarity of Bray and Curtis
  (Ecological Monographs 27, 1957): symmetric, 0 for equal series only, the same in any unit, and at most 2.
- **values**: the 1-Wasserstein distance of the distributions of the values, over the same mean. It ignores the time of
  a value, and so the phase of a saw-tooth. On one grid it is the mean absolute difference of the sorted values
  (Vallender, Theory of Probability and its Applications 18, 1973). The sorted matching of values is the nearest one,
  and instant by instant is another matching, so this distance never exceeds the other.

A distance of 0.05 means: on average, the two differ by 5 % of their mean.
"""

from __future__ import annotations

import math

import numpy as np

from weir.metrics.results import Floats, Ints

__all__ = ["grid", "hold", "rates", "trace_distance", "value_distance"]


def trace_distance(a: Floats, b: Floats, floor: float = 0.0) -> float:
    """The normalised mean absolute difference of two series of one length; ``nan`` if they are empty.

    Series with a mean below ``floor`` are compared with the floor instead of the mean.

    Raises:
        ValueError: the lengths differ.
    """
    return _normalised(a, b, np.abs(a - b) if len(a) == len(b) else _refuse(a, b), floor)


def value_distance(a: Floats, b: Floats, floor: float = 0.0) -> float:
    """The normalised 1-Wasserstein distance of the values of two series of one length; ``nan`` if they are empty.

    ``floor`` as for :func:`trace_distance`.

    Raises:
        ValueError: the lengths differ.
    """
    return _normalised(a, b, np.abs(np.sort(a) - np.sort(b)) if len(a) == len(b) else _refuse(a, b), floor)


def _refuse(a: Floats, b: Floats) -> Floats:
    raise ValueError(f"series of {len(a)} and {len(b)} values: expected one grid")


def _normalised(a: Floats, b: Floats, apart: Floats, floor: float) -> float:
    if len(a) == 0:
        return math.nan
    scale = max(float(np.mean(np.abs(a)) + np.mean(np.abs(b))) / 2, floor)
    return float(np.mean(apart)) / scale if scale > 0 else 0.0


def grid(from_ns: int, to_ns: int, step_ns: int) -> Ints:
    """The multiples of ``step_ns`` after ``from_ns``, up to ``to_ns``."""
    return np.arange(from_ns // step_ns + 1, to_ns // step_ns + 1, dtype=np.int64) * step_ns


def hold(times_ns: Ints, values: Floats, instants_ns: Ints) -> Floats:
    """Samples a state at ``instants_ns``: its last value up to then; ``nan`` before the first."""
    at = np.searchsorted(times_ns, instants_ns, side="right") - 1
    if len(values) == 0:
        return np.full(len(instants_ns), math.nan)
    held: Floats = np.where(at >= 0, values[np.maximum(at, 0)], math.nan)
    return held


def rates(ends_ns: Ints, amounts: Floats, step_ns: int, instants_ns: Ints) -> Floats:
    """Converts amounts of intervals to rates (per second) in the intervals that end at the evenly spaced
    ``instants_ns``.

    Spreads each amount evenly over its interval: ``step_ns``, or the time since the previous one if that is less. The
    sum is the same on any grid.
    """
    if len(ends_ns) == 0 or len(instants_ns) == 0:
        return np.zeros(len(instants_ns))
    starts = np.maximum(ends_ns - step_ns, np.concatenate([[ends_ns[0] - step_ns], ends_ns[:-1]]))
    knots = np.column_stack([starts, ends_ns]).ravel().astype(np.float64)
    sums = np.cumsum(amounts)
    heights = np.column_stack([np.concatenate([[0.0], sums[:-1]]), sums]).ravel()
    width = int(instants_ns[1] - instants_ns[0]) if len(instants_ns) > 1 else step_ns
    edges = np.concatenate([[instants_ns[0] - width], instants_ns]).astype(np.float64)
    found: Floats = np.diff(np.interp(edges, knots, heights)) / (width / 1e9)
    return found
