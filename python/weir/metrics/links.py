"""Traffic on links. Without a selection, the link is the bottleneck of the flows under test."""

from __future__ import annotations

import numpy as np

from weir.metrics.bounds import NON_NEGATIVE, SHARE
from weir.metrics.capacity import capacity_bps
from weir.metrics.registry import Category, View, metric
from weir.metrics.results import Series
from weir.metrics.window import Window

__all__: list[str] = []

_PROVIDER = (View.PROVIDER,)
_UNSEEN_BYTES = 20
"""Preamble (8) and inter-frame gap (12): they take time on the wire, but Ethernet counters do not count them."""


def _rate(window: Window, extra: int | None) -> Series:
    """Bit/s of each link, with its overhead less ``extra`` bytes per packet; ``None``: IP bytes alone."""
    times, values, ids = [], [], []
    for link, ends, widths, (packets, size) in window.link_intervals("out_packets", "out_bytes"):
        added = 0 if extra is None else max(link.overhead_bytes - extra, 0)
        ids.append(link.id)
        times.append(ends)
        values.append(8 * (size + added * packets) / widths)
    return Series("link", ids, times, values)


@metric(
    "link.throughput",
    symbol="X_l(t)",
    formula="8 · IP bytes that left / length of the interval",
    unit="bit/s",
    bounds=NON_NEGATIVE,
    category=Category.THROUGHPUT,
    scope="link",
    views=_PROVIDER,
    source="thesis Table 2.III",
    tables=("links", "flows"),
)
def link_throughput(window: Window) -> Series:
    """IP bytes that a link carries for all flows together; one value per interval of ``measure.links``."""
    return _rate(window, None)


@metric(
    "link.frames",
    symbol="X_eth(t)",
    formula="8 · (IP bytes + (overhead - 20) · packets) / length of the interval",
    unit="bit/s",
    bounds=NON_NEGATIVE,
    category=Category.THROUGHPUT,
    scope="link",
    views=_PROVIDER,
    source="RR-6034 sections 2.3 and 4.1.2; LIP 2006-38 Table 1",
    tables=("links", "flows"),
)
def link_frames(window: Window) -> Series:
    """Bytes of Ethernet frames that a link carries, as a counter in the path reports them.

    Includes headers and check sequence, excludes preamble and inter-frame gap: a saturated 10 Gb/s link with packets of
    1500 B shows 10 Gb/s · 1518 / 1538. One value per interval of ``measure.links``.
    """
    return _rate(window, _UNSEEN_BYTES)


@metric(
    "utilisation",
    symbol="U_l(t)",
    formula="8 · (IP bytes + overhead · packets) / (C_l(t) · length of the interval)",
    unit="1",
    bounds=SHARE,
    category=Category.THROUGHPUT,
    scope="link",
    views=_PROVIDER,
    source="thesis section 2.3.2.1 and Table 2.III",
    tables=("links", "flows"),
    percent=True,
)
def utilisation(window: Window) -> Series:
    """Share of the bits that a link can transmit in an interval; 1 is saturated. Undefined while stopped (rate 0).

    One value per interval of ``measure.links``. C_l is the mean rate over the interval: a rate that changes in it,
    however often, counts with the time that it lasts, by the instants of the plan. A packet in transmission keeps the
    rate at which it began: where a saturated link's rate changes, the value is off 1 by a part of a packet.
    """
    wire = _rate(window, 0)
    values = []
    for (link, ends, widths, _), rate in zip(window.link_intervals(), wire.values, strict=True):
        capacity = capacity_bps(window.plan, link.id, ends, widths)
        share = np.full(len(rate), np.nan)
        np.divide(rate, capacity, out=share, where=capacity > 0)
        values.append(share)
    return Series("link", wire.members, wire.times_ns, values)
