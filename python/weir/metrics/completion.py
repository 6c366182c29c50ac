"""Completion times of transfers. A transfer counts in the phase in which it completes."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import polars as pl

from weir.metrics.bounds import NON_NEGATIVE, SHARE
from weir.metrics.errors import MetricError
from weir.metrics.fairness import jain_index
from weir.metrics.registry import Category, Param, View, metric
from weir.metrics.results import Distribution, Floats, Ints, Sample, Values
from weir.metrics.window import Window
from weir.plan import TcpTransport, UdtTransport
from weir.run.bounds import MAX_INTERVALS

__all__ = ["completed"]

_USER = (View.END_USER,)


def completed(window: Window) -> tuple[Ints, Floats, pl.DataFrame]:
    """Flow, completion time (s) and row of each transfer of known size that completed in the window."""
    table = window.data.transfers.filter(
        pl.col("flow").is_in(window.flow_ids),
        pl.col("bytes").is_not_null(),
        pl.col("end_ns").is_not_null(),
        pl.col("end_ns").cast(pl.Int64).is_between(window.from_ns, window.to_ns, closed="both"),
    )
    begin, end = (table[name].to_numpy().astype(np.int64) for name in ("start_ns", "end_ns"))
    return table["flow"].to_numpy().astype(np.int64), (end - begin) / 1e9, table


def _one(value: float) -> Values:
    return Values("all", [0], np.array([value]))


@metric(
    "completion",
    symbol="T_i",
    formula="time of the last acknowledgement - time of the request",
    unit="s",
    bounds=NON_NEGATIVE,
    category=Category.THROUGHPUT,
    scope="group",
    views=_USER,
    source="thesis section 5.2.1",
    tables=("flows",),
)
def completion(window: Window) -> Sample:
    """Completion time of a transfer, including connection set-up; a population over all transfers of the selected
    flows.

    ``completion.mean``, ``.sd`` and ``.cov`` are the thesis' mean, deviation and coefficient of variation. Transfers
    that did not complete are left out: see ``completion.unfinished``.
    """
    owner, times, _ = completed(window)
    return Sample(owner, times)


@metric(
    "completion.distribution",
    symbol="p_k(T)",
    formula="share of transfers with k·w ≤ T_i < (k+1)·w",
    unit="1",
    bounds=SHARE,
    category=Category.THROUGHPUT,
    scope="group",
    views=_USER,
    source="thesis section 5.3.2",
    tables=("flows",),
    params=(Param("width", "s", 1.0, "Width of a bin."),),
)
def completion_distribution(window: Window, *, width: float = 1.0) -> Distribution:
    """Distribution of completion times in bins of ``width``, from the shortest transfer's bin to the longest's."""
    _, times, _ = completed(window)
    if len(times) == 0:
        return Distribution("all", [0], np.array([0.0, width]), np.full((1, 1), math.nan))
    if np.ptp(times) / width > MAX_INTERVALS:
        raise MetricError(f"bins of {width:g} s are more than {MAX_INTERVALS} here; take wider ones")
    bins = np.floor(times / width + 1e-9).astype(np.int64)
    first = int(bins.min())
    shares = np.bincount(bins - first) / len(times)
    edges = width * np.arange(first, first + len(shares) + 1, dtype=np.float64)
    return Distribution("all", [0], edges, shares[np.newaxis, :])


@metric(
    "completion.jain",
    symbol="J_T",
    formula="(Σ T̄_i)² / (N Σ T̄_i²)",
    unit="1",
    bounds=SHARE,
    category=Category.FAIRNESS,
    scope="group",
    views=_USER,
    source="thesis section 5.2.1",
    tables=("flows",),
)
def completion_jain(window: Window) -> Values:
    """Jain's index of the sources' mean completion times; sources without a completed transfer are left out."""
    owner, times, _ = completed(window)
    means = [float(np.mean(times[owner == flow])) for flow in window.flow_ids if np.any(owner == flow)]
    return _one(jain_index(np.array(means, dtype=np.float64)))


@metric(
    "completion.makespan",
    symbol="T_all",
    formula="max_i end_i - min_i start_i",
    unit="s",
    bounds=NON_NEGATIVE,
    category=Category.THROUGHPUT,
    scope="group",
    views=_USER,
    source="thesis figures 4.1 and 5.2",
    tables=("flows",),
)
def completion_makespan(window: Window) -> Values:
    """Time from the first request to the end of the last transfer.

    If a transfer of known size did not complete, the value is the time to the end of the window, marked as a lower
    bound.
    """
    sized = window.data.transfers.filter(pl.col("flow").is_in(window.flow_ids), pl.col("bytes").is_not_null())
    sized = sized.filter(pl.col("start_ns").cast(pl.Int64).is_between(window.from_ns, window.to_ns, closed="left"))
    if sized.height == 0:
        return _one(math.nan)
    begin = int(sized["start_ns"].cast(pl.Int64).min())  # type: ignore[arg-type]
    open_ = sized["end_ns"].is_null().any()
    end = window.to_ns if open_ else int(sized["end_ns"].cast(pl.Int64).max())  # type: ignore[arg-type]
    return Values("all", [0], np.array([(end - begin) / 1e9]), np.array([bool(open_)]))


@metric(
    "completion.count",
    symbol="N_f",
    formula="number of transfers completed",
    unit="count",
    bounds=NON_NEGATIVE,
    category=Category.THROUGHPUT,
    scope="group",
    views=_USER,
    source="thesis section 5.2.1",
    tables=("flows",),
)
def completion_count(window: Window) -> Values:
    """Number of transfers of known size that completed in the window."""
    return _one(float(len(completed(window)[1])))


@metric(
    "completion.unfinished",
    symbol="u",
    formula="transfers started and not completed / transfers started",
    unit="1",
    bounds=SHARE,
    category=Category.ROBUSTNESS,
    scope="group",
    views=_USER,
    source="thesis section 4.2.4 (transfers that a user would cancel)",
    tables=("flows",),
    percent=True,
)
def completion_unfinished(window: Window) -> Values:
    """Share of the transfers started in the window that had not completed at its end."""
    sized = window.data.transfers.filter(pl.col("flow").is_in(window.flow_ids), pl.col("bytes").is_not_null())
    begin = pl.col("start_ns").cast(pl.Int64)
    started = sized.filter(begin.is_between(window.from_ns, window.to_ns, closed="left"))
    late = started["end_ns"].is_null() | (started["end_ns"].cast(pl.Int64) > window.to_ns).fill_null(value=True)
    return _one(float(late.sum()) / started.height if started.height else math.nan)


@metric(
    "completion.goodput",
    symbol="s_i / T_i",
    formula="8 · size / completion time",
    unit="bit/s",
    bounds=NON_NEGATIVE,
    category=Category.THROUGHPUT,
    scope="group",
    views=_USER,
    source="RR-6874 section 3.3.2",
    tables=("flows",),
)
def completion_goodput(window: Window) -> Sample:
    """Mean goodput of a transfer over its completion time; a population over all completed transfers."""
    owner, times, table = completed(window)
    sizes = table["bytes"].to_numpy().astype(np.float64)
    rates = np.full(len(times), math.nan)
    np.divide(8 * sizes, times, out=rates, where=times > 0)
    return Sample(owner, rates)


@metric(
    "lateness",
    symbol="L_i",
    formula="T_i - expected",
    unit="s",
    category=Category.STABILITY,
    scope="group",
    views=_USER,
    source="RR-6874 sections 3.4 and 6.1",
    tables=("flows",),
    params=(Param("expected", "s", None, "Predicted completion time.", required=True),),
)
def lateness(window: Window, *, expected: float) -> Sample:
    """Completion time of a transfer minus the predicted one; negative if the transfer was early."""
    owner, times, _ = completed(window)
    return Sample(owner, times - expected)


@metric(
    "profile.lateness",
    symbol="L_i",
    formula="T_i - (2 · RTT + time in which the profile passes the packets of the transfer)",
    unit="s",
    category=Category.STABILITY,
    scope="group",
    views=_USER,
    source="RR-6874 sections 3.4 and 6.1; the prediction has no fitted coefficients",
    tables=("flows",),
)
def profile_lateness(window: Window) -> Sample:
    """Completion time of a transfer minus that of its rate profile: the packets at the rates of the profile, a base
    round-trip time for the handshake if there was one, and one until the last acknowledgement. Transfers without a
    profile are left out; there is no retransmission in the prediction. UDT connects in two round trips, so that a
    transfer over UDT is one later; a step down of the profile meanwhile prolongs that by the ratio of the rates. Up to
    the time of a packet, a transfer may be early.
    """
    owner, times, table = completed(window)
    flows = {flow: following for flow in set(owner.tolist()) if (following := _following(window, flow)) is not None}
    rows = [(i, flow) for i, flow in enumerate(owner.tolist()) if flow in flows]
    late = []
    for i, flow in rows:
        row = table.row(i, named=True)
        rtt, mss, headers, steps = flows[flow]
        handshake = rtt if (row["established_ns"] or 0) > row["start_ns"] else 0
        packets = -(-row["bytes"] // mss)
        begin = row["start_ns"] + handshake
        end = _passed(steps, begin, row["bytes"] + packets * headers) + rtt
        late.append(times[i] - (end - row["start_ns"]) / 1e9)
    return Sample(owner[[i for i, _ in rows]], np.array(late, dtype=np.float64))


def _following(window: Window, flow: int) -> tuple[int, int, int, list[tuple[int, int]]] | None:
    """Of a flow with a rate profile: base round-trip time, payload and headers of a packet, and the steps."""
    plan = window.data.plan
    planned = plan.flows[flow]
    transport = planned.typed.transport
    if not isinstance(transport, TcpTransport | UdtTransport) or not transport.profile:
        return None
    steps = [(step.at_ns, step.rate_bps) for step in transport.profile]
    return plan.base_rtt_ns(planned), planned.payload_bytes, planned.header_bytes, steps


def _passed(steps: list[tuple[int, int]], begin: int, size: int) -> float:
    """When ``size`` bytes that begin at ``begin`` (ns) have passed at the rates of ``steps``, ns."""
    left = size * 8e9
    at = float(begin)
    for (_, rate), (until, _) in pairwise([*steps, (math.inf, 0)]):
        if until <= at:
            continue
        if left <= rate * (until - at):
            return at + left / rate
        left -= rate * (until - at)
        at = float(until)
    return math.inf
