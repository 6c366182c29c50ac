"""Congestion controls that routers tell what to send: where they run, and what their paths need."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared import Weir
from weir import cc, scenario
from weir.methods import get
from weir.plan import typed

_DOCUMENT = """
title: Explicit feedback
topology:
  dumbbell: {{pairs: 1, rtt: 10ms, access: {{rate: {access}}}, bottleneck: {{rate: 100Mbps, queue: {queue}}}}}
transport: {{cc: {control}}}
workload: [{{name: flow, kind: bulk, between: pairs}}]
duration: 1s
"""

CONTROLS = sorted(cc.explicit_controls().items())


def plan(control: str, queue: str, access: str = "1Gbps") -> dict[str, Any]:
    (cell,) = scenario.parse(_DOCUMENT.format(control=control, queue=queue, access=access)).cells()
    made: dict[str, Any] = cell.plan()
    return made


@pytest.mark.parametrize(("control", "queue"), CONTROLS)
def test_the_simulator_wants_a_router_at_the_bottleneck(control: str, queue: str) -> None:
    sim = get("sim")
    assert sim.obstacle(plan(control, queue)) is None
    assert "no link of its path has such a router" in str(sim.obstacle(plan(control, "100packets")))
    assert "slower than those with such a router" in str(sim.obstacle(plan(control, queue, access="10Mbps")))


@pytest.mark.parametrize(("control", "queue"), CONTROLS)
@pytest.mark.parametrize("kernel", ["lab", "emul"])
def test_no_kernel_has_it(control: str, queue: str, kernel: str) -> None:
    why = cc.no_kernel(typed(plan(control, queue)))
    assert why is not None
    assert why.startswith(f"cc: {control}: ")
    assert "the simulator only" in why
    assert get(kernel).obstacle(plan(control, queue)) is not None


def test_the_list_says_where_it_runs(weir: Weir) -> None:
    found = {one["name"]: one for one in json.loads(weir("cc", "list", "--json").out) if one.get("queue")}
    assert found.keys() == cc.explicit_controls().keys()
    assert all(one["simulator"] and one["bpf"] is None and one["lab"] is None for one in found.values())
    for name, queue in CONTROLS:
        described = weir("cc", "list", name)
        assert described.code == 0
        assert f"queue: {{{queue}: {{}}}}" in described.out
