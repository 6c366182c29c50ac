"""The metrics that are compared, and their values in every cell of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from weir.compare.errors import CompareError
from weir.metrics import MetricError, compute, parse_reference
from weir.metrics.bounds import Bounds
from weir.run import Plan, Run, RunError

__all__ = ["COMPARED", "DELAYS", "Measured", "Metric", "measure_run", "metric_of"]


@dataclass(frozen=True)
class Metric:
    """A metric that is compared."""

    text: str
    """In the notation of :mod:`weir.metrics.reference`."""
    floor: float | None = None
    """In the metric's unit: differences of smaller values are relative to the floor, because their ratio is
    meaningless. Two values below it count as equal.

    ``None``: the floor of the metric's unit.
    """

    @property
    def bounds(self) -> Bounds:
        """Bounds of the value, in its unit."""
        return parse_reference(self.text).bounds

    def floor_in(self, plan: Plan) -> float:
        """The floor on a path: the metric's, its unit's or, for a rate, a share of the slowest link's."""
        if self.floor is not None:
            return self.floor
        unit = parse_reference(self.text).unit
        if unit == "bit/s":
            rates = [plan.path_rate_bps(flow) for flow in plan.flows if flow.path]
            return _MIN_PART * min(rates, default=0)
        return _UNIT_FLOORS.get(unit, 0.0)


_MIN_PART = 1e-3
"""Share of the rate of a flow's path below which a goodput counts as 0."""

_UNIT_FLOORS = {"s": 1e-4, "1": 1e-3, "packets": 1.0, "count": 1.0, "B": 1500.0, "RTT": 1.0, "1/s": 0.1}
"""Floors of metrics by unit: 0.1 ms, 0.1 percentage points, one packet, one event, one event in ten seconds."""


COMPARED: tuple[Metric, ...] = (
    Metric("goodput.aggregate.mean"),
    Metric("goodput.mean"),
    Metric("utilisation"),
    Metric("jain"),
    Metric("link.loss"),
    Metric("queue.delay"),
    Metric("rtt", 1e-6),
    Metric("cwnd"),
    Metric("retransmissions"),
    Metric("timeouts"),
    Metric("completion.mean", 1e-3),
    Metric("completion.unfinished", 1e-2),
    Metric("page.completion.mean", 1e-3),
    Metric("page.completion.p95", 1e-3),
)
"""The metrics compared by default, if the runs have them."""

DELAYS: tuple[Metric, ...] = (Metric("delay", 1e-4), Metric("delay.p95", 1e-4), Metric("delay.jitter", 1e-5))
"""Compared in addition if a run has measured them."""

_FLOORS = {metric.text: metric.floor for metric in (*COMPARED, *DELAYS)}


def metric_of(text: str) -> Metric:
    """The metric called ``text``.

    Raises:
        MetricError: it does not exist.
        CompareError: it is a distribution, or it names cells.
    """
    reference = parse_reference(text)
    if reference.metric.kind == "distribution":
        raise CompareError(f"{text!r} is a distribution, not a number; compare a percentile or a share instead")
    if reference.factors:
        raise CompareError(f"{text!r} names cells; cells are compared side by side, so omit the {{...}}")
    return Metric(text, _FLOORS.get(text))


@dataclass(frozen=True)
class Measured:
    """One metric in one cell."""

    value: float
    censored: bool
    unit: str


Entry = tuple[str, str | None, str | None]
"""Metric, phase (``None``: the whole run), flow (``None``: all selected flows)."""

Cells = dict[str, Measured]
"""By cell id."""


def measure_run(
    run: Run, metrics: Sequence[Metric], phases: Sequence[str | None], *, flows: bool, strict: bool
) -> tuple[dict[Entry, Cells], list[str]]:
    """Computes the metrics in every cell of a run; also returns remarks on those that failed.

    Args:
        run: an opened run.
        metrics: the metrics to compute.
        phases: windows of time; ``None`` is the whole run.
        flows: whether metrics of flows are also computed flow by flow.
        strict: whether a metric that cannot be computed is an error.

    Raises:
        MetricError: with ``strict``, a metric cannot be computed.
        RunError: with ``strict``, a table cannot be read.
    """
    found: dict[Entry, Cells] = {}
    problems: list[str] = []
    plain = [metric.text for metric in metrics]
    split = [text for text in plain if flows and _by_flow(text)]
    for names, by in ((plain, ["cell"]), (split, ["cell", "flow"])):
        for frame in _frames(run, names, by, phases, problems, strict=strict):
            _take(frame, found)
    return found, list(dict.fromkeys(problems))


def _by_flow(text: str) -> bool:
    reference = parse_reference(text)
    return reference.metric.scope == "flow" and reference.metric.kind != "distribution" and reference.selector is None


def _frames(
    run: Run,
    names: Sequence[str],
    by: Sequence[str],
    phases: Sequence[str | None],
    problems: list[str],
    *,
    strict: bool,
) -> list[pl.DataFrame]:
    """All metrics in one pass over the tables; if that fails, one by one, so that a failure affects one metric only."""
    if not names:
        return []
    windows = _phases(names, phases)
    try:
        return [compute(run, *some, by=by, phase=which) for some, which in windows]
    except (MetricError, RunError):
        if strict:
            raise
    frames = []
    for name in names:
        try:
            frames += [compute(run, *some, by=by, phase=which) for some, which in _phases([name], phases)]
        except (MetricError, RunError) as error:
            whole = _whole(run, name, by)  # a counter over the life of a flow has no value in a phase
            if whole is None:
                problems.append(f"{name} is not compared: {error}")
            else:
                frames.append(whole)
    return frames


def _whole(run: Run, name: str, by: Sequence[str]) -> pl.DataFrame | None:
    try:
        return compute(run, name, by=by)
    except (MetricError, RunError):
        return None


def _phases(names: Sequence[str], phases: Sequence[str | None]) -> list[tuple[list[str], str | list[str] | None]]:
    """Pairs of metrics and windows for :func:`weir.metrics.compute`, which takes the whole run only by itself."""
    named = [phase for phase in phases if phase is not None]
    fixed = [name for name in names if parse_reference(name).phase is not None]
    free = [name for name in names if name not in fixed]
    found: list[tuple[list[str], str | list[str] | None]] = []
    if free and named:
        found.append((free, named))
    if free and None in phases:
        found.append((free, None))
    if fixed:
        found.append((fixed, None))
    return found


def _take(frame: pl.DataFrame, found: dict[Entry, Cells]) -> None:
    for row in frame.iter_rows(named=True):
        value = math.nan if row["value"] is None else float(row["value"])
        entry = found.setdefault((row["metric"], row["phase"], row.get("flow")), {})
        entry[row["cell"]] = Measured(value, bool(row["censored"]), row["unit"])


def common_phases(runs: Mapping[str, Run]) -> tuple[list[str | None], list[str]]:
    """The phases that every run has, else the whole run; and remarks on the others."""
    names = {label: [phase.name for phase in run.cells[0].plan.phases] for label, run in runs.items()}
    lists = list(names.values())
    shared = [name for name in lists[0] if all(name in other for other in lists[1:])]
    notes = []
    for label, some in names.items():
        own = [name for name in some if name not in shared]
        if own:
            notes.append(f"the {'phases' if len(own) > 1 else 'phase'} {', '.join(own)} of {label}: not in every run")
    return (list(shared) if shared else [None]), notes
