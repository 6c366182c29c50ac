"""End-to-end one-way delay and jitter of single packets."""

from __future__ import annotations

import math

import numpy as np

from weir.metrics.bounds import NON_NEGATIVE
from weir.metrics.registry import Category, View, metric
from weir.metrics.results import Binned, Histogram, Ints
from weir.metrics.window import Grouped, Window

__all__: list[str] = []

_VIEWS = (View.END_USER, View.DESIGNER, View.PROVIDER)


@metric(
    "delay",
    symbol="d",
    formula="arrival of the last bit at the receiving host - entry into the queue of the sender's first link",
    unit="s",
    bounds=NON_NEGATIVE,
    category=Category.DELAY,
    scope="flow",
    views=_VIEWS,
    source="RFC 7679",
    tables=("delays", "delay_bins"),
)
def delay(window: Window) -> Binned:
    """One-way delay of the data packets of the selected flows: ``delay.p95(call)``, ``delay.mean(call)@busy``.

    It begins when the sending host hands the packet to the queue of its first link, and ends when the packet's last bit
    reaches the receiving host. It includes serialisation, propagation and every queue on the path, including the host's
    own. (RFC 7679 begins with the first bit on the wire; here the host's queue is part of the path, because it is a
    link of the plan.) It excludes time in programs, in protocol stacks above, and in the host's pacing. Data packets
    are TCP segments with payload and UDP datagrams, from the sender to the receiver of a flow. A retransmitted copy is
    a packet of its own. A lost packet has no delay; the loss metrics count it.

    The packets of all selected flows form one population: those that arrived in intervals of ``measure.delay`` that lie
    wholly in the window. The mean and the extremes are exact to 1 ns. Percentiles come from histograms and are off by
    0.4 % at most. ``delay.p99(call) - delay.min(call)`` is the packet delay variation of RFC 5481.
    """
    return _population(window, "delay", "packets")


@metric(
    "delay.jitter",
    symbol="j",
    formula="|d_k - d_(k-1)|, k in the order of arrival",
    unit="s",
    bounds=NON_NEGATIVE,
    category=Category.STABILITY,
    scope="flow",
    views=_VIEWS,
    source="RFC 3393 (variation between consecutive packets); RFC 3550 section 6.4.1 (D, not smoothed)",
    tables=("delays", "delay_bins"),
)
def delay_jitter(window: Window) -> Binned:
    """Absolute difference of the one-way delays of consecutive packets of a flow: ``delay.jitter.p95(call)``.

    Each packet is compared with the previous arrival of its flow. A lost packet makes no jitter by itself, and a packet
    that was overtaken is compared with the one that overtook it. ``delay.jitter.mean`` is the mean of the difference
    that RTP smooths (RFC 3550). All packets except the first of each flow form one population, as for ``delay``.
    """
    return _population(window, "jitter", "jitter_packets")


def _population(window: Window, what: str, packets: str) -> Binned:
    """The histogram of each selected flow, in seconds; ``packets`` is the column of table `delays` with the counts."""
    ids = window.flow_ids
    table, bins = window.data.grouped("delays", ids), window.data.grouped("delay_bins", ids)
    found = []
    for flow in ids:
        here, there = _inside(window, table, flow), _inside(window, bins, flow)
        counts, low = bins.column(f"{what}_packets")[there], bins.column("low_ns")[there]
        here = here[table.column(packets)[here] > 0]
        number, mean = table.column(packets)[here], table.column(f"{what}_ns")[here]
        # No table records the smallest jitter: take the lower edge of its bin.
        least = table.column("delay_min_ns")[here] if what == "delay" else low[counts > 0]
        found.append(
            Histogram(
                low=low * 1e-9,
                high=bins.column("high_ns")[there] * 1e-9,
                counts=counts,
                total=math.fsum(number * mean) * 1e-9,
                least=float(np.min(least)) * 1e-9 if len(least) else math.nan,
                greatest=float(np.max(table.column(f"{what}_max_ns")[here])) * 1e-9 if len(here) else math.nan,
            )
        )
    return Binned(ids, found)


def _inside(window: Window, table: Grouped, flow: int) -> Ints:
    """Indices of the rows of ``flow`` whose interval lies wholly in the window, also after its source has ended."""
    rows = table.rows(flow)
    step = window.plan.interval_ns("delays")
    first, last = np.searchsorted(table.times_ns[rows], [window.from_ns + step, window.to_ns + 1])
    return np.arange(rows.start + int(first), rows.start + int(last), dtype=np.int64)
