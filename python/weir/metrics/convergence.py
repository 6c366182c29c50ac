"""Convergence: how fast a flow's window fills its path, and the share of slow start."""

from __future__ import annotations

import math

import numpy as np

from weir.metrics.bounds import NON_NEGATIVE, SHARE
from weir.metrics.reactivity import first_reach
from weir.metrics.registry import Category, Param, View, metric
from weir.metrics.results import Floats, Values
from weir.metrics.window import Window
from weir.plan import payload_bytes
from weir.run import Flow

__all__: list[str] = []

_DESIGNER = (View.DESIGNER,)
_LEVEL = (Param("level", "1", 0.8, "Share of the bandwidth-delay product to reach."),)


def _tcp(window: Window) -> list[Flow]:
    return [flow for flow in window.flows if flow.has_window]


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

    ``convergence.time`` in round trips, with the same beginning, product and bound. It is about one flow and its path;
    ``fairness.delta`` is the time until flows have equal shares.
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
    percent=True,
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
    percent=True,
)
def slow_start_bytes_share(window: Window) -> Values:
    """Share of its bytes that a TCP flow transfers in slow start, at the resolution of ``measure.tcp``."""
    return _share(window, bytes_=True)


_OPEN, _DISORDER, _LOSS = 0, 1, 4
"""States of Linux' congestion state machine in which a window below the threshold grows by slow start."""


@metric(
    "slow_start.entries",
    symbol="n_ss",
    formula="number of samples with cwnd < ssthresh after one without",
    unit="count",
    bounds=NON_NEGATIVE,
    category=Category.CONVERGENCE,
    scope="flow",
    views=_DESIGNER,
    source="DataTAG section 7.2 and figure 16 (slow start after a period of silence)",
    tables=("samples", "flows"),
)
def slow_start_entries(window: Window) -> Values:
    """Number of times that a TCP flow returns to slow start, at the resolution of ``measure.tcp``.

    After a timeout, or a pause that restarts the window. The first slow start of a connection does not count, nor does
    a window below the threshold during a fast recovery. Undefined without samples in the window.
    """
    flows = _tcp(window)
    grouped = window.data.grouped("samples", [flow.id for flow in flows])
    values = []
    for flow in flows:
        rows = grouped.rows(flow.id)
        times, state = grouped.times_ns[rows], grouped.column("ca_state")[rows]
        cwnd, threshold = grouped.column("cwnd")[rows], grouped.column("ssthresh")[rows]
        slow = (np.isnan(threshold) | (cwnd < threshold)) & np.isin(state, (_OPEN, _DISORDER, _LOSS))
        begin, end = window.span(flow)
        inside = (times > begin) & (times <= end)
        entered = np.diff(slow.astype(np.int8), prepend=1) == 1
        values.append(float(np.sum(entered & inside)) if np.any(inside) else math.nan)
    return Values("flow", [flow.id for flow in flows], np.array(values, dtype=np.float64))


@metric(
    "delivery.time",
    symbol="t_N",
    formula="min{t | packets delivered to flow i by t >= N} - beginning",
    unit="s",
    bounds=NON_NEGATIVE,
    category=Category.CONVERGENCE,
    scope="flow",
    views=(View.END_USER, View.DESIGNER),
    source="thesis section 4.5.2 (convergence times: the time a newcomer needs for N packets); Andrew et al. 2008",
    tables=("goodput", "flows"),
    params=(Param("packets", "packets", None, "N: number of packets of the flow's full payload.", required=True),),
)
def delivery_time(window: Window, *, packets: float) -> Values:
    """Time until N packets of a flow have been delivered: how soon a newcomer gets something done.

    Counts from the beginning of the window, or from the start of the flow if that is later. A packet is the largest
    payload that the flow sends. Interpolated within an interval of ``measure.goodput``; a lower bound (the time to the
    end of the flow in the window) if fewer are delivered. Undefined for a flow that is not active in the window.
    """
    grouped = window.data.grouped("goodput", window.flow_ids)
    values, censored = [], []
    for flow in window.flows:
        rows = grouped.rows(flow.id)
        begin, end = window.span(flow)
        ends, delivered = grouped.times_ns[rows], np.cumsum(grouped.column("delivered_bytes")[rows])
        after = ends > flow.start_ns
        times = np.concatenate([[float(flow.start_ns)], ends[after].astype(np.float64)])
        counted = np.concatenate([[0.0], delivered[after]])
        before, most = np.interp([begin, end], times, counted)
        wanted = before + packets * payload_bytes(flow.typed.transport)
        late = most < wanted
        values.append(
            math.nan if end <= begin else (float(end if late else _crossing(times, counted, wanted)) - begin) / 1e9
        )
        censored.append(bool(late) and end > begin)
    return Values("flow", window.flow_ids, np.array(values, dtype=np.float64), np.array(censored, dtype=bool))


def _crossing(times: Floats, counted: Floats, wanted: float) -> float:
    """The first instant at which ``counted``, linear between ``times``, is ``wanted``."""
    at = max(1, int(np.searchsorted(counted, wanted)))
    low, high = counted[at - 1], counted[at]
    return float(times[at - 1] + (times[at] - times[at - 1]) * (wanted - low) / (high - low))
