"""Fairness: how the flows share capacity, by the measures of the thesis' Tables 2.II and 2.III."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from weir.metrics.bounds import NON_NEGATIVE, SHARE
from weir.metrics.capacity import rate_bps
from weir.metrics.errors import MetricError
from weir.metrics.reactivity import first_reach
from weir.metrics.registry import Category, Param, View, metric
from weir.metrics.results import Floats, Ints, Series, Values
from weir.metrics.selection import select_flows
from weir.metrics.statistics import over_time
from weir.metrics.throughput import goodput_node
from weir.metrics.window import Window
from weir.run import Flow

__all__ = ["alpha_fairness", "jain_index", "max_min_shares"]

_NONE: Ints = np.zeros(0, dtype=np.int64)


def jain_index(shares: Floats) -> float:
    """(Σ x)² / (N Σ x²) of non-negative shares; between 1/N and 1; ``nan`` without shares or if all are 0."""
    shares = shares[~np.isnan(shares)]
    top = float(np.max(shares, initial=0.0))
    if top == 0.0:
        return math.nan
    scaled = shares / top  # squares of subnormal or huge rates would under- or overflow
    return float(np.sum(scaled) ** 2 / (len(scaled) * np.sum(scaled**2)))


def alpha_fairness(shares: Floats, alpha: float) -> float:
    """Ratio of the equal share with the same alpha-fair utility to the mean share: 1 if all are equal, 0 if one
    starves.

    U(x) = x^(1-alpha) / (1-alpha), or ln x for alpha = 1 (Mo and Walrand 2000). The ratio is 1 for alpha = 0 whatever
    the shares, the geometric over the arithmetic mean for alpha = 1, and tends to min / mean.
    """
    shares = shares[~np.isnan(shares)]
    mean = float(np.mean(shares)) if len(shares) else 0.0
    if mean == 0.0:
        return math.nan
    ratio = shares / mean
    if alpha >= 1 and np.any(ratio == 0):
        return 0.0
    if math.isclose(alpha, 1.0):
        return float(np.exp(np.mean(np.log(ratio))))
    least = float(np.min(ratio)) if alpha > 1 else 1.0
    with np.errstate(over="ignore"):  # a share infinitely larger than the smallest counts for nothing
        return float(least * np.mean((ratio / least) ** (1 - alpha)) ** (1 / (1 - alpha)))


def _means(series: Series) -> Floats:
    return np.array([over_time(values, "mean") for values in series.values], dtype=np.float64)


def _one(value: float) -> Values:
    return Values("all", [0], np.array([value]))


@metric(
    "jain",
    symbol="J",
    formula="(Σ ḡ_i)² / (N Σ ḡ_i²)",
    unit="1",
    bounds=SHARE,
    category=Category.FAIRNESS,
    scope="group",
    views=(View.DESIGNER,),
    source="thesis eq. 2.9; Jain, Chiu and Hawe 1984",
    tables=("goodput", "flows"),
)
def jain(window: Window) -> Values:
    """Jain's index of the flows' mean goodputs: 1 if they are equal, 1/N if one flow has everything.

    Flows without a whole interval in the window are left out.
    """
    return _one(jain_index(_means(window.rates("delivered_bytes"))))


@metric(
    "jain.interval",
    symbol="J(t)",
    formula="(Σ g_i(t))² / (N Σ g_i(t)²) over the N flows that are active in the interval",
    unit="1",
    bounds=SHARE,
    category=Category.FAIRNESS,
    scope="group",
    views=(View.DESIGNER,),
    source="Jain, Chiu and Hawe 1984; its mean over time is what table 3 of RR-6034 fits (A/large-flows, claim A8)",
    tables=("goodput", "flows"),
)
def jain_interval(window: Window) -> Series:
    """Jain's index of the flows' goodputs in each interval of ``measure.goodput``.

    Its mean over time is lower than ``jain`` if flows that have the same in the long run alternate. Flows without a
    whole interval are left out, and so are intervals in which no flow received anything.
    """
    rates = window.rates("delivered_bytes")
    times, place = np.unique(np.concatenate([*rates.times_ns, _NONE]), return_inverse=True)
    values = np.concatenate([*rates.values, _NONE.astype(np.float64)])
    scale = float(np.max(values, initial=0.0)) or 1.0  # squares of subnormal or huge rates would under- or overflow
    sums, squares, flows = (
        np.bincount(place, weights=weights, minlength=len(times)).astype(np.float64)
        for weights in (values / scale, (values / scale) ** 2, np.ones(len(values)))
    )
    busy = squares > 0
    index = sums[busy] ** 2 / (flows[busy] * squares[busy])
    return Series("all", [0], [times[busy]], [index])


@metric(
    "jain.node",
    symbol="J_n",
    formula="(Σ ḡ_n)² / (N Σ ḡ_n²), ḡ_n summed over the parallel streams of node n",
    unit="1",
    bounds=SHARE,
    category=Category.FAIRNESS,
    scope="group",
    views=(View.END_USER, View.DESIGNER),
    source="thesis Tables 5.III and 5.IV",
    tables=("goodput", "flows"),
)
def jain_node(window: Window) -> Values:
    """Jain's index of the nodes' mean goodputs; the parallel streams of a node are added up."""
    return _one(jain_index(_means(_node_rates(window))))


def _node_rates(window: Window) -> Series:
    rates = goodput_node(window)
    assert isinstance(rates, Series)
    return rates


@metric(
    "fairness.minmax",
    symbol="min/max",
    formula="min_i ḡ_i / max_i ḡ_i",
    unit="1",
    bounds=SHARE,
    category=Category.FAIRNESS,
    scope="group",
    views=(View.PROVIDER,),
    source="RFC 5166 section 2.5 (after Marbach 2002)",
    tables=("goodput", "flows"),
)
def fairness_minmax(window: Window) -> Values:
    """Smallest mean goodput over the largest: 1 if all are equal, 0 if a flow gets nothing."""
    means = _means(window.rates("delivered_bytes"))
    means = means[~np.isnan(means)]
    top = float(np.max(means, initial=0.0))
    return _one(float(np.min(means)) / top if top > 0 else math.nan)


@metric(
    "fairness.maxmin",
    symbol="F_mm",
    formula="min_i ḡ_i / m_i, m the max-min fair allocation at the rates of the flows' links",
    unit="1",
    bounds=SHARE,
    category=Category.FAIRNESS,
    scope="group",
    views=(View.PROVIDER,),
    source="thesis Table 2.III; Bertsekas and Gallager 1992 section 6.5 (progressive filling)",
    tables=("goodput", "flows"),
)
def fairness_maxmin(window: Window) -> Values:
    """Share of its max-min fair allocation that the worst-off flow gets.

    Progressive filling over the links of the plan (at their rates at the start of the window) gives the fair shares of
    the selected flows that are active in the window, in payload of full packets. The value is 1 or a little less where
    sharing is max-min fair and the links are full, and small where any flow gets far less than its share, for whatever
    reason.
    """
    flows = window.active_flows
    means = dict(zip(window.flow_ids, _means(window.rates("delivered_bytes")), strict=True))
    shares = max_min_shares(window, flows)
    ratios = [
        means[flow.id] / share for flow, share in zip(flows, shares, strict=True) if not math.isnan(means[flow.id])
    ]
    return _one(min(ratios) if ratios else math.nan)


def max_min_shares(window: Window, flows: tuple[Flow, ...]) -> Floats:
    """Max-min fair goodputs of bulk flows over the plan's links, bit/s of payload; shape (flows,)."""
    weights = {}  # wire bits per payload bit of each flow on each link
    for flow in flows:
        for link in flow.path:
            overhead = window.plan.links[link].overhead_bytes
            weights[flow.id, link] = (flow.packet_bytes + overhead) / flow.payload_bytes
    left = {link: rate_bps(window.plan, link, window.from_ns) for link in {k for f in flows for k in f.path}}
    open_ = {flow.id: flow for flow in flows}
    shares = dict.fromkeys(open_, 0.0)
    while open_:
        load = {k: sum(weights[f.id, k] for f in open_.values() if k in f.path) for k in left}
        step = min(left[k] / load[k] for k in left if load[k] > 0)
        for flow in open_.values():
            shares[flow.id] += step
        left = {k: left[k] - step * load[k] for k in left}
        full = {k for k in left if load[k] > 0 and left[k] <= 1e-9 * window.plan.links[k].rate_bps}
        open_ = {i: f for i, f in open_.items() if not full & set(f.path)}
    return np.array([shares[flow.id] for flow in flows], dtype=np.float64)


