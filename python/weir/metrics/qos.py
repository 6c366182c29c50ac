"""Quality of service: how much of its allocation a traffic class uses (DataTAG, section 7)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from weir.metrics.bounds import NON_NEGATIVE
from weir.metrics.errors import MetricError
from weir.metrics.registry import Category, Param, View, metric
from weir.metrics.results import Series, Values
from weir.metrics.statistics import over_time
from weir.metrics.throughput import total
from weir.metrics.window import Window

__all__: list[str] = []

_ALLOCATED = Param("allocated", "bit/s", None, "Bandwidth allocated to the class.", required=True)


@metric(
    "qef",
    symbol="QEF",
    formula="Σ_i g_i(t) · (bytes on the wire / payload of a full packet of i) / allocated bandwidth",
    unit="1",
    bounds=NON_NEGATIVE,
    category=Category.THROUGHPUT,
    scope="group",
    views=(View.END_USER, View.PROVIDER),
    source="DataTAG eq. 3 and 4",
    tables=("goodput", "flows"),
    params=(_ALLOCATED,),
)
def qef(window: Window, *, allocated: float) -> Series:
    """QoS efficiency factor: goodput of a class over the goodput that its allocation carries.

    Goodput is payload, as iperf counted it in the paper; the allocation is a rate on the wire of the bottleneck, as a
    scheduler counts it. Full packets of the selected flows say what payload it carries (``qef`` is 1 there; it is less
    by retransmissions). ``uif`` and ``goodput.cov`` count the same goodput; ``class.efficiency`` counts at the queue.
    AF-s is ``qef[allocated: 900Mbps]@steady(af)``; AF-ts is the same over a phase with the transient. Raises
    MetricError if the allocation is not positive.
    """
    if allocated <= 0:
        raise MetricError("the allocated bandwidth must be positive")
    series = total(_on_wire(window), window.ends("goodput"))
    return Series("all", [0], series.times_ns, [series.values[0] / allocated])


def _on_wire(window: Window) -> Series:
    """Goodput of each flow in bit/s, with the headers that full packets have on the bottleneck."""
    overhead = window.links[0].overhead_bytes if window.links else 0
    payload = window.rates("delivered_bytes", whole=True)
    full = [(flow.packet_bytes + overhead) / flow.payload_bytes for flow in window.flows]
    scaled = [rates * factor for rates, factor in zip(payload.values, full, strict=True)]
    return Series("flow", payload.members, payload.times_ns, scaled)


@metric(
    "qef.transient",
    symbol="AF-s - AF-ts",
    formula="QEF over the steady phase - QEF over the window",
    unit="1",
    category=Category.CONVERGENCE,
    scope="group",
    views=(View.DESIGNER,),
    source="DataTAG section 7.1 and figure 9",
    tables=("goodput", "flows"),
    params=(_ALLOCATED, Param("steady", "name", None, "Phase without the transient.", required=True)),
)
def qef_transient(window: Window, *, allocated: float, steady: str) -> Values:
    """Cost of the transient: the efficiency lost by counting the time before the steady phase.

    Near 0 if a class converges fast. Raises MetricError if there is no such phase.
    """
    phase = next((p for p in window.plan.phases if p.name == steady), None)
    if phase is None:
        raise MetricError(f"no phase {steady!r} in this run")
    calm = replace(window, phase=steady, from_ns=phase.from_ns, to_ns=min(phase.to_ns, window.plan.end_ns))
    found = []
    for part in (calm, window):
        series = qef(part, allocated=allocated)
        assert isinstance(series, Series)
        found.append(over_time(series.values[0], "mean") if series.values else math.nan)
    return Values("all", [0], np.array([found[0] - found[1]]))
