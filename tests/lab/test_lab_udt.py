"""UDT over the lab's links: both ends are the simulator's, and so are rate and times."""

from __future__ import annotations

import json

import pytest

from shared import Memory, dumbbell, plan_of
from weir.lab import Kernel
from weir.methods import get

_S = 1_000_000_000


def _executed(method: str) -> tuple[float, float, set[str]]:
    """The goodput of the bulk flow from 2 s to 6 s, b/s; the time of the transfer, s; and the probes."""
    text = dumbbell(
        "duration: 9s\n",
        title="UDT",
        pairs=2,
        access="rate: 100Mbps",
        bottleneck="rate: 20Mbps, loss: {bernoulli: 0.001}, queue: {droptail: {size: 100packets}}",
        rtt="20ms",
        transport="cc: reno",
        workload='name: stream, kind: bulk, between: "pairs[0]", until: 6s, transport: {protocol: udt}}\n'
        '  - {name: file, kind: transfer, size: 200kB, between: "pairs[1]", start: 7s, transport: {protocol: udt}',
        measure="goodput: 500ms, tcp: 100ms, links: 0",
    )
    sink = Memory()
    get(method).execute(json.dumps(plan_of(text)), sink, lambda *_: None)
    goodput, flows = sink.columns("goodput"), sink.columns("flows")
    rows = zip(goodput["flow"], goodput["time_ns"], goodput["delivered_bytes"], strict=True)
    steady = [count for flow, at, count in rows if flow == 0 and 2 * _S < at <= 6 * _S]
    times = dict(zip(flows["flow"], zip(flows["start_ns"], flows["end_ns"], strict=True), strict=True))
    return sum(steady) * 8 / 4, (times[1][1] - times[1][0]) / _S, set(sink.columns("probes")["probe"])


def test_rate_and_time_are_those_of_the_simulator(kernel: Kernel) -> None:
    (rate, took, shown), (lab_rate, lab_took, same) = _executed("sim"), _executed("lab")
    assert same == shown == {"send_bps", "window", "rtt_ns"}
    # On the wire, reports are in microseconds and whole packets a second: random decreases come at other instants.
    assert lab_rate == pytest.approx(rate, rel=0.1)
    assert lab_took == pytest.approx(took, rel=0.1)
