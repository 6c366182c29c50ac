"""Convergence: how fast a flow's window fills its path, and the share of slow start."""

from __future__ import annotations

import math

import numpy as np

from weir.metrics.bounds import NON_NEGATIVE, SHARE
from weir.metrics.reactivity import first_reach
from weir.metrics.registry import Category, Param, View, metric
from weir.metrics.results import Floats, Values
from weir.metrics.window import Window
from weir.run import Flow

__all__: list[str] = []

_DESIGNER = (View.DESIGNER,)
_LEVEL = (Param("level", "1", 0.8, "Share of the bandwidth-delay product to reach."),)


def _tcp(window: Window) -> list[Flow]:
    return [flow for flow in window.flows if flow.protocol == "tcp"]


@metric(
    "convergence.time",
    symbol="t_cwnd",
    formula="min{t | cwnd_i(t) ≥ level · BDP_i} - beginning",
    unit="s",
    bounds=NON_NEGATIVE,
    category=Category.CONVERGENCE,
    scope="flow",
    views=_DESIGNER,
    source="thesis eq. 2.10, in seconds",
    tables=("samples", "flows"),
    params=_LEVEL,
)
def convergence_time(window: Window, *, level: float = 0.8) -> Values:
    """Time until a flow's congestion window reaches 80 % of the bandwidth-delay product of its path.

    Counts from the beginning of the window, or from the start of the flow if that is later. The product is the rate of
    the path's slowest link times the base RTT, in full packets. The value is a lower bound if the flow does not reach
    the level within the window.
    """
    flows = _tcp(window)
    target = np.array([level * window.plan.bdp_packets(flow) for flow in flows], dtype=np.float64)
    origin = np.array([window.span(flow)[0] for flow in flows], dtype=np.float64)
    return first_reach(window.samples("cwnd"), target, origin)


@metric(
    "convergence",
    symbol="s_cwnd",
    formula="min{u | cwnd_i(t + u·RTT) ≥ level · BDP_i}",
    unit="RTT",
    bounds=NON_NEGATIVE,
    category=Category.CONVERGENCE,
    scope="flow",
    views=_DESIGNER,
    source="thesis eq. 2.10 (printed there with ≤, which the first instant would fulfil)",
    tables=("samples", "flows"),
    params=_LEVEL,
)
def convergence(window: Window, *, level: float = 0.8) -> Values:
    """Convergence speed: base round trips until a flow's congestion window reaches 80 % of its path's BDP.

    ``convergence.time`` in round trips, with the same beginning, product and bound.
    """
    found = convergence_time(window, level=level)
    assert isinstance(found, Values)
    rtts = np.array([window.plan.base_rtt_ns(flow) / 1e9 for flow in _tcp(window)], dtype=np.float64)
    return Values("flow", found.members, found.values / rtts, found.censored)


def _slow_start(window: Window, flow: Flow) -> tuple[Floats, Floats, np.typing.NDArray[np.bool_]]:
    """Time (s) and payload acknowledged since the previous sample, and whether the sender was in slow start then."""
    grouped = window.data.grouped("samples", [f.id for f in _tcp(window)])
    rows = grouped.rows(flow.id)
    times = grouped.times_ns[rows]
    spent = np.diff(times, prepend=flow.start_ns) / 1e9
    acked = np.diff(grouped.column("acked_bytes")[rows], prepend=0.0)
    cwnd, threshold = grouped.column("cwnd")[rows], grouped.column("ssthresh")[rows]
    slow = (np.isnan(threshold) | (cwnd < threshold)) & (grouped.column("ca_state")[rows] <= 1)
    begin, end = window.span(flow)
    inside = (times > begin) & (times <= end)
    return spent[inside], acked[inside], slow[inside]


def _share(window: Window, bytes_: bool) -> Values:
    values = []
    for flow in _tcp(window):
        spent, acked, slow = _slow_start(window, flow)
        amount = acked if bytes_ else spent
        whole = float(np.sum(amount))
        values.append(float(np.sum(amount[slow])) / whole if whole > 0 else math.nan)
    return Values("flow", [flow.id for flow in _tcp(window)], np.array(values, dtype=np.float64))


@metric(
    "slow_start.time_share",
    symbol="T_ss / T",
    formula="time with cwnd < ssthresh and no recovery / active time",
    unit="1",
    bounds=SHARE,
    category=Category.CONVERGENCE,
    scope="flow",
    views=_DESIGNER,
    source="thesis section 1.3.3.1",
    tables=("samples", "flows"),
)
def slow_start_time_share(window: Window) -> Values:
    """Share of its active time that a TCP flow spends in slow start, at the resolution of ``measure.tcp``."""
    return _share(window, bytes_=False)


@metric(
    "slow_start.bytes_share",
    symbol="b_ss / b",
    formula="payload acknowledged in slow start / payload acknowledged",
    unit="1",
    bounds=SHARE,
    category=Category.CONVERGENCE,
    scope="flow",
    views=_DESIGNER,
    source="thesis section 1.3.3.1",
    tables=("samples", "flows"),
)
def slow_start_bytes_share(window: Window) -> Values:
    """Share of its bytes that a TCP flow transfers in slow start, at the resolution of ``measure.tcp``."""
    return _share(window, bytes_=True)
