"""Stability: how much flows vary around their mean, and how evenly they send."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl

from weir.metrics.bounds import NON_NEGATIVE
from weir.metrics.errors import MetricError
from weir.metrics.reactivity import bytes_sent
from weir.metrics.registry import Category, Param, View, metric
from weir.metrics.results import Floats, Sample, Series, Values
from weir.metrics.statistics import over_time
from weir.metrics.window import Window
from weir.run import Flow, Link

__all__: list[str] = []


def _per_flow(series: Series, stat: str) -> Floats:
    return np.array([over_time(values, stat) for values in series.values], dtype=np.float64)


@metric(
    "goodput.sd",
    symbol="σ_i",
    formula="sqrt(1/T Σ_t (g_i(t) - ḡ_i)²)",
    unit="bit/s",
    bounds=NON_NEGATIVE,
    category=Category.STABILITY,
    scope="flow",
    views=(View.END_USER, View.DESIGNER),
    source="thesis eq. 2.6 and Table 2.II; RR-6034 section 2.3 and figure 18",
    tables=("goodput", "flows"),
)
def goodput_sd(window: Window) -> Values:
    """Standard deviation of a flow's goodput over the intervals of the window (population: divided by T)."""
    return Values("flow", window.flow_ids, _per_flow(window.rates("delivered_bytes"), "sd"))


@metric(
    "goodput.variance",
    symbol="σ_i²",
    formula="1/T Σ_t (g_i(t) - ḡ_i)²",
    unit="(bit/s)²",
    bounds=NON_NEGATIVE,
    category=Category.STABILITY,
    scope="flow",
    views=(View.END_USER, View.DESIGNER),
    source="thesis Table 2.III; LIP 2006-38 Tables 2 to 7",
    tables=("goodput", "flows"),
)
def goodput_variance(window: Window) -> Values:
    """Variance of a flow's goodput over the intervals of the window.

    The thesis' Table 2.II calls the root of this a variance; that is `goodput.sd`.
    """
    return Values("flow", window.flow_ids, _per_flow(window.rates("delivered_bytes"), "var"))


@metric(
    "goodput.cov",
    symbol="CoV_i",
    formula="σ_i / ḡ_i",
    unit="1",
    bounds=NON_NEGATIVE,
    category=Category.STABILITY,
    scope="flow",
    views=(View.PROVIDER,),
    source="thesis eq. 2.8; DataTAG section 4",
    tables=("goodput", "flows"),
)
def goodput_cov(window: Window) -> Values:
    """Coefficient of variation of a flow's goodput over the intervals of the window; undefined if the goodput is 0."""
    return Values("flow", window.flow_ids, _per_flow(window.rates("delivered_bytes"), "cov"))


@metric(
    "goodput.normalised_sd",
    symbol="σ̄ / ḡ",
    formula="(1/N Σ_i σ_i) / (1/N Σ_i ḡ_i)",
    unit="1",
    bounds=NON_NEGATIVE,
    category=Category.STABILITY,
    scope="group",
    views=(View.DESIGNER, View.PROVIDER),
    source="RR-6034 Table 1 and figure 19",
    tables=("goodput", "flows"),
)
def goodput_normalised_sd(window: Window) -> Values:
    """Mean of the flows' deviations over the mean of their goodputs."""
    series = window.rates("delivered_bytes")
    deviation, mean = over_time(_per_flow(series, "sd"), "mean"), over_time(_per_flow(series, "mean"), "mean")
    return Values("all", [0], np.array([deviation / mean if mean else math.nan]))


@metric(
    "throughput.cov",
    symbol="CoV_X",
    formula="sqrt(1/(T-1) Σ_t (x_i(t) - x̄_i)²) / x̄_i",
    unit="1",
    bounds=NON_NEGATIVE,
    category=Category.STABILITY,
    scope="flow",
    views=(View.PROVIDER,),
    source="thesis eq. 2.12; Low et al. 2005",
    tables=("goodput", "flows"),
)
def throughput_cov(window: Window) -> Values:
    """Coefficient of variation of a flow's throughput (sample: T - 1); undefined with fewer than two intervals."""
    values = [
        float(np.std(v, ddof=1) / np.mean(v)) if len(v) > 1 and np.mean(v) > 0 else math.nan
        for v in window.rates("sent_ip_bytes").values
    ]
    return Values("flow", window.flow_ids, np.array(values, dtype=np.float64))


