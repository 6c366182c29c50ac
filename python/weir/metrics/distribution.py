"""Distributions of goodput over time, in bins of 1 % of the path's rate."""

from __future__ import annotations

import math

import numpy as np

from weir.metrics.bounds import SHARE
from weir.metrics.registry import Category, Param, View, metric
from weir.metrics.results import Distribution, Floats, Series, Values
from weir.metrics.window import Window

__all__ = ["histogram"]

_VIEWS = (View.END_USER, View.DESIGNER)
_SOURCE = "RR-6034 section 2.3 and figures 20-22"
_EDGES = np.append(np.arange(101) / 100, np.inf)


def histogram(series: Series, references: Floats) -> Floats:
    """Shares of time in the bins [k/100, (k+1)/100), k = 0..99, and [1, inf), of value / reference.

    Shape (members, 101); a member without values is nan. A value that equals a whole percent, up to rounding, belongs
    to the bin that begins there.
    """
    shares = np.full((len(series.values), 101), math.nan)
    for row, (values, reference) in enumerate(zip(series.values, references, strict=True)):
        if len(values):
            bins = np.floor(values / reference * 100 + 1e-9).astype(np.int64)
            shares[row] = np.bincount(np.clip(bins, 0, 100), minlength=101) / len(values)
    return shares


def _goodput_bins(window: Window) -> tuple[list[int], Floats]:
    references = np.array([window.plan.path_rate_bps(flow) for flow in window.flows], dtype=np.float64)
    return window.flow_ids, histogram(window.rates("delivered_bytes"), references)


@metric(
    "goodput.distribution",
    symbol="p_{i,k}",
    formula="p(k/100 · C_i ≤ g_i(t) < (k+1)/100 · C_i), k = 0..100",
    unit="1",
    bounds=SHARE,
    category=Category.THROUGHPUT,
    scope="flow",
    views=_VIEWS,
    source=_SOURCE,
    tables=("goodput", "flows"),
)
def goodput_distribution(window: Window) -> Distribution:
    """Share of time that a flow's goodput spends in each 1 % bin of C_i, the rate of its path's slowest link.

    101 bins; the last one holds everything from C_i on, because a burst of delivery can exceed the rate. Without a
    split by flow, the mean over the flows.
    """
    members, shares = _goodput_bins(window)
    return Distribution("flow", members, _EDGES, shares)


@metric(
    "goodput.mode",
    symbol="k*_i",
    formula="argmax_k p_{i,k} / 100",
    unit="1",
    bounds=SHARE,
    category=Category.THROUGHPUT,
    scope="flow",
    views=_VIEWS,
    source=_SOURCE,
    tables=("goodput", "flows"),
)
def goodput_mode(window: Window) -> Values:
    """Lower edge of the 1 % bin that a flow's goodput is in most often, as a share of its path's rate.

    Of several such bins, the lowest.
    """
    members, shares = _goodput_bins(window)
    mode = np.where(np.isnan(shares[:, 0]), math.nan, np.argmax(np.nan_to_num(shares), axis=1) / 100)
    return Values("flow", members, mode)


@metric(
    "goodput.mode_share",
    symbol="p_{i,k*}",
    formula="max_k p_{i,k}",
    unit="1",
    bounds=SHARE,
    category=Category.THROUGHPUT,
    scope="flow",
    views=_VIEWS,
    source=_SOURCE,
    tables=("goodput", "flows"),
    percent=True,
)
def goodput_mode_share(window: Window) -> Values:
    """Share of time in the 1 % bin that a flow's goodput is in most often: near 1 where one rate dominates."""
    members, shares = _goodput_bins(window)
    return Values("flow", members, np.max(shares, axis=1, initial=-math.inf) if len(shares) else np.zeros(0))


@metric(
    "goodput.share",
    symbol="p(a ≤ g_i < b)",
    formula="share of the intervals with from ≤ g_i(t) < to",
    unit="1",
    bounds=SHARE,
    category=Category.THROUGHPUT,
    scope="flow",
    views=_VIEWS,
    source=_SOURCE,
    tables=("goodput", "flows"),
    params=(
        Param("from", "bit/s", 0.0, "Lower end, inclusive."),
        Param("to", "bit/s", None, "Upper end, exclusive; default: none."),
    ),
    percent=True,
)
def goodput_share(window: Window, *, from_: float = 0.0, to: float | None = None) -> Values:
    """Share of time that a flow's goodput is between two rates: ``goodput.share[from: 930Mbps]``."""
    series = window.rates("delivered_bytes")
    end = math.inf if to is None else to
    shares = [float(np.mean((v >= from_) & (v < end))) if len(v) else math.nan for v in series.values]
    return Values("flow", series.members, np.array(shares, dtype=np.float64))
