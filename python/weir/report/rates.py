"""Shares of the bottleneck's rate as rates: a claim speaks of Mb/s where its check compares shares.

The rate is that of the links that were executed. A reduced version of a scenario has slower links than its claims speak
of; the share is the same at both sizes, so the report prints both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from weir.metrics import MetricError
from weir.metrics.expect import ExpectError, Measurement
from weir.metrics.expect.parser import parse_check
from weir.metrics.expect.syntax import references
from weir.metrics.reference import Reference
from weir.metrics.window import CellData, window
from weir.run import Run, RunError
from weir.run.quantity import RATE, format_quantity

__all__ = ["AsRate", "as_rate"]

_SHARE = "efficiency.capacity"
_SCALED = ("value", "low", "high", "threshold", "margin", "margin_low", "margin_high", "tolerance")


@dataclass(frozen=True)
class AsRate:
    """A measurement in bit/s, and the rate of which it was a share."""

    measured: Measurement
    of: str
    """The bottleneck's rate: ``10 Gbps``."""


def as_rate(run: Run, m: Measurement) -> AsRate | None:
    """The measurement in bit/s.

    ``None`` if it is no share of the bottleneck's rate, if that rate changes during a cell, or if it differs between
    the cells compared.
    """
    if not m.percent or isinstance(m.value, str) or isinstance(m.threshold, str):
        return None
    try:
        found = references(parse_check(m.text))
        if any(reference.metric.name != _SHARE for reference in found):
            return None
        rates = set(_rates(run, m, found))
    except (ExpectError, MetricError, RunError):
        return None
    rate = rates.pop() if len(rates) == 1 else None
    if rate is None:
        return None
    scaled = {name: getattr(m, name) * rate for name in _SCALED}
    return AsRate(replace(m, **scaled, dimension=RATE, percent=False), format_quantity(rate, RATE))


def _rates(run: Run, m: Measurement, found: list[Reference]) -> Iterator[int | None]:
    """The rate of the bottleneck for each reference in each cell; ``None`` where it changes."""
    for cell in run.cells:
        if all(cell.factors.get(name) == value for name, value in m.factors.items()):
            data = CellData(cell)
            for reference in found:
                for link in window(data, selector=reference.selector).links[:1]:
                    yield None if link.id in cell.plan.rate_changes else link.rate_bps
