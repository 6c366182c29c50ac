"""Programs as workload, from the language to the plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scenario_support import plan_of, workload

from weir import _weir
from weir.scenario import ScenarioError, load
from weir.scenario._lang_commands import VARIABLES


def source(*entries: str, **keys: str) -> dict[str, Any]:
    """The programs of the first flow."""
    found: dict[str, Any] = plan_of(workload(*entries, **keys))["flows"][0]["source"]
    return found


def test_iperf3_is_a_client_and_a_server_for_each_stream() -> None:
    plan = plan_of(workload('name: p, kind: iperf3, between: "pairs[0]", streams: 2, start: 2s, until: 9500ms'))
    assert [flow["name"] for flow in plan["flows"]] == ["p[0].0", "p[0].1"]
    for flow in plan["flows"]:
        found = flow["source"]
        assert flow["transport"]["protocol"] == "tcp"
        assert found["command"] == [
            *("iperf3", "-c", "${WEIR_PEER}", "-4", "-p", "${WEIR_PORT}", "-J", "-i", "0.5", "-t", "8"),
            *("-C", "${WEIR_CC}", "-M", "1460"),
        ]
        assert found["peer"] == ["iperf3", "-s", "-1", "-4", "-p", "${WEIR_PORT}", "-J", "-i", "0.5"]
        assert (found["report"], found["sender"], found["rate_bps"]) == ("iperf3", "command", None)


def test_datagrams_of_iperf3_have_the_rate_of_their_ip_packets() -> None:
    plan = plan_of(workload("name: p, kind: iperf3, between: pairs, udp: true, rate: 10Mbps, packet: 1028B, dscp: ef"))
    flow = plan["flows"][0]
    assert flow["transport"] == {"protocol": "udp", "payload_bytes": 1000}
    words = flow["source"]["command"]
    assert words[words.index("-u") :] == ["-u", "-l", "1000", "-b", str(10_000_000 * 1000 // 1028), "--dscp", "46"]
    assert flow["source"]["rate_bps"] == 10_000_000


def test_a_rate_limits_iperf3_over_tcp_and_arguments_come_last() -> None:
    entry = "name: p, kind: iperf3, between: pairs, rate: [1Mbps, 2Mbps, 3Mbps], arguments: [--zerocopy, -l, 64K]"
    plan = plan_of(workload(entry))
    words = [flow["source"]["command"] for flow in plan["flows"]]
    assert [one[one.index("-b") + 1] for one in words] == [str(n * 1_000_000 * 1448 // 1500) for n in (1, 2, 3)]
    assert all(one[-3:] == ["--zerocopy", "-l", "64K"] for one in words)


def test_intervals_of_iperf3_are_those_of_measure_within_its_bounds() -> None:
    for goodput, interval in (("20ms", "0.1"), ("250ms", "0.25"), ("0ms", "60")):
        found = source("name: p, kind: iperf3, between: pairs", measure=f"{{goodput: {goodput}}}")
        assert found["peer"][-1] == found["command"][found["command"].index("-i") + 1] == interval


def test_iperf3_ends_within_a_day() -> None:
    with pytest.raises(ScenarioError, match=r"100000s are too long for iperf3"):
        source("name: p, kind: iperf3, between: pairs", duration="100000s")


@pytest.mark.parametrize(
    ("keys", "ready"),
    [
        ("", {"when": "started"}),
        ("peer: [sink]", {"when": "started"}),
        ('peer: [sink, "--port=${WEIR_PORT}"]', {"when": "port", "port": None}),
        ("peer: [sink], ready: {port: 80}", {"when": "port", "port": 80}),
        ("peer: [sink], ready: {output: here I am}", {"when": "output", "text": "here I am"}),
        ("peer: [sink], ready: {after: 2s}", {"when": "after", "time_ns": 2_000_000_000}),
    ],
)
def test_when_a_peer_is_ready(keys: str, ready: dict[str, Any]) -> None:
    found = source(f'name: c, kind: command, between: "pairs[0]", command: [send, 5, 1.50, true]{keys and ", " + keys}')
    assert found["ready"] == ready
    assert found["command"] == ["send", "5", "1.50", "true"], "numbers stay as they are written"


def test_a_program_that_is_given_by_its_place_is_found_beside_the_scenario(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    entry = "name: c, kind: command, between: pairs, command: [./send, ./file], peer: [sink]"
    file.write_text(workload(entry), encoding="utf-8")
    found = load(file).cells()[0].plan()["flows"][0]["source"]
    assert found["command"] == [str(tmp_path / "send"), "./file"]
    assert found["peer"] == ["sink"]


def test_the_simulator_refuses_programs() -> None:
    plan = plan_of(workload("name: p, kind: iperf3, between: pairs"))
    with pytest.raises(ValueError, match=r"flow p\[0\]: a program needs a real kernel: --method lab, emul or hosts"):
        _weir.Simulator(json.dumps(plan))


def test_variables_are_those_of_the_plan() -> None:
    text = (Path(__file__).parents[2] / "crates/weir-plan/src/flow.rs").read_text(encoding="utf-8")
    listed = text.partition("pub const VARIABLES")[2].partition(";\n")[0]
    assert {word.strip('" ,\n[]') for word in listed.partition("=")[2].split(",")} - {""} == set(VARIABLES)
