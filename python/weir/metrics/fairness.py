"""Fairness: how the flows share, by the measures of the thesis' Tables 2.II and 2.III."""

from __future__ import annotations

import math

import numpy as np

from weir.metrics.registry import Category, View, metric
from weir.metrics.results import Floats, Series, Values
from weir.metrics.statistics import over_time
from weir.metrics.window import Window

__all__ = ["alpha_fairness", "jain_index"]


def jain_index(shares: Floats) -> float:
    """(Σ x)² / (N Σ x²) of non-negative shares; between 1/N and 1; ``nan`` without shares or if all are 0."""
    shares = shares[~np.isnan(shares)]
    top = float(np.max(shares, initial=0.0))
    if top == 0.0:
        return math.nan
    scaled = shares / top  # squares of subnormal or huge rates would under- or overflow
    return float(np.sum(scaled) ** 2 / (len(scaled) * np.sum(scaled**2)))


def alpha_fairness(shares: Floats, alpha: float) -> float:
    """The equal share with the same alpha-fair utility, over the mean share: 1 if all are equal, 0 if one starves.

    With U(x) = x^(1-alpha) / (1-alpha), or ln x for alpha = 1 (Mo and Walrand 2000). It is 1 for alpha = 0 whatever the
    shares, the geometric over the arithmetic mean for alpha = 1, and tends to min / mean.
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
    category=Category.FAIRNESS,
    scope="group",
    views=(View.DESIGNER,),
    source="thesis eq. 2.9; Jain, Chiu and Hawe 1984",
    tables=("goodput", "flows"),
)
def jain(window: Window) -> Values:
    """Jain's index of the flows' mean goodputs: 1 if they are equal, 1/N if one flow has everything.

    Flows without one whole interval in the window are left out.
    """
    return _one(jain_index(_means(window.rates("delivered_bytes"))))
