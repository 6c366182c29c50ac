"""Results of metric functions: values and their members.

Times are nanoseconds since the start of the run; values are in the metric's unit. ``nan`` means undefined and becomes
null in a frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Axis",
    "Binned",
    "Distribution",
    "Floats",
    "Histogram",
    "Ints",
    "Result",
    "Sample",
    "Series",
    "Values",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Axis = Literal["flow", "node", "link", "all"]
"""Kind of the members of a result; ``all``: the selected flows as one whole."""


@dataclass(frozen=True)
class Series:
    """Values over time, one array per member. Lengths differ: each member has its own active time."""

    axis: Axis
    members: Sequence[int]
    times_ns: Sequence[Ints]
    """Ends of the intervals, or instants; ``times_ns[k]`` belongs to ``values[k]``."""
    values: Sequence[Floats]
    weights: Sequence[Floats] | None = None
    """Weights of the mean, deviation and percentiles over time; ``None``: equal weights."""
    default: str = "mean"
    """The statistic if the metric's name asks for none."""


@dataclass(frozen=True)
class Sample:
    """A population of values, such as completion times; ``owner[k]`` is the flow of ``values[k]``."""

    owner: Ints
    values: Floats


@dataclass(frozen=True)
class Histogram:
    """A population known only by its counts in bins, its sum and its extremes."""

    low: Floats
    high: Floats
    """Smallest and largest value of each bin; shape (bins,). Bins may repeat and have any order."""
    counts: Floats
    total: float
    """Sum of the values."""
    least: float
    greatest: float
    """``nan`` for an empty population, as is ``least``."""


@dataclass(frozen=True)
class Binned:
    """A population of values, such as the delays of packets, as one histogram per flow."""

    members: Sequence[int]
    histograms: Sequence[Histogram]


@dataclass(frozen=True)
class Values:
    """One value per member."""

    axis: Axis
    members: Sequence[int]
    values: Floats
    censored: NDArray[np.bool_] | None = None
    """True where the window ended before the event: the true value is larger."""


@dataclass(frozen=True)
class Distribution:
    """Shares of time or of a population in bins, one row per member; one more edge than bins."""

    axis: Axis
    members: Sequence[int]
    edges: Floats
    shares: Floats
    """Shape (members, bins); each row sums to 1, or is all nan."""


Result = Series | Sample | Binned | Values | Distribution
