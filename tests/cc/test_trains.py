"""Trains of a paced flow: a millisecond at its rate, and at least as many segments as its congestion control says."""

from __future__ import annotations

from collections import Counter

import pytest

from shared import execute, plan_of

_SCENARIO = """
title: A paced flow
seed: 1
topology:
  dumbbell:
    pairs: 1
    access: {{rate: 1Gbps}}
    bottleneck: {{rate: 5Mbps, queue: {{step: {{threshold: 5packets}}}}}}
    rtt: 40ms
transport: {{cc: {cc}, ecn: true, ack: every}}
workload: [{{name: flow, kind: bulk, between: pairs, until: 6s}}]
measure: {{acks: {{from: 3s, to: 6s}}}}
methods: {{sim: {{offload: {offload}}}}}
"""
_TRANSMISSION = 1


def trains(cc: str, offload: str) -> Counter[int]:
    """How many trains have each number of segments: those that are sent at one instant."""
    table = execute("sim", plan_of(_SCENARIO.format(cc=cc, offload=offload)))[0].columns("acks")
    sent = [time for time, kind in zip(table["time_ns"], table["kind"], strict=True) if kind == _TRANSMISSION]
    return Counter(Counter(sent).values())


@pytest.mark.parametrize(("cc", "segments"), [("prague", 1), ("bbr", 2)])
def test_a_train_has_the_least_number_of_segments_at_a_low_rate(cc: str, segments: int) -> None:
    """5 Mb/s are 600 bytes a millisecond. Prague says one segment; BBR says two from 1.2 Mb/s on."""
    found = trains(cc, "device")
    assert found[segments] > 0.9 * found.total() > 90, found


def test_single_segments_leave_unless_the_host_s_card_splits_trains() -> None:
    found = trains("bbr", "packets")
    assert found[1] > 0.99 * found.total() > 90, found
