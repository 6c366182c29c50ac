"""The capacity of links whose rate changes: means over intervals, whenever in them the changes happen."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from weir.metrics.results import Floats, Ints
from weir.plan import guaranteed_shares
from weir.run import Plan

__all__ = ["capacity_bps", "guaranteed_bps", "mean_of_steps", "rate_bps"]

_WHOLE_PPM = 1_000_000


def rate_bps(plan: Plan, link: int, at_ns: int) -> float:
    """The rate of a link just after ``at_ns``."""
    return [rate for at, rate in _rates(plan, link) if at <= at_ns][-1]


def capacity_bps(plan: Plan, link: int, ends_ns: Ints, widths_s: Floats) -> Floats:
    """The mean rate of a link over the intervals that end at ``ends_ns``; shape (intervals,)."""
    return mean_of_steps(_rates(plan, link), ends_ns, widths_s)


def guaranteed_bps(plan: Plan, link: int, name: str, ends_ns: Ints, widths_s: Floats) -> Floats:
    """The mean rate that the class ``name`` of a link's queue is guaranteed, nan where it has no guarantee at a time
    of the interval; shape (intervals,).
    """
    rates, rate, steps = dict(_rates(plan, link)), 0.0, []
    for at_ns, shares in guaranteed_shares(plan.typed, link):
        rate, share = rates.get(at_ns, rate), shares[name]
        steps.append((at_ns, np.nan if share is None else rate * share / _WHOLE_PPM))
    return mean_of_steps(steps, ends_ns, widths_s)


def mean_of_steps(steps: Iterable[tuple[int, float]], ends_ns: Ints, widths_s: Floats) -> Floats:
    """The mean over intervals of a value that is ``steps``: the instants (ns) from which on it has each value.

    Shape (intervals,). The first step is at 0. An interval without a step inside has exactly the step's value.
    """
    ordered = sorted(steps, key=lambda step: step[0])
    instants = np.array([at for at, _ in ordered], dtype=np.float64)
    values = np.array([value for _, value in ordered], dtype=np.float64)
    ends = ends_ns.astype(np.float64)
    begins = ends - np.rint(widths_s * 1e9)
    first = np.maximum(np.searchsorted(instants, begins, side="right") - 1, 0)
    last = np.maximum(np.searchsorted(instants, ends, side="left") - 1, 0)
    means: Floats = values[last]
    for i in np.flatnonzero(last > first):
        bounds = np.clip(np.append(instants[first[i] : last[i] + 1], ends[i]), begins[i], ends[i])
        lengths = np.diff(bounds)
        lasting = lengths > 0
        within = values[first[i] : last[i] + 1][lasting]
        means[i] = np.average(within, weights=lengths[lasting])
    return means


def _rates(plan: Plan, link: int) -> list[tuple[int, float]]:
    changes = sorted(plan.rate_changes.get(link, ()), key=lambda step: step[0])
    return [(0, float(plan.links[link].rate_bps)), *((at, float(rate)) for at, rate in changes)]
