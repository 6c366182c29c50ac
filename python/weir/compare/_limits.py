"""Limits on the differences between runs: ``5%``, ``utilisation=2%``, ``queue.delay=1ms``.

A share is relative to the value of the first run of a pair (or to the metric's floor, if that is larger); two values
below the floor count as equal. A quantity is an absolute difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from weir.compare.errors import CompareError
from weir.metrics import parse_reference
from weir.metrics.registry import UNIT
from weir.run.quantity import ONE, parse_quantity

__all__ = ["Limit", "exceeding", "parse_limit"]


@dataclass(frozen=True)
class Limit:
    """The largest difference allowed for a metric; ``None``: for all metrics without a limit of their own."""

    metric: str | None
    most: float
    """A share of the value if ``relative``, else in the unit of the metric."""
    relative: bool
    text: str


def parse_limit(text: str) -> Limit:
    """Reads ``5%`` or ``METRIC=5%`` or ``METRIC=1ms``.

    Raises:
        CompareError: it is malformed, or its unit is not that of the metric.
        MetricError: the metric does not exist.
    """
    name, equals, amount = text.rpartition("=")
    metric = name.strip() if equals else None
    reference = None if metric is None else parse_reference(metric)
    quantity = parse_quantity(amount.strip())
    if quantity is None or quantity.value < 0:
        raise CompareError(f"{text!r} is no limit; expected 5%, METRIC=5% or METRIC=1ms")
    if amount.strip().endswith("%"):
        return Limit(metric, quantity.value, True, amount.strip())
    if reference is None:
        raise CompareError(f"{text!r}: a limit for all metrics is a share, such as 5%")
    scale, dimension = UNIT[reference.unit]
    if quantity.dimension != dimension:
        what = "a number" if dimension == ONE else f"a quantity in {reference.unit}"
        raise CompareError(f"{text!r}: expected a share, or {what}, for {metric}")
    return Limit(metric, quantity.value / scale, False, amount.strip())


def exceeding(differences: pl.DataFrame, limits: Iterable[Limit]) -> pl.DataFrame:
    """The rows that exceed their limit, in their order, with the column ``limit``.

    A difference that is undefined on one side only exceeds any limit.
    """
    own = {limit.metric: limit for limit in limits}
    rows = []
    for row in differences.iter_rows(named=True):
        limit = own.get(row["metric"], own.get(None))
        if limit is not None and _more(row, limit):
            rows.append({**row, "limit": limit.text})
    return pl.DataFrame(rows, schema={**differences.schema, "limit": pl.String}, orient="row")


def _more(row: dict[str, object], limit: Limit) -> bool:
    if (row["a_value"] is None) != (row["b_value"] is None):
        return True
    if limit.relative and row["negligible"]:
        return False
    size = row["relative"] if limit.relative else row["difference"]
    return isinstance(size, float) and abs(size) > limit.most * (1 + 1e-9)
