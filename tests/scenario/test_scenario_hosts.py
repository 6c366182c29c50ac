"""What the components of hosts can do: the plan, what the language refuses, and which methods execute it."""

from __future__ import annotations

from typing import Any

import pytest

from weir import scenario
from weir.hosts.wiring import WiringError, refuse_other_stacks
from weir.methods import get
from weir.plan import typed
from weir.scenario import ScenarioError

_TEXT = """
title: t
topology: {{dumbbell: {{pairs: 11, access: {{rate: 1Gbps}}, bottleneck: {{rate: 1Gbps, queue: 1MB}}, rtt: 10ms}}}}
hosts: {hosts}
transport: {{cc: reno}}
workload: [{{name: f, {kind}, between: pairs, until: 1s}}]
"""


def plan(hosts: str, kind: str = "kind: bulk") -> dict[str, Any]:
    """The plan of eleven pairs."""
    return dict(scenario.parse(_TEXT.format(hosts=hosts, kind=kind)).cells()[0].plan())


def capacities(hosts: str) -> dict[str, Any]:
    """By host: its capacity in the plan."""
    return {node["name"]: node["capacity"] for node in plan(hosts)["nodes"] if "capacity" in node}


def test_a_host_has_what_is_given() -> None:
    processor = "{cores: 2, send: {packet: 1us, copy: 8Gbps}, ack: 30ns}"
    found = capacities(
        f"{{dst3: {{processor: {processor}, memory: {{rate: 9Gbps}}, bus: 7Gbps, disk: {{write: 1Mbps}}}}}}"
    )
    assert found == {
        "dst3": {
            "processor": {
                "cores": 2,
                "send": {"packet_ns": 1000, "copy_bps": 8_000_000_000},
                "receive": {"packet_ns": 0, "copy_bps": 0},
                "ack_ns": 30,
            },
            "memory": {"rate_bps": 9_000_000_000, "passes": 4},
            "bus_bps": 7_000_000_000,
            "disk": {"read_bps": 0, "write_bps": 1_000_000},
        }
    }


def test_a_name_without_its_number_is_all_of_them_and_a_hosts_own_name_comes_first() -> None:
    found = capacities("{src: {bus: 1Gbps}, src10: {bus: 2Gbps}}")
    assert found == {f"src{i}": {"bus_bps": 2_000_000_000 if i == 10 else 1_000_000_000} for i in range(11)}


def test_components_under_a_hosts_own_name_replace_those_under_the_common_one() -> None:
    found = capacities("{dst: {bus: 1Gbps, disk: {write: 2Gbps}}, dst7: {bus: 3Gbps}}")
    assert found["dst7"] == {"bus_bps": 3_000_000_000, "disk": {"read_bps": 0, "write_bps": 2_000_000_000}}
    assert found["dst6"]["bus_bps"] == 1_000_000_000


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        # 1448 bytes of payload in 1500 of a packet and 1538 on the wire: the link permits 941 Mb/s.
        ("{dst3: {processor: {receive: {packet: 20us}}}}", "hosts (f[3]): the core of dst3 permits a flow 579 Mbps"),
        ("{src1: {bus: 500Mbps, memory: {rate: 1Gbps}}}", "hosts (f[1]): the memory of src1 permits a flow 241 Mbps"),
        ("{src1: {processor: {send: {copy: 100Mbps}}}}", "hosts (f[1]): the core of src1 permits a flow 100 Mbps"),
        ("{dst2: {disk: {write: 800Mbps}}}", "hosts (f[2]): the disk of dst2 permits a flow 800 Mbps"),
        ("{dst2: {disk: {read: 1Mbps}}, src2: {bus: 980Mbps}}", None),
    ],
)
def test_the_simulator_says_which_host_is_slower_than_its_links(hosts: str, said: str | None) -> None:
    remarks = list(get("sim").remarks(plan(hosts), 1))
    assert remarks == ([] if said is None else [f"{said} of goodput, less than the links of its path"])


def test_without_the_key_a_plan_is_as_before() -> None:
    assert all(set(node) == {"name", "kind"} for node in plan("{}")["nodes"])


@pytest.mark.parametrize(
    ("hosts", "problem"),
    [
        ("{source: {bus: 1Gbps}}", "there is no host `source`"),
        ("{left: {bus: 1Gbps}}", "there is no host `left`"),
        ("{src: {bus: 0bps}}", "a rate of 0 in the host `src`; no packet could pass"),
        ("{src: {processor: {send: {copy: 0bps}}}}", "a rate of 0 in the host `src`"),
        ("{src: {memory: {passes: 2}}}", "`rate` is missing"),
        ("{src: {processor: {cores: 0}}}", "a number of cores"),
    ],
)
def test_a_problem_says_what_was_expected(hosts: str, problem: str) -> None:
    with pytest.raises(ScenarioError, match=problem):
        plan(hosts)


def test_only_tcp_waits_for_components() -> None:
    with pytest.raises(ScenarioError, match=r"flow `f\[0\]` is not over TCP, and the components of host `src0`"):
        plan("{src: {bus: 1Gbps}}", "kind: cbr, rate: 1Mbps")


def test_other_methods_refuse_it_before_the_run() -> None:
    made = scenario.parse(_TEXT.format(hosts="{src2: {bus: 1Gbps}}", kind="kind: bulk")).cells()[0].plan()
    with pytest.raises(WiringError, match=r"host `src2`: .* in the simulator only"):
        refuse_other_stacks(typed(made))