@metric(
    "fairness.alpha",
    symbol="F_α",
    formula="((1/N) Σ ḡ_i^(1-α))^(1/(1-α)) / ((1/N) Σ ḡ_i)",
    unit="1",
    bounds=SHARE,
    category=Category.FAIRNESS,
    scope="group",
    views=(View.PROVIDER,),
    source="thesis Table 2.III; Mo and Walrand 2000",
    tables=("goodput", "flows"),
    params=(Param("alpha", "1", 2.0, "0: efficiency alone; 1: proportional; 2: minimum delay; large: max-min."),),
)
def fairness_alpha(window: Window, *, alpha: float = 2.0) -> Values:
    """Equal goodput with the same alpha-fair utility as the flows' mean goodputs, over their mean.

    Between 0 and 1; 1 if all are equal. The larger alpha, the more the worst-off flow counts. Raises MetricError if
    alpha is negative.
    """
    if alpha < 0:
        raise MetricError("alpha must not be negative")
    return _one(alpha_fairness(_means(window.rates("delivered_bytes")), alpha))


@metric(
    "fairness.proportional",
    symbol="F_1",
    formula="(Π ḡ_i)^(1/N) / ((1/N) Σ ḡ_i)",
    unit="1",
    bounds=SHARE,
    category=Category.FAIRNESS,
    scope="group",
    views=(View.PROVIDER,),
    source="thesis Table 2.III; Kelly 1997 (alpha = 1 of Mo and Walrand 2000)",
    tables=("goodput", "flows"),
)
def fairness_proportional(window: Window) -> Values:
    """Geometric over arithmetic mean of the flows' mean goodputs: the alpha-fair measure for alpha = 1."""
    return _one(alpha_fairness(_means(window.rates("delivered_bytes")), 1.0))


