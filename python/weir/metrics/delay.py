"""Delay: round-trip times at senders, and queueing delays at links."""

from __future__ import annotations

import numpy as np
import polars as pl

from weir.metrics.bounds import NON_NEGATIVE
from weir.metrics.errors import MetricError
from weir.metrics.registry import Category, View, metric
from weir.metrics.results import Floats, Ints, Series
from weir.metrics.window import Window
from weir.plan import leaves_switch
from weir.run import Link

__all__: list[str] = []

_NETWORK = (View.DESIGNER, View.PROVIDER)


@metric(
    "rtt",
    symbol="RTT_i(t)",
    formula="smoothed round-trip time",
    unit="s",
    bounds=NON_NEGATIVE,
    category=Category.DELAY,
    scope="flow",
    views=(View.END_USER,),
    source="thesis Table 2.III",
    tables=("samples", "flows"),
)
def rtt(window: Window) -> Series:
    """Smoothed round-trip time of a TCP flow; undefined before the first measurement.

    One value per flow and instant of ``measure.tcp`` at which the flow is active.
    """
    return window.samples("srtt_ns", 1e-9)


@metric(
    "rtt.queueing",
    symbol="q_i(t)",
    formula="smoothed - minimum round-trip time",
    unit="s",
    bounds=NON_NEGATIVE,
    category=Category.DELAY,
    scope="flow",
    views=_NETWORK,
    source="thesis section 2.3.1 (queueing delay q)",
    tables=("samples", "flows"),
)
def rtt_queueing(window: Window) -> Series:
    """Queueing delay seen by a TCP sender: the smoothed round-trip time minus the smallest one seen so far.

    One value per flow and instant of ``measure.tcp`` at which the flow is active. A queue that stands from the start is
    invisible to it; ``queue.delay`` shows it.
    """
    smoothed, least = window.samples("srtt_ns", 1e-9), window.samples("min_rtt_ns", 1e-9)
    values = [np.maximum(s - m, 0.0) for s, m in zip(smoothed.values, least.values, strict=True)]
    return Series("flow", smoothed.members, smoothed.times_ns, values)


@metric(
    "rtt.jitter",
    symbol="j_i(t)",
    formula="|RTT_i(t) - RTT_i(t - Δ)|",
    unit="s",
    bounds=NON_NEGATIVE,
    category=Category.STABILITY,
    scope="flow",
    views=(View.END_USER,),
    source="thesis section 2.3.1 (stability: delay jitter); section 2.3.2.3",
    tables=("samples", "flows"),
)
def rtt_jitter(window: Window) -> Series:
    """Change of the smoothed round-trip time from one instant of ``measure.tcp`` to the next.

    Smoothing hides the variation of single packets: the value is a lower bound of the packets' jitter.
    """
    smoothed = window.samples("srtt_ns", 1e-9)
    values = [np.abs(np.diff(v)) for v in smoothed.values]
    return Series("flow", smoothed.members, [t[1:] for t in smoothed.times_ns], values)


@metric(
    "queue.delay",
    symbol="q_l(t)",
    formula="mean time in the queue of the packets of an interval",
    unit="s",
    bounds=NON_NEGATIVE,
    category=Category.DELAY,
    scope="link",
    views=_NETWORK,
    source="thesis Table 2.III",
    tables=("links", "flows"),
)
def queue_delay(window: Window) -> Series:
    """Queueing delay at a link, weighted by packets: ``queue.delay.mean`` is the mean over all packets of the window.

    One value per interval of ``measure.links`` in which a packet left. Percentiles are taken over the intervals' means,
    so they lie below the packets' percentiles if ``measure.links`` is coarse. ``queue.delay.max`` is exact.

    Raises MetricError for a link out of a switch: its packets wait in the memory of the switch, where nothing measures
    their times.
    """
    return _queue_delay(window, "queue_delay_ns")


@metric(
    "queue.delay.max",
    symbol="max q_l",
    formula="longest time in the queue of any packet",
    unit="s",
    bounds=NON_NEGATIVE,
    category=Category.DELAY,
    scope="link",
    views=_NETWORK,
    source="thesis Table 2.III",
    tables=("links", "flows"),
)
def queue_delay_max(window: Window) -> Series:
    """Longest queueing delay of any packet per interval of ``measure.links``; without a statistic, of the window.

    Raises MetricError for a link out of a switch, as ``queue.delay`` does.
    """
    return _queue_delay(window, "queue_delay_max_ns")


def _queue_delay(window: Window, column: str) -> Series:
    for link in window.links:
        if leaves_switch(window.plan.typed, link.id):
            raise MetricError(
                f"packets wait for link {link.name!r} in the memory of a switch, where nothing measures their times; "
                "`delay` (with `measure.delay`) includes them, and `queue.length` counts what waits"
            )
    found = window.link_intervals(column, "out_packets")
    return Series(
        "link",
        [link.id for link, *_ in found],
        [ends for _, ends, _, _ in found],
        [delay * 1e-9 for *_, (delay, _) in found],
        [packets for *_, (_, packets) in found] if column == "queue_delay_ns" else None,
        default="mean" if column == "queue_delay_ns" else "max",
    )


@metric(
    "queue.length",
    symbol="b_l(t)",
    formula="IP bytes waiting at the end of the interval",
    unit="B",
    bounds=NON_NEGATIVE,
    category=Category.DELAY,
    scope="link",
    views=_NETWORK,
    source="thesis section 2.4 (queue occupancy)",
    tables=("links", "flows"),
)
def queue_length(window: Window) -> Series:
    """Bytes waiting in a link's queue; one value per interval of ``measure.links``.

    For a link out of a switch, the bytes that wait for it in the memory of the switch, from table ``ports``.
    """
    found = window.link_intervals("queue_bytes")
    return Series(
        "link",
        [link.id for link, *_ in found],
        [ends for _, ends, _, _ in found],
        [_held(window, link, ends, size) for link, ends, _, (size,) in found],
    )


def _held(window: Window, link: Link, ends: Ints, waiting: Floats) -> Floats:
    """``waiting``, or for a link out of a switch what waits for it in the memory at the instants ``ends``, bytes.

    Raises:
        MetricError: table ``ports`` was not recorded.
    """
    if not leaves_switch(window.plan.typed, link.id):
        return waiting
    rows = window.data.ports.filter(pl.col("output") == link.id).group_by("time_ns").agg(pl.col("queue_bytes").sum())
    held = dict(zip(rows["time_ns"].to_list(), rows["queue_bytes"].to_list(), strict=True))
    return np.array([held.get(end, 0) for end in ends.tolist()], np.float64)
