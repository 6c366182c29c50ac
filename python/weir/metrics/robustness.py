"""Robustness: the performance that remains under bad conditions."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from weir.metrics.bounds import NON_NEGATIVE, SHARE
from weir.metrics.errors import MetricError
from weir.metrics.fairness import max_min_shares
from weir.metrics.registry import Category, Param, View, metric
from weir.metrics.results import Floats, Values
from weir.metrics.statistics import over_time
from weir.metrics.window import Window

__all__ = ["kolmogorov_smirnov"]


@metric(
    "performability",
    symbol="p_S(B)",
    formula="P(Y ∈ B), Y = ḡ_i / m_i, B = [level, ∞)",
    unit="1",
    bounds=SHARE,
    category=Category.ROBUSTNESS,
    scope="group",
    views=(View.DESIGNER,),
    source="thesis Table 2.III; Meyer 1980",
    tables=("goodput", "flows"),
    params=(Param("level", "1", 0.8, "Accomplishment: share of its fair share that a flow must get."),),
)
def performability(window: Window, *, level: float = 0.8) -> Values:
    """Probability that a flow accomplishes at least 80 % of its fair share.

    Meyer's performance variable Y is a flow's mean goodput over the window, divided by its max-min fair share m_i. The
    accomplishment set B is everything from ``level`` on. The flows of a cell are the outcomes: the value of a cell is
    the share of flows that accomplish, and its mean over repeats estimates the probability.
    """
    flows = window.active_flows
    if not flows:
        return Values("all", [0], np.array([math.nan]))
    rates = replace(window, flows=flows).rates("delivered_bytes")
    means = np.array([over_time(v, "mean") for v in rates.values], dtype=np.float64)
    reached = means / max_min_shares(window, flows)
    known = reached[~np.isnan(reached)]
    return Values("all", [0], np.array([np.mean(known >= level) if len(known) else math.nan]))


def kolmogorov_smirnov(calm: Floats, disturbed: Floats, weighted: bool) -> float:
    """Largest distance between two empirical distribution functions, F (calm) and F* (disturbed).

    ``weighted`` multiplies each distance |F - F*| by -ln(F (1 - F)), so that a change in the tails of the calm
    distribution shows; where F is 0 or 1, half a sample away from it is used. ``nan`` if a sample is empty.
    """
    if len(calm) == 0 or len(disturbed) == 0:
        return math.nan
    points = np.unique(np.concatenate([calm, disturbed]))
    f = np.searchsorted(np.sort(calm), points, side="right") / len(calm)
    g = np.searchsorted(np.sort(disturbed), points, side="right") / len(disturbed)
    if not weighted:
        return float(np.max(np.abs(f - g)))
    half = 0.5 / len(calm)
    inner = np.clip(f, half, 1 - half)
    return float(np.max(np.abs(f - g) * -np.log(inner * (1 - inner))))


def _goodputs(window: Window) -> Floats:
    values = window.rates("delivered_bytes").values
    return np.concatenate(values) if values else np.zeros(0)


_BASELINE = (
    Param("before", "name", None, "Phase without the disturbance; or `baseline`."),
    Param("baseline", "factors", None, "Factor values of the cells without the disturbance; or `before`."),
)
_SOURCE = "thesis Table 2.III; England, Weissman and Sadagopan 2005"


def _pair(window: Window, before: str | None, baseline: Window | None) -> tuple[Floats, Floats]:
    if (before is None) == (baseline is None):
        raise MetricError("expected one of the parameters before and baseline: a phase, or factors such as {loss: 0%}")
    calm = baseline
    if before is not None:
        phase = next((p for p in window.plan.phases if p.name == before), None)
        if phase is None:
            raise MetricError(f"no phase {before!r} in this run")
        calm = replace(window, phase=before, from_ns=phase.from_ns, to_ns=min(phase.to_ns, window.plan.end_ns))
    assert calm is not None
    return _goodputs(calm), _goodputs(window)


@metric(
    "ks",
    symbol="θ",
    formula="sup_g |F(g) - F*(g)|",
    unit="1",
    bounds=SHARE,
    category=Category.ROBUSTNESS,
    scope="run",
    views=(View.PROVIDER,),
    source=_SOURCE,
    tables=("goodput", "flows"),
    params=_BASELINE,
)
def ks(window: Window, *, before: str | None = None, baseline: Window | None = None) -> Values:
    """Kolmogorov-Smirnov statistic: how far a disturbance moves the distribution of the flows' goodput.

    F is the distribution of goodput over all intervals and flows without the disturbance, F* with it. 0 if they are the
    same, 1 if they do not overlap. Raises MetricError unless exactly one of ``before`` and ``baseline`` is given.
    """
    return Values("all", [0], np.array([kolmogorov_smirnov(*_pair(window, before, baseline), weighted=False)]))


@metric(
    "ks.weighted",
    symbol="θ_w",
    formula="sup_g |F(g) - F*(g)| · (-ln(F(g) (1 - F(g))))",
    unit="1",
    bounds=NON_NEGATIVE,
    category=Category.ROBUSTNESS,
    scope="run",
    views=(View.PROVIDER,),
    source=_SOURCE + " (the weight is our choice of one that grows in the tails)",
    tables=("goodput", "flows"),
    params=_BASELINE,
)
def ks_weighted(window: Window, *, before: str | None = None, baseline: Window | None = None) -> Values:
    """Kolmogorov-Smirnov statistic with more weight in the tails, to which the plain one is insensitive.

    Parameters as for ``ks``; not bounded by 1.
    """
    return Values("all", [0], np.array([kolmogorov_smirnov(*_pair(window, before, baseline), weighted=True)]))
