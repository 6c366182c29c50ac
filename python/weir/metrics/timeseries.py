"""Metrics as functions of time: G(t), X(t), cwnd(t), before any statistic."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from weir.metrics.errors import MetricError
from weir.metrics.frame import baseline_finder, member_labels
from weir.metrics.measure import result
from weir.metrics.reference import Reference, parse_reference
from weir.metrics.results import Series
from weir.metrics.window import CellData, Window, window
from weir.run import Cell, Run

__all__ = ["series"]


def series(
    run: Run,
    name: str,
    *,
    phase: str | None = None,
    flows: str | None = None,
    where: Mapping[str, object] | None = None,
) -> pl.DataFrame:
    """A metric over time.

    Args:
        run: an opened run.
        name: a metric of kind ``series``, without a statistic; a phase or a selection in it overrides the options.
        phase: the phase; default: the whole run.
        flows: flows or links; default: the flows under test, and their bottleneck.
        where: factor values to keep, as in :meth:`weir.run.Run.select`.

    Returns:
        One row per instant: the factors, ``repeat``, the flow, node or link (no column for an aggregate), ``time_ns``
        (the end of the interval), ``value`` in the unit of the metric (null where undefined).

    Raises:
        MetricError: the metric, phase or flow does not exist; the metric is no series; or a table it needs was not
            recorded.
        RunError: a table cannot be read, or ``where`` selects no cell.
    """
    reference = parse_reference(name)
    if reference.metric.kind != "series" or reference.stats or reference.factors:
        raise MetricError(f"{name!r} is not a function of time; expected the bare name of a series, such as goodput")
    chosen = run.select(where) if where else run
    return pl.concat([_cell(run, cell, reference, phase, flows) for cell in chosen.cells])


def _cell(run: Run, cell: Cell, reference: Reference, phase: str | None, flows: str | None) -> pl.DataFrame:
    find = baseline_finder(run)

    def baseline(factors: Mapping[str, str]) -> Window:
        return _window(CellData(find(cell, factors)), reference, phase, flows)

    part = _window(CellData(cell), reference, phase, flows)
    found = result(reference, part, baseline)
    assert isinstance(found, Series)
    keys = [pl.lit(value, pl.String).alias(name) for name, value in cell.factors.items()]
    return _frame(found, part).select(*keys, pl.lit(cell.repeat, pl.UInt32).alias("repeat"), pl.all())


def _window(data: CellData, reference: Reference, phase: str | None, flows: str | None) -> Window:
    selector = reference.selector or flows
    return window(data, reference.phase or phase, selector, reference.metric.scope == "link")


def _frame(found: Series, part: Window) -> pl.DataFrame:
    lengths = [len(values) for values in found.values]
    columns: dict[str, pl.Series] = {}
    if found.axis != "all":
        labels = member_labels(found.axis, found.members, part)
        columns[found.axis] = pl.Series(labels, dtype=pl.String).gather(np.repeat(np.arange(len(labels)), lengths))
    times = np.concatenate(found.times_ns) if lengths else np.zeros(0)
    values = np.concatenate(found.values) if lengths else np.zeros(0)
    columns["time_ns"] = pl.Series(times.astype(np.uint64))
    columns["value"] = pl.Series(values).fill_nan(None)
    return pl.DataFrame(columns)
