"""Loss and its effects: drops, marks, retransmissions, timeouts, and synchronised losses."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from weir.metrics.bounds import NON_NEGATIVE, SHARE
from weir.metrics.errors import MetricError
from weir.metrics.registry import Category, Param, View, metric
from weir.metrics.results import Floats, Ints, Values
from weir.metrics.window import Window
from weir.run import Flow

__all__ = ["count_in_window"]

_NETWORK = (View.DESIGNER, View.PROVIDER)
_LIFE = "is counted over the whole life of a flow and has no value for a phase"


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else math.nan


def _link_ratios(window: Window, column: str) -> Values:
    found = [
        (link.id, _ratio(float(np.sum(part)), float(np.sum(arrived))))
        for link, _, _, (part, arrived) in window.link_intervals(column, "in_packets")
    ]
    return Values("link", [k for k, _ in found], np.array([v for _, v in found], dtype=np.float64))


@metric(
    "link.loss",
    symbol="p_l",
    formula="Σ packets dropped / Σ packets arrived",
    unit="1",
    bounds=SHARE,
    category=Category.LOSS,
    scope="link",
    views=_NETWORK,
    source="thesis Table 2.III",
    tables=("links", "flows"),
    percent=True,
)
def link_loss(window: Window) -> Values:
    """Packets that a link drops (by losses, queue or MTU) over packets that arrive, all flows together."""
    return _link_ratios(window, "drop_packets")


@metric(
    "link.marks",
    symbol="m_l",
    formula="Σ packets marked / Σ packets arrived",
    unit="1",
    bounds=SHARE,
    category=Category.LOSS,
    scope="link",
    views=_NETWORK,
    source="RFC 3168; RFC 5166 section 2.3",
    tables=("links", "flows"),
    percent=True,
)
def link_marks(window: Window) -> Values:
    """Packets that a link marks congestion-experienced over packets that arrive, all flows together."""
    return _link_ratios(window, "mark_packets")


def _totals(window: Window, column: str) -> Floats:
    """A counter of table ``flows`` summed over each flow's transfers; shape (flows,).

    Raises:
        MetricError: the window is a phase.
    """
    if window.phase is not None:
        raise MetricError(_LIFE)
    counted = window.data.transfers.group_by("flow").agg(pl.col(column).sum())
    found = dict(zip(counted["flow"].to_list(), counted[column].to_list(), strict=True))
    return np.array([float(found.get(flow, math.nan)) for flow in window.flow_ids], dtype=np.float64)


def _per_flow(window: Window, above: Floats, below: Floats) -> Values:
    ratio = np.full(len(above), math.nan)
    np.divide(above, below, out=ratio, where=below > 0)
    return Values("flow", window.flow_ids, ratio)


@metric(
    "loss",
    symbol="p_i",
    formula="data packets lost / data packets sent",
    unit="1",
    bounds=SHARE,
    category=Category.LOSS,
    scope="flow",
    views=_NETWORK,
    source="thesis section 2.3.1 and Table 2.III (packet loss rate p)",
    tables=("flows",),
    percent=True,
)
def loss(window: Window) -> Values:
    """Packet loss rate of a flow over its whole life; for a phase, see ``link.loss``."""
    return _per_flow(window, _totals(window, "lost_packets"), _totals(window, "sent_packets"))


@metric(
    "marks",
    symbol="m_i",
    formula="data packets marked / data packets sent",
    unit="1",
    bounds=SHARE,
    category=Category.LOSS,
    scope="flow",
    views=_NETWORK,
    source="RFC 3168; RFC 5166 section 2.3",
    tables=("flows",),
    percent=True,
)
def marks(window: Window) -> Values:
    """Share of a flow's packets marked congestion-experienced, over its whole life; for a phase, see ``link.marks``."""
    return _per_flow(window, _totals(window, "marked_packets"), _totals(window, "sent_packets"))


@metric(
    "retransmissions",
    symbol="r_i",
    formula="data packets retransmitted / data packets sent",
    unit="1",
    bounds=SHARE,
    category=Category.ROBUSTNESS,
    scope="flow",
    views=(View.END_USER,),
    source="thesis Table 2.III (retransmission r)",
    tables=("flows",),
    percent=True,
)
def retransmissions(window: Window) -> Values:
    """Share of a flow's packets that were retransmissions, over its whole life."""
    return _per_flow(window, _totals(window, "retransmitted_packets"), _totals(window, "sent_packets"))


def count_in_window(window: Window, flow: Flow, column: str) -> tuple[float, float]:
    """Growth of a counter of ``samples`` while the flow was active in the window, and the length of that time, s.

    The counter is 0 at the start of the flow. Returns nan twice without a sample.
    """
    tcp = [f.id for f in window.flows if f.has_window]
    grouped = window.data.grouped("samples", tcp)
    rows = grouped.rows(flow.id)
    begin, end = window.span(flow)
    times = grouped.times_ns[rows]
    lo, hi = (int(k) for k in np.searchsorted(times, [begin, end], side="right"))
    if hi == 0 or hi <= lo:
        return math.nan, math.nan
    counts = grouped.column(column)[rows]
    first, since = (counts[lo - 1], times[lo - 1]) if lo else (0.0, flow.start_ns)
    return float(counts[hi - 1] - first), (int(times[hi - 1]) - int(since)) / 1e9


def _per_second(window: Window, column: str, total: str) -> Values:
    tcp = [flow for flow in window.flows if flow.has_window]
    values = []
    for flow in tcp:
        if window.plan.interval_ns("samples"):
            count, seconds = count_in_window(window, flow, column)
        else:
            count, seconds = _life(window, flow, total)
        values.append(_ratio(count, seconds) if not math.isnan(count) else math.nan)
    return Values("flow", [flow.id for flow in tcp], np.array(values, dtype=np.float64))