@metric(
    "smoothness",
    symbol="S",
    formula="max_t |x_i(t + δ_t) - x_i(t)|",
    unit="bit/s",
    bounds=NON_NEGATIVE,
    category=Category.STABILITY,
    scope="flow",
    views=(View.DESIGNER,),
    source="thesis eq. 2.7; Yang et al. 2001",
    tables=("goodput", "flows"),
)
def smoothness(window: Window) -> Values:
    """Largest change of a flow's throughput from one interval of ``measure.goodput`` (δ_t) to the next.

    Undefined with fewer than two intervals.
    """
    values = [
        float(np.max(np.abs(np.diff(v)))) if len(v) > 1 else math.nan for v in window.rates("sent_ip_bytes").values
    ]
    return Values("flow", window.flow_ids, np.array(values, dtype=np.float64))


@metric(
    "sawtooth",
    symbol="τ_i",
    formula="time from one `recovery` event of a flow to its next",
    unit="s",
    bounds=NON_NEGATIVE,
    category=Category.STABILITY,
    scope="group",
    views=(View.DESIGNER,),
    source="thesis sections 1.2.2.3 and 4.4 (period of the saw-tooth, time from W/2 to W)",
    tables=("events", "flows"),
)
def sawtooth(window: Window) -> Sample:
    """Time between two recoveries of a flow: the period of its saw-tooth; a population over the selected flows.

    Counts periods that lie wholly in the window and contain no timeout.
    """
    kinds = pl.col("kind").is_in(("recovery", "rto"))
    events = window.data.events.filter(kinds, pl.col("flow").is_in(window.flow_ids)).sort("flow", "time_ns")
    owner, times = (events[name].to_numpy().astype(np.int64) for name in ("flow", "time_ns"))
    recovery = (events["kind"] == "recovery").to_numpy()
    inside = (times >= window.from_ns) & (times < window.to_ns)
    pair = (np.diff(owner) == 0) & recovery[:-1] & recovery[1:] & inside[:-1] & inside[1:]
    return Sample(owner[1:][pair], np.diff(times)[pair] / 1e9)


@metric(
    "starvation",
    symbol="z_i",
    formula="longest time with g_i(t) < level · ḡ_fair",
    unit="s",
    bounds=NON_NEGATIVE,
    category=Category.STABILITY,
    scope="flow",
    views=(View.END_USER, View.PROVIDER),
    source="LIP 2006-38 section 4.1 (one flow starves for over 100 ms)",
    tables=("goodput", "flows"),
    params=(Param("level", "1", 0.01, "Share of the flows' mean goodput below which a flow starves."),),
)
def starvation(window: Window, *, level: float = 0.01) -> Values:
    """Longest time for which a flow gets less than 1 % of the flows' mean goodput in every interval.

    A multiple of ``measure.goodput``; 0 if the flow never starves.
    """
    series = window.rates("delivered_bytes")
    fair = over_time(_per_flow(series, "mean"), "mean")
    step = window.plan.interval_ns("goodput") / 1e9
    values = [_longest_run(v < level * fair) * step if len(v) else math.nan for v in series.values]
    return Values("flow", window.flow_ids, np.array(values, dtype=np.float64))


def _longest_run(truth: np.typing.NDArray[np.bool_]) -> int:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], truth, [False]]).astype(np.int8)))
    return int(np.max(edges[1::2] - edges[::2])) if len(edges) else 0


_LONGER = Param("longer", "s", None, "Shorter pauses do not count. Default: the base RTT.")


def _silences(window: Window, flow: Flow, longer: float | None) -> Floats | None:
    """Lengths (s) of the times in which ``flow`` sent nothing; ``None`` if it was not observed.

    A time lasts from the last row before which something was sent to the last row before which nothing was.
    """
    times, counted, interval = bytes_sent(window, flow)
    begin, end = window.span(flow)
    inside = (times >= begin) & (times <= end)
    times, counted = times[inside], counted[inside]
    if len(times) < 2:
        return None
    still = np.diff(counted) == 0
    edges = np.flatnonzero(np.diff(np.concatenate([[False], still, [False]]).astype(np.int8)))
    lengths = (times[edges[1::2]] - times[edges[::2]]) / 1e9
    least = longer if longer is not None else max(window.plan.base_rtt_ns(flow), interval) / 1e9
    return np.asarray(lengths[lengths > least], dtype=np.float64)


