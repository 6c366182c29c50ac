"""Reactivity: how fast flows change their rate when conditions change (thesis equations 2.4, 2.5 and 2.13).

Use a phase that begins where the conditions change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from weir.metrics.bounds import NON_NEGATIVE
from weir.metrics.errors import MetricError
from weir.metrics.registry import Category, Param, View, metric
from weir.metrics.results import Floats, Series, Values
from weir.metrics.throughput import aggregate
from weir.metrics.window import Window
from weir.run import Flow

__all__ = ["StepRates", "bytes_sent", "first_reach", "step_rates"]


@dataclass(frozen=True)
class StepRates:
    """Throughput of one flow over consecutive steps of one round trip, from the beginning of the window."""

    step_s: float
    """Length of a step: the base RTT, or the interval of the table if that is longer."""
    before: float
    """Throughput over the step before the window, bit/s; nan if the flow was not active then."""
    rates: Floats
    """Bit/s of each whole step while the flow is active in the window."""
    rtt_s: float
    """Base RTT of the flow."""


def step_rates(window: Window, flow: Flow) -> StepRates:
    """Throughput of ``flow`` in steps of its base RTT, interpolated in :func:`bytes_sent`."""
    times, counted, interval = bytes_sent(window, flow)
    rtt = window.plan.base_rtt_ns(flow)
    step = max(rtt, interval)
    begin, end = window.span(flow)
    end = min(end, int(times[-1]))
    number = max(0, (end - begin) // step)
    marks = begin + step * np.arange(number + 1, dtype=np.int64)
    rates = 8e9 * np.diff(np.interp(marks, times, counted)) / step
    before = math.nan
    if begin - step >= flow.start_ns:
        earlier, now = np.interp([begin - step, begin], times, counted)
        before = float(8e9 * (now - earlier) / step)
    return StepRates(step / 1e9, before, rates, rtt / 1e9)


def bytes_sent(window: Window, flow: Flow) -> tuple[Floats, Floats, int]:
    """Instants (ns) from the start of ``flow``, the bytes that it had sent by each, and the table's interval (ns).

    The finest counter of the run: ``samples.sent_bytes`` (payload) for a TCP flow if samples were recorded, else
    ``goodput.sent_ip_bytes`` (with headers).
    """
    if flow.has_window and window.plan.interval_ns("samples"):
        grouped = window.data.grouped("samples", [f.id for f in window.flows if f.has_window])
        rows = grouped.rows(flow.id)
        times, counted = grouped.times_ns[rows], grouped.column("sent_bytes")[rows]
        interval = window.plan.interval_ns("samples")
    else:
        grouped = window.data.grouped("goodput", window.flow_ids)
        rows = grouped.rows(flow.id)
        times, counted = grouped.times_ns[rows], np.cumsum(grouped.column("sent_ip_bytes")[rows])
        interval = window.plan.interval_ns("goodput")
    after = times > flow.start_ns
    return (
        np.concatenate([[float(flow.start_ns)], times[after].astype(np.float64)]),
        np.concatenate([[0.0], counted[after]]),
        interval,
    )


@metric(
    "responsiveness",
    symbol="R",
    formula="min{u | x_i(t + u·RTT) ≤ x_i(t) / 2}",
    unit="RTT",
    bounds=NON_NEGATIVE,
    category=Category.REACTIVITY,
    scope="flow",
    views=(View.DESIGNER,),
    source="thesis eq. 2.4; Floyd et al. 2000",
    tables=("samples", "goodput", "flows"),
)
def responsiveness(window: Window) -> Values:
    """Round trips from the beginning of the window until a flow has halved its throughput.

    x_i(t) is the throughput over the step before the window. Steps are one base RTT, or the interval of the samples if
    that is longer; they are the resolution of the value. Undefined for a flow that was not active before the window or
    sent nothing. A lower bound (the number of steps) if the flow did not halve its throughput within the window.
    """
    values, censored = [], []
    for flow in window.flows:
        steps = step_rates(window, flow)
        low = np.flatnonzero(steps.rates <= steps.before / 2)
        known = not math.isnan(steps.before) and steps.before > 0 and len(steps.rates) > 0
        count = float(low[0] + 1) if len(low) else float(len(steps.rates))
        values.append(count * steps.step_s / steps.rtt_s if known else math.nan)
        censored.append(known and not len(low))
    return Values("flow", window.flow_ids, np.array(values, dtype=np.float64), np.array(censored, dtype=bool))


@metric(
    "responsiveness.average",
    symbol="R̄_X",
    formula="max{t : |Σ x_i(t) - Σ x̄_i| / Σ x̄_i > tolerance}",
    unit="s",
    bounds=NON_NEGATIVE,
    category=Category.REACTIVITY,
    scope="group",
    views=(View.DESIGNER,),
    source="thesis eq. 2.13; Low et al. 2005",
    tables=("goodput", "flows"),
    params=(Param("tolerance", "1", 0.1, "Deviation from the mean that still counts as equilibrium."),),
)
def responsiveness_average(window: Window, *, tolerance: float = 0.1) -> Values:
    """Time from the beginning of the window until the aggregate throughput stays within 10 % of its mean.

    Resolution: the interval of ``measure.goodput``. 0 if it is always within; a lower bound if the last interval is
    not.
    """
    series = aggregate(window, "sent_ip_bytes")
    rates, times = series.values[0], series.times_ns[0]
    mean = float(np.mean(rates)) if len(rates) else 0.0
    if mean == 0.0:
        return Values("all", [0], np.array([math.nan]))
    outside = np.flatnonzero(np.abs(rates - mean) / mean > tolerance)
    last = (int(times[outside[-1]]) - window.whole_span[0]) / 1e9 if len(outside) else 0.0
    unsettled = len(outside) > 0 and int(outside[-1]) == len(rates) - 1
    return Values("all", [0], np.array([last]), np.array([unsettled]))


@metric(
    "aggressiveness",
    symbol="A",
    formula="max_t {x_i(t + RTT) - x_i(t)}, over all t",
    unit="bit/s",
    category=Category.REACTIVITY,
    scope="flow",
    views=(View.END_USER, View.DESIGNER, View.PROVIDER),
    source="thesis eq. 2.5; Floyd et al. 2000",
    tables=("samples", "goodput", "flows"),
)
def aggressiveness(window: Window) -> Values:
    """Largest increase of a flow's throughput from one round trip to the next, wherever the first begins.

    x_i(t) is the throughput over the base RTT that ends at t, or over the interval of the samples if that is longer.
    The flow is active in both round trips, and the second is within the window. Undefined if there is no such pair;
    negative if the throughput only fell. RFC 5166 defines aggressiveness in the absence of congestion; this metric
    counts all of the window, so name a phase without congestion to have the RFC's.
    """
    values = [_largest_rise(window, flow) for flow in window.flows]
    return Values("flow", window.flow_ids, np.array(values, dtype=np.float64))


def _largest_rise(window: Window, flow: Flow) -> float:
    """Bit/s: max of (B(t + R) - 2 B(t) + B(t - R)) / R, where B is the bytes sent until an instant, interpolated.

    B is linear between rows, so the maximum is where t, t + R or t - R is one.
    """
    times, counted, interval = bytes_sent(window, flow)
    step = float(max(window.plan.base_rtt_ns(flow), interval))
    begin, end = window.span(flow)
    first = max(float(begin), flow.start_ns + step)
    last = min(float(end), float(times[-1])) - step
    if last < first:
        return math.nan
    middles = np.unique(np.concatenate([times, times - step, times + step, [first, last]]))
    middles = middles[(middles >= first) & (middles <= last)]
    after, now, earlier = (np.interp(middles + shift, times, counted) for shift in (step, 0.0, -step))
    return float(8e9 * np.max(after - 2 * now + earlier) / step)


def first_reach(series: Series, level: Floats, origin_ns: Floats) -> Values:
    """Seconds from each member's ``origin_ns`` to the end of its first interval at or above ``level``.

    A lower bound (the time to the last interval) if the member never reaches it; nan without values.
    """
    values, censored = [], []
    for times, found, least, origin in zip(series.times_ns, series.values, level, origin_ns, strict=True):
        if len(found) == 0 or math.isnan(least):
            values.append(math.nan)
            censored.append(False)
            continue
        high = np.flatnonzero(found >= least)
        values.append((float(times[high[0] if len(high) else -1]) - float(origin)) / 1e9)
        censored.append(len(high) == 0)
    return Values(series.axis, series.members, np.array(values, dtype=np.float64), np.array(censored, dtype=bool))


_RATE = Param("rate", "bit/s", None, "Goodput to reach; or `share`.")
_REACH_PARAMS = (
    Param("rate", "bit/s", None, "Goodput to reach; or `share`, or `peak`."),
    Param("share", "1", None, "Share to reach of the rate of the path's slowest link; or `rate`, or `peak`."),
    Param("peak", "1", None, "Share to reach of the flow's own maximum in the whole run; or `rate`, or `share`."),
)


def _level(reference: Floats, rate: float | None, share: float | None) -> Floats:
    return np.full(len(reference), rate) if rate is not None else np.asarray(reference * (share or 0.0))


def _one_of(**given: float | None) -> None:
    if sum(value is not None for value in given.values()) != 1:
        *most, last = given
        example = {"rate": "[rate: 500Mbps]", "share": "[share: 0.9]", "peak": "[peak: 0.9]"}
        shown = " or ".join(example[name] for name in given)
        raise MetricError(f"expected one of the parameters {', '.join(most)} and {last}, as in {shown}")


def _peaks(window: Window) -> Floats:
    """Largest goodput of each flow in an interval of the run, bit/s; nan without any."""
    everything = replace(window, phase=None, from_ns=0, to_ns=window.plan.end_ns)
    found = everything.rates("delivered_bytes").values
    return np.array([np.max(values) if len(values) else math.nan for values in found], dtype=np.float64)


@metric(
    "goodput.reach",
    symbol="t(g_i ≥ g)",
    formula="min{t | g_i(t) ≥ rate} - beginning",
    unit="s",
    bounds=NON_NEGATIVE,
    category=Category.REACTIVITY,
    scope="flow",
    views=(View.END_USER,),
    source="thesis section 4.2.4 and figure 5.2 (time to recover, time to full rate)",
    tables=("goodput", "flows"),
    params=_REACH_PARAMS,
)
def goodput_reach(
    window: Window, *, rate: float | None = None, share: float | None = None, peak: float | None = None
) -> Values:
    """Time until a flow's goodput reaches a rate, from the beginning of the window or the flow's start if that is
    later.

    Ends with the first interval of ``measure.goodput`` at or above the rate; a lower bound if there is none. With
    ``peak``, the rate is a share of the largest goodput that this flow has in any interval of the run. Raises
    MetricError unless exactly one of ``rate``, ``share`` and ``peak`` is given.
    """
    _one_of(rate=rate, share=share, peak=peak)
    paths = np.array([window.plan.path_rate_bps(flow) for flow in window.flows], dtype=np.float64)
    level = _level(paths, rate, share) if peak is None else _peaks(window) * peak
    origin = np.array([window.span(flow)[0] for flow in window.flows], dtype=np.float64)
    return first_reach(window.rates("delivered_bytes"), level, origin)


@metric(
    "goodput.aggregate.reach",
    symbol="t(G ≥ g)",
    formula="min{t | G(t) ≥ rate} - beginning",
    unit="s",
    bounds=NON_NEGATIVE,
    category=Category.REACTIVITY,
    scope="group",
    views=(View.END_USER, View.DESIGNER),
    source="RR-6034 section 4.2.1 (time to fill the link)",
    tables=("goodput", "flows"),
    params=(_RATE, Param("share", "1", None, "Share to reach of the bottleneck's rate; or `rate`.")),
)
def goodput_aggregate_reach(window: Window, *, rate: float | None = None, share: float | None = None) -> Values:
    """Time from the beginning of the window until the aggregate goodput reaches a rate.

    Ends with the first interval of ``measure.goodput`` at or above the rate; a lower bound if there is none. Flows from
    sink to source count only if no flow goes from source to sink. Raises MetricError unless exactly one of ``rate`` and
    ``share`` is given.
    """
    _one_of(rate=rate, share=share)
    window = replace(window, flows=window.one_way)
    bottleneck = float(window.links[0].rate_bps) if window.links else math.nan
    level = _level(np.array([bottleneck]), rate, share)
    series = aggregate(window, "delivered_bytes")
    return first_reach(series, level, np.array([window.whole_span[0]], dtype=np.float64))
