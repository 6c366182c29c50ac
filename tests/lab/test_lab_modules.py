"""Modules of the lab's kernel for what no kernel has: SEARCH and Prague; and DCTCP at a step threshold."""

from __future__ import annotations

from typing import Any

import pytest

from shared import Memory, execute, plan_of
from weir.lab import Kernel

_SCENARIO = """
title: One control alone
topology:
  dumbbell:
    pairs: {pairs}
    access: {{rate: 1Gbps, queue: 1000packets}}
    bottleneck: {{rate: {rate}, queue: {queue}}}
    rtt: {rtt}
transport: {{cc: {cc}, ecn: {ecn}, buffers: 8MB, processing: 0s}}
workload: [{{name: a, between: pairs, kind: bulk}}]
duration: {duration}
measure: {{goodput: 500ms, tcp: 10ms, links: 10ms}}
"""
_SETTLED_NS = 3_000_000_000


def both(**fields: Any) -> tuple[Memory, Memory]:
    """The tables of the lab and of the simulator."""
    defaults = {"pairs": 1, "rate": "50Mbps", "queue": "2bdp", "rtt": "40ms", "ecn": "false", "duration": "6s"}
    plan = plan_of(_SCENARIO.format(**{**defaults, **fields}))
    lab, sim = (execute(method, plan)[0] for method in ("lab", "sim"))
    return lab, sim


def largest_window(sink: Memory) -> int:
    return max(sink.columns("samples")["cwnd"])


def mean_queue(sink: Memory) -> float:
    links = sink.columns("links")
    rows = zip(links["time_ns"], links["link"], links["queue_bytes"], strict=True)
    waiting = [size for at, link, size in rows if link == 0 and at > _SETTLED_NS]
    return sum(waiting) / len(waiting)


def goodput(sink: Memory) -> int:
    rows = sink.columns("goodput")
    return sum(size for at, size in zip(rows["time_ns"], rows["delivered_bytes"], strict=True) if at > _SETTLED_NS)


@pytest.mark.parametrize("cc", ["reno", "cubic"])
def test_search_leaves_slow_start_where_it_does_in_the_simulator(kernel: Kernel, cc: str) -> None:
    """The queue is so long that slow start without SEARCH ends at the buffers' limit only."""
    path = {"rate": "100Mbps", "queue": "8bdp", "rtt": "100ms", "duration": "3s"}
    windows = {}
    for hystart in (0, 3):
        lab, sim = both(cc=f"{{name: {cc}, hystart: {hystart}}}", **path)
        assert sum(lab.columns("flows")["lost_packets"]) == 0
        windows[hystart] = largest_window(lab), largest_window(sim)
    assert windows[3][0] == pytest.approx(windows[3][1], rel=0.02)
    assert windows[3][0] < 0.6 * windows[0][0]


_STEP = "{step: {size: 400packets, threshold: 20packets}}"


@pytest.mark.parametrize("cc", ["dctcp", "prague"])
def test_a_scalable_control_holds_the_queue_at_the_threshold(kernel: Kernel, cc: str) -> None:
    lab, sim = both(cc=cc, ecn="true", queue=_STEP, rtt="8ms", rate="100Mbps", pairs=2)
    for sink in (lab, sim):
        assert sum(sink.columns("flows")["lost_packets"]) == 0
        assert sum(sink.columns("flows")["marked_packets"]) > 1000
        assert 10 * 1500 < mean_queue(sink) < 25 * 1500
    assert goodput(lab) == pytest.approx(goodput(sim), rel=0.01)
    assert mean_queue(lab) == pytest.approx(mean_queue(sim), rel=0.2)