@metric(
    "silence",
    symbol="T_silent",
    formula="longest time in which a flow sends nothing",
    unit="s",
    bounds=NON_NEGATIVE,
    category=Category.STABILITY,
    scope="flow",
    views=(View.END_USER, View.DESIGNER),
    source="DataTAG section 7.2 and figure 16 (periods of silence)",
    tables=("samples", "goodput", "flows"),
    params=(_LONGER,),
)
def silence(window: Window, *, longer: float | None = None) -> Values:
    """Longest time for which an active flow sends nothing, if it is longer than a round trip; else 0.

    Resolution: the interval of ``measure.tcp``, for UDP that of ``measure.goodput``. A sender that waits for its
    application is silent, too: use it for flows that always have data. Undefined with fewer than two rows.
    """
    found = [_silences(window, flow, longer) for flow in window.flows]
    values = [math.nan if lengths is None else float(np.max(lengths, initial=0.0)) for lengths in found]
    return Values("flow", window.flow_ids, np.array(values, dtype=np.float64))


@metric(
    "silence.count",
    symbol="n_silent",
    formula="number of times in which a flow sends nothing for longer than a round trip",
    unit="count",
    bounds=NON_NEGATIVE,
    category=Category.STABILITY,
    scope="flow",
    views=(View.END_USER, View.DESIGNER),
    source="DataTAG section 7.2 and figure 16 (periods of silence)",
    tables=("samples", "goodput", "flows"),
    params=(_LONGER,),
)
def silence_count(window: Window, *, longer: float | None = None) -> Values:
    """Number of times that an active flow sends nothing for longer than a round trip; see `silence`."""
    found = [_silences(window, flow, longer) for flow in window.flows]
    values = [math.nan if lengths is None else float(len(lengths)) for lengths in found]
    return Values("flow", window.flow_ids, np.array(values, dtype=np.float64))


@metric(
    "stability.loop",
    symbol="S",
    formula="ρ (c³ τ³ / 4 N^power) (cτ / 2N + 1 + 1 / (α c τ)) / (π (1-β)² / sqrt(4β² + π² (1-β)²))",
    unit="1",
    bounds=NON_NEGATIVE,
    category=Category.STABILITY,
    scope="link",
    views=(View.PROVIDER,),
    source="DataTAG eq. 1, after Low, Paganini, Wang and Doyle 2003",
    tables=(),
    params=(
        Param("power", "1", 2.0, "Power of N: 2 from the fluid model, 4 as DataTAG prints it."),
        Param("beta", "1", 0.5, "β of the right side, between 0 and 1; the paper does not say which."),
    ),
)
def stability_loop(window: Window, *, power: float, beta: float) -> Values:
    """Equation 1, left side over right side: below 1, small oscillations of windows and queue die out.

    From the plan alone. ρ is the slope of the queue's drop probability, per packet; α the weight of its average; c the
    rate of the link in full packets a second; τ the flows' mean base RTT; N the number of selected flows that are
    active in the window. The fluid model of Reno (Misra, Gong and Towsley 2000) has a gain of ρ (cτ)³ / 4N², the
    default. Undefined for a queue without a drop curve. Raises MetricError if ``beta`` is not between 0 and 1.
    """
    if not 0 < beta < 1:
        raise MetricError("beta must be between 0 and 1")
    right = math.pi * (1 - beta) ** 2 / math.sqrt(4 * beta**2 + math.pi**2 * (1 - beta) ** 2)
    left = [_loop(window, link, power) for link in window.links]
    return Values("link", [link.id for link in window.links], np.array(left, dtype=np.float64) / right)


def _loop(window: Window, link: Link, power: float) -> float:
    """The left side of equation 1; not a number without flows or without a drop curve."""
    flows = [flow for flow in window.active_flows if link.id in flow.path]
    queue: Any = link.typed.queue
    curve = next(iter(getattr(queue, "curves", ())), None)
    if not flows or curve is None or curve.max_bytes <= curve.min_bytes:
        return math.nan
    wire = max(flow.packet_bytes for flow in flows) + link.overhead_bytes
    slope = curve.max_p * wire / (curve.max_bytes - curve.min_bytes)
    rtt = sum(window.plan.base_rtt_ns(flow) for flow in flows) / len(flows) / 1e9
    product = link.rate_bps / (8 * wire) * rtt
    poles = product / (2 * len(flows)) + 1 + 1 / (queue.weight * product)
    return float(slope * product**3 / (4 * len(flows) ** power) * poles)
