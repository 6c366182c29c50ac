"""TFRC over the lab's links: the control is the simulator's, and so is its rate."""

from __future__ import annotations

import json

import pytest

from shared import Memory, dumbbell, plan_of
from weir.lab import Kernel
from weir.methods import get

_S = 1_000_000_000


def _executed(method: str) -> tuple[float, set[str]]:
    """The goodput of 4 s to 14 s, b/s, and the probes."""
    text = dumbbell(
        title="TFRC",
        pairs=1,
        access="rate: 100Mbps",
        bottleneck="rate: 20Mbps, loss: {bernoulli: 0.01}, queue: {droptail: {size: 100packets}}",
        rtt="50ms",
        transport="cc: reno",
        workload="name: stream, kind: bulk, between: pairs, until: 14s, transport: {protocol: tfrc}",
        measure="goodput: 500ms, tcp: 100ms, links: 0",
    )
    sink = Memory()
    get(method).execute(json.dumps(plan_of(text)), sink, lambda *_: None)
    goodput = sink.columns("goodput")
    steady = [
        count
        for at, count in zip(goodput["time_ns"], goodput["delivered_bytes"], strict=True)
        if 4 * _S < at <= 14 * _S
    ]
    return sum(steady) * 8 / 10, set(sink.columns("probes")["probe"])


def test_the_rate_is_that_of_the_simulator(kernel: Kernel) -> None:
    (sim, shown), (lab, same) = _executed("sim"), _executed("lab")
    assert same == shown == {"allowed_bps", "loss_event_ppm", "rtt_ns"}
    # Both draw the same losses, some 25 events in 10 s.
    assert lab == pytest.approx(sim, rel=0.05)