def _life(window: Window, flow: Flow, total: str) -> tuple[float, float]:
    begin, end = window.span(flow)
    return float(_totals(window, total)[window.flow_ids.index(flow.id)]), (end - begin) / 1e9


@metric(
    "retransmissions.rate",
    symbol="r_i/s",
    formula="packets retransmitted / active time",
    unit="1/s",
    bounds=NON_NEGATIVE,
    category=Category.LOSS,
    scope="flow",
    views=(View.END_USER, View.DESIGNER),
    source="LIP 2006-38 Tables 9 and 10",
    tables=("samples", "flows"),
)
def retransmissions_rate(window: Window) -> Values:
    """Retransmissions per second of a TCP flow.

    From the counters of ``samples``, or over the whole life of the flow if samples were not recorded.
    """
    return _per_second(window, "retransmitted_packets", "retransmitted_packets")


@metric(
    "timeouts.rate",
    symbol="t_i/s",
    formula="retransmission timeouts / active time",
    unit="1/s",
    bounds=NON_NEGATIVE,
    category=Category.LOSS,
    scope="flow",
    views=(View.END_USER, View.DESIGNER),
    source="LIP 2006-38 Tables 9 and 10",
    tables=("samples", "flows"),
)
def timeouts_rate(window: Window) -> Values:
    """Retransmission timeouts per second of a TCP flow.

    From the counters of ``samples``, or over the whole life of the flow if samples were not recorded.
    """
    return _per_second(window, "timeouts", "timeouts")


@metric(
    "timeouts",
    symbol="t_i",
    formula="number of `rto` events",
    unit="count",
    bounds=NON_NEGATIVE,
    category=Category.LOSS,
    scope="flow",
    views=(View.END_USER,),
    source="thesis Table 2.III (timeout events t)",
    tables=("events", "flows"),
)
def timeouts(window: Window) -> Values:
    """Retransmission timeouts of a flow in the window."""
    return _event_counts(window, ("rto",))


@metric(
    "backoffs",
    symbol="n_i",
    formula="number of `recovery`, `rto` and `cwr` events",
    unit="count",
    bounds=NON_NEGATIVE,
    category=Category.LOSS,
    scope="flow",
    views=(View.DESIGNER,),
    source="thesis section 2.3.1 (consequences of losses)",
    tables=("events", "flows"),
)
def backoffs(window: Window) -> Values:
    """Number of times that a flow reduced its congestion window: recoveries, timeouts and ECN reactions."""
    return _event_counts(window, ("recovery", "rto", "cwr"))


def _event_counts(window: Window, kinds: tuple[str, ...]) -> Values:
    events = window.data.events.filter(pl.col("kind").is_in(kinds), pl.col("flow").is_not_null())
    counts = []
    for flow in window.flows:
        begin, end = window.span(flow)
        times = events.filter(pl.col("flow") == flow.id)["time_ns"].to_numpy().astype(np.int64)
        counts.append(float(np.sum((times >= begin) & (times < end))))
    return Values("flow", window.flow_ids, np.array(counts, dtype=np.float64))


@metric(
    "loss.synchronisation",
    symbol="s",
    formula="mean over congestion epochs of flows that lose in it / flows active",
    unit="1",
    bounds=SHARE,
    category=Category.LOSS,
    scope="group",
    views=_NETWORK,
    source="RR-6034 figure 11; Baccelli and Hong 2002 (synchronisation rate)",
    tables=("events", "flows"),
    params=(Param("within", "s", 0.0, "Length of an epoch; 0: one round trip, see the description."),),
    percent=True,
)
def loss_synchronisation(window: Window, *, within: float = 0.0) -> Values:
    """Share of the active flows that enter recovery (or time out) within one round trip of each other.

    An epoch begins with a flow's loss event and lasts one round trip: the longest base RTT of the flows or, where the
    run has samples, the largest mean of their smoothed RTT, which includes queueing. The next loss event after it
    begins the next epoch. The value is 1/N if flows always lose alone and 1 if they always lose together; undefined
    without a loss or with fewer than two flows.
    """
    length = within * 1e9 or _epoch_ns(window)
    kinds = pl.col("kind").is_in(("recovery", "rto"))
    chosen = window.data.events.filter(kinds, pl.col("flow").is_in(window.flow_ids))
    begin, end = window.whole_span
    times, flows = (chosen[name].to_numpy().astype(np.int64) for name in ("time_ns", "flow"))
    inside = (times >= begin) & (times < end)
    times, flows = times[inside], flows[inside]
    shares = _epoch_shares(times, flows, length, [window.span(flow) for flow in window.flows])
    return Values("all", [0], np.array([np.mean(shares) if shares else math.nan]))


def _epoch_shares(times: Ints, flows: Ints, length: float, spans: list[tuple[int, int]]) -> list[float]:
    """For each epoch with at least two active flows: the share of them that have an event in it."""
    begins, ends = np.sort([s for s, e in spans if s < e]), np.sort([e for s, e in spans if s < e])
    actives = np.searchsorted(begins, times, side="right") - np.searchsorted(ends, times, side="right")
    afters = np.searchsorted(times, times + length, side="right").tolist()
    shares, at = [], 0
    while at < len(times):
        active = int(actives[at])
        if active > 1:
            shares.append(min(len(set(flows[at : afters[at]].tolist())) / active, 1.0))
        at = afters[at]
    return shares


def _epoch_ns(window: Window) -> float:
    base = max((window.plan.base_rtt_ns(flow) for flow in window.flows), default=0)
    if not window.plan.interval_ns("samples"):
        return float(base)
    means = [float(np.nanmean(v)) for v in window.samples("srtt_ns").values if np.any(~np.isnan(v))]
    return max([float(base), *means])
