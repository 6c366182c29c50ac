"""The central relative clock: where the monotonic clock of each node is, seen from this process'.

Readings come over the node's own channel (:meth:`weir.hosts.relay.Relay.reading`). A reading is off by at most half of
its round trip: whichever way took longer, the node read its clock in between. Offset and drift are fitted to the
readings by least squares, each weighted by the inverse square of that bound; a drift needs readings from some time.

A value of the fit is a weighted sum of the readings, so the same sum of their bounds, with the weights' magnitudes,
bounds its error. At the end of the line this is more than the bound of a single reading, and it holds for a loaded
machine, whose delays are not the same both ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weir.hosts.place import Clock

__all__ = ["Fit", "fit"]

_SPAN_NS = 3_000_000_000
"""Time that readings must span for a drift: below it, it would be that of their errors."""
_MANY = 5
_FLOOR_NS = 2_000
"""Error of a reading besides its round trip: scheduling at both ends."""
_WORSE = 4.0
"""Readings with a larger error, relative to the best, are left out: they waited behind traffic."""


@dataclass(frozen=True)
class Fit:
    """A line through readings of a node's clock."""

    at_ns: int
    """An instant of this process' clock, and for it"""
    offset_ns: float
    """what the node's clock is ahead."""
    drift: float
    """Nanoseconds that the node's clock gains in one of this process'."""
    error_ns: int
    """Bound of the error at :attr:`at_ns`, where the clock is a line; without a drift, of the mean of the readings."""
    residual_ns: float
    """Root mean square of what the readings are off the line."""
    readings: int

    def there(self, here_ns: int) -> int:
        """The node's reading at ``here_ns`` of this process' clock."""
        return here_ns + round(self.offset_ns + self.drift * (here_ns - self.at_ns))

    def start(self, here_ns: int) -> Clock:
        """What the node's processes are told of ``here_ns`` (:meth:`weir.hosts.place.Clock.start`)."""
        return Clock(here_ns, self.there(here_ns), self.error_ns)

    def to_json(self) -> dict[str, Any]:
        """For ``clocks.json``."""
        return {
            "offset_ns": round(self.offset_ns),
            "drift_ppm": round(self.drift * 1e6, 4),
            "error_ns": self.error_ns,
            "residual_ns": round(self.residual_ns),
            "readings": self.readings,
        }


def fit(readings: Sequence[Clock]) -> Fit:
    """The line through ``readings``, at least one.

    Raises:
        ValueError: there is none.
    """
    if not readings:
        raise ValueError("no reading of the clock")
    best = min(reading.error_ns for reading in readings)
    used = [reading for reading in readings if reading.error_ns <= _WORSE * best + _FLOOR_NS]
    here = np.array([reading.here_ns for reading in used], np.int64)
    offsets = np.array([reading.offset_ns for reading in used], np.int64)
    errors = np.array([reading.error_ns + _FLOOR_NS for reading in used], np.float64)
    at_ns, base = int(here[-1]), int(offsets[0])
    x, y = (here - at_ns).astype(np.float64), (offsets - base).astype(np.float64)
    weights = 1 / errors**2
    shares = weights / weights.sum()
    slopes = np.zeros(len(used))
    from_middle = x - shares @ x
    if len(used) >= _MANY and here.max() - here.min() >= _SPAN_NS:
        slopes = shares * from_middle / (shares @ from_middle**2)
    at = shares - slopes * (shares @ x)  # what each reading adds to the line's value at x = 0
    offset, drift = float(at @ y), float(slopes @ y)
    off = y - (offset + drift * x)
    residual = float(np.sqrt(shares @ off**2))
    return Fit(at_ns, base + offset, drift, round(float(np.abs(at) @ errors)), residual, len(used))
