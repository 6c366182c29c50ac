"""What a metric function returns: values, and what they belong to.

All times are nanoseconds since the start of the run; all values are in the unit that the metric declares. ``nan`` is
"undefined here" and becomes null in a frame.
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
"""What the members of a result are; ``all`` is the one whole of the flows selected."""


@dataclass(frozen=True)
class Series:
    """Values over time, one array a member (lengths differ: each member has its own active time)."""

    axis: Axis
    members: Sequence[int]
    times_ns: Sequence[Ints]
    """Ends of the intervals, or instants; ``times_ns[k]`` belongs to ``values[k]``."""
    values: Sequence[Floats]
    weights: Sequence[Floats] | None = None
    """Weights of the mean, deviation and percentiles over time; ``None``: all alike."""
    default: str = "mean"
    """The statistic where the name of the metric asks for none."""


@dataclass(frozen=True)
class Sample:
    """A population of values, such as completion times; ``owner[k]`` is the flow that ``values[k]`` comes from."""

    owner: Ints
    values: Floats


@dataclass(frozen=True)
class Histogram:
    """A population of which only the counts in bins are known, with its sum and its extremes."""

    low: Floats
    high: Floats
    """Least and greatest value that belong to each bin; shape (bins,), in any order, a bin perhaps several times."""
    counts: Floats
    total: float
    """Sum of the values."""
    least: float
    greatest: float
    """``nan`` of an empty population, as is ``least``."""


@dataclass(frozen=True)
class Binned:
    """A population of values, such as the delays of packets, as one histogram a flow."""

    members: Sequence[int]
    histograms: Sequence[Histogram]


@dataclass(frozen=True)
class Values:
    """One value a member."""

    axis: Axis
    members: Sequence[int]
    values: Floats
    censored: NDArray[np.bool_] | None = None
    """Where true, the value is only known to be larger: the window ended first."""


@dataclass(frozen=True)
class Distribution:
    """Shares of time or of a population in bins, one row a member; one edge more than there are bins."""

    axis: Axis
    members: Sequence[int]
    edges: Floats
    shares: Floats
    """Shape (members, bins); each row sums to 1, or is all nan."""


Result = Series | Sample | Binned | Values | Distribution
