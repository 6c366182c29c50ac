"""How much a characterisation measures: as little as tells the switch, or the whole programme of LIP 2006-38."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PAPER", "Extent"]

_SECOND = 20
"""The second TCP flow begins after this part of the time of both: after 20 s of 400 s, as in the paper."""
_LEAST_INTERVALS = 20
"""Intervals of a pair of rates, at least."""


@dataclass(frozen=True)
class Extent:
    """What a characterisation measures beside the fit. Times are in nanoseconds."""

    points: int = 10
    """Rates of either input for the isolines."""
    intervals_ns: tuple[int, ...] = (1_000_000,)
    """Intervals over which the rates of two inputs have their deviation, least and most."""
    pair_ns: int = 0
    """How long each pair of rates is measured, at least."""
    tcp_rtts_ns: tuple[int, ...] = (0,)
    """Round-trip times of the TCP flows without the queues."""
    tcp_ns: int = 4_000_000_000
    """How long the first TCP flow lasts."""

    @property
    def pairs_ns(self) -> int:
        """How long each pair of rates is measured, at least, so that each interval occurs often."""
        return max(self.pair_ns, _LEAST_INTERVALS * max(self.intervals_ns))

    @property
    def second_ns(self) -> int:
        """When the second TCP flow begins."""
        return self.tcp_ns // _SECOND


PAPER = Extent(
    points=50,
    intervals_ns=(400_000, 1_000_000, 100_000_000),
    pair_ns=12_000_000_000,
    tcp_rtts_ns=(0, 50_000_000),
    tcp_ns=400_000_000_000,
)
"""The paper's: section 4.4 and tables 2 to 7, section 4.5, section 5.2."""