@metric(
    "fairness.delta",
    symbol="δ_f",
    formula="min{t | (1-δ)/N ≤ g_i(t) / G(t) ≤ (1+δ)/N for every i}",
    unit="s",
    bounds=NON_NEGATIVE,
    category=Category.FAIRNESS,
    scope="group",
    views=(View.END_USER,),
    source="thesis Table 2.III; Bansal et al. 2001, for N flows instead of two",
    tables=("goodput", "flows"),
    params=(Param("delta", "1", 0.1, "Deviation from the equal share that still counts as fair."),),
)
def fairness_delta(window: Window, *, delta: float = 0.1) -> Values:
    """Delta-fair convergence time: time until every active flow is within delta of an equal share.

    Runs from the beginning of the window, or from the last flow start in it, to the end of the first interval of
    ``measure.goodput`` in which each flow has between (1 - delta) and (1 + delta) times the mean. Flows that are active
    in all of the remaining window count. The value is a lower bound if that never happens, and undefined with fewer
    than two flows.
    """
    flows = window.active_flows
    if len(flows) < 2:
        return _one(math.nan)
    rates = window.rates("delivered_bytes")
    begin = max(window.span(flow)[0] for flow in flows)
    table = _aligned(rates, [window.flow_ids.index(flow.id) for flow in flows], begin)
    if len(table.times_ns[0]) == 0:
        return _one(math.nan)
    values = np.stack(table.values)
    off = np.max(np.abs(values / np.maximum(values.mean(axis=0), 1e-9) - 1), axis=0)
    near = Series("all", [0], [table.times_ns[0]], [np.where(values.mean(axis=0) > 0, -off, -math.inf)])
    return first_reach(near, np.array([-delta - 1e-12]), np.array([begin], dtype=np.float64))


def _aligned(rates: Series, rows: list[int], begin_ns: int) -> Series:
    """The members ``rows`` at the instants after ``begin_ns`` at which all of them have a value."""
    common = rates.times_ns[rows[0]]
    for row in rows[1:]:
        common = np.intersect1d(common, rates.times_ns[row], assume_unique=True)
    common = common[common > begin_ns]
    values = [rates.values[row][np.searchsorted(rates.times_ns[row], common)] for row in rows]
    return Series("flow", rows, [common] * len(rows), values)


@metric(
    "uif",
    symbol="UIF",
    formula="(1/N Σ ḡ_i of N legacy flows beside the new one) / (1/(N+1) Σ ḡ_i of N+1 legacy flows alone)",
    unit="1",
    bounds=NON_NEGATIVE,
    category=Category.FAIRNESS,
    scope="run",
    views=(View.END_USER, View.PROVIDER),
    source="DataTAG eq. 2",
    tables=("goodput", "flows"),
    params=(
        Param("legacy", "name", None, "Group of the legacy flows.", required=True),
        Param("baseline", "factors", None, "Factor values of the cells in which every flow is legacy.", required=True),
    ),
)
def uif(window: Window, *, legacy: str, baseline: Window) -> Values:
    """User impact factor: goodput of a legacy flow beside a new protocol, over its goodput among legacy flows only.

    Goodput is delivered payload, as iperf counted it in the paper; ``qef`` and ``goodput.cov`` count the same.

    Below 1, the new flow takes capacity from the legacy flows. The baseline cell has the same factor values except
    those in ``baseline``, and all its flows under test are legacy: ``uif[legacy: vanilla, baseline: {cc: reno}]``.
    Raises MetricError if there is no such group.
    """
    beside = replace(window, flows=select_flows(window.plan, legacy))
    mixed = over_time(_means(beside.rates("delivered_bytes")), "mean")
    alone = over_time(_means(baseline.rates("delivered_bytes")), "mean")
    return _one(mixed / alone if alone else math.nan)
