"""QUIC, from the language to the plan."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scenario_support import plan_of, workload

from weir import _weir
from weir.cli.schema import scenario_schema
from weir.methods import get
from weir.plan import header_bytes, packet_bytes, payload_bytes, typed
from weir.scenario import ScenarioError

_ENTRY = "name: q, kind: bulk, between: pairs, transport: {protocol: quic}"


def transport(*entries: str, **keys: str) -> dict[str, Any]:
    """The transport of the first flow."""
    found: dict[str, Any] = plan_of(workload(*entries, **keys))["flows"][0]["transport"]
    return found


def problems(*entries: str, **keys: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        plan_of(workload(*entries, **keys))
    return str(caught.value)


def test_quic_has_the_scenarios_control_and_its_own_defaults() -> None:
    assert transport(_ENTRY, transport="{cc: cubic, sack: false, ecn: true}") == {
        "protocol": "quic",
        "cc": "cubic",
        "payload_bytes": 1472,
        "initial_window": 10,
        "send_buffer_bytes": 4 << 20,
        "receive_buffer_bytes": 6 << 20,
    }


def test_its_settings_are_its_own() -> None:
    own = "{protocol: quic, cc: bbr, buffers: 2MB, receive_buffer: 3MB, initial_window: 4}"
    found = transport(f"name: q, kind: bulk, between: pairs, transport: {own}")
    assert (found["cc"], found["initial_window"]) == ("bbr", 4)
    assert (found["send_buffer_bytes"], found["receive_buffer_bytes"]) == (2_000_000, 3_000_000)


def test_a_scenario_may_be_about_quic_and_have_a_flow_over_tcp() -> None:
    tcp = "name: t, kind: bulk, between: pairs, transport: {protocol: tcp}"
    plan = plan_of(workload("name: q, kind: bulk, between: pairs", tcp, transport="{cc: reno, protocol: quic}"))
    assert {flow["group"]: flow["transport"]["protocol"] for flow in plan["flows"]} == {"q": "quic", "t": "tcp"}


@pytest.mark.parametrize("kind", ["kind: transfer, size: 1MB", "kind: onoff, on: 1MB, off: 1s, until: 5s"])
def test_transfers_are_as_those_of_tcp(kind: str) -> None:
    over = {
        protocol: plan_of(workload(f"name: x, between: pairs, {kind}, transport: {{protocol: {protocol}}}"))
        for protocol in ("tcp", "quic")
    }
    sources = [[flow["source"] for flow in plan["flows"]] for plan in over.values()]
    assert sources[0] == sources[1]
    assert sources[0][0]["kind"] == "transfers"


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ("cc: vegas", "QUIC has no congestion control `vegas`; it has"),
        ("cc: newreno", "QUIC has no congestion control `newreno`; it has"),
        ("cc: 'linux:cubic'", "QUIC has no congestion control `linux:cubic`"),
        ("cc: {name: cubic, hystart: false}", "`cubic` of QUIC has no option `hystart`"),
        ("sack: true", "QUIC has no `sack`: its acknowledgements are always selective"),
        ("ecn: true", "QUIC has no `ecn`: weir does not pass marks to it"),
        ("mss: 1000B", "QUIC has no `mss`"),
        ("pacing: false", "QUIC has no `pacing`: it always paces"),
        ("stack: linux", "QUIC has no `stack`: its stack is quinn"),
        ("buffers: 1kB", "buffer of 1000 bytes cannot hold one segment of 1472 bytes"),
    ],
)
def test_what_quic_cannot_do_is_refused(own: str, said: str) -> None:
    assert said in problems(f"name: q, kind: bulk, between: pairs, transport: {{protocol: quic, {own}}}")


def test_settings_of_a_scenario_about_quic_are_refused_too() -> None:
    text = problems("name: q, kind: bulk, between: pairs", transport="{cc: reno, protocol: quic, timestamps: true}")
    assert "QUIC has no `timestamps`: it has none" in text


def test_programs_datagrams_and_small_packets_are_refused() -> None:
    quic = "transport: {protocol: quic}"
    assert "a program brings its own transport" in problems(f"name: p, kind: iperf3, between: pairs, {quic}")
    assert "UDP has no TCP settings" in problems(f"name: u, kind: cbr, between: pairs, rate: 1Mbps, {quic}")
    small = (
        "{dumbbell: {pairs: 1, access: {rate: 1Gbps}, bottleneck: {rate: 1Gbps, queue: 10ms, mtu: 1200B}, rtt: 20ms}}"
    )
    assert "QUIC needs 1228" in problems(_ENTRY, topology=small)


def test_sizes_of_packets_count_the_headers_of_quic() -> None:
    found = typed(plan_of(workload(_ENTRY))).flows[0].transport
    assert (payload_bytes(found), header_bytes(found), packet_bytes(found)) == (1439, 61, 1500)


def test_the_simulator_refuses_it_and_names_the_methods_that_have_it() -> None:
    plan = plan_of(workload(_ENTRY))
    assert get("sim").obstacle(plan) == "flow q[0]: QUIC is a real program on real sockets: --method lab, emul or hosts"


def test_every_key_that_quic_has_not_is_refused_with_a_reason() -> None:
    values = {
        "stack": "linux",
        "sack": "true",
        "ecn": "true",
        "accecn": "true",
        "timestamps": "true",
        "initial_ssthresh": "9",
        "jump_start": "true",
        "quick_start": "20Mbps",
        "mss": "1000B",
        "pacing": "true",
        "ack": "every",
        "processing": "9ns",
        "txqueuelen": "9",
        "sack_cost": "9ns",
        "backlog": "9",
        "moderation": "false",
        "ccid": "2",
        "timer": "4ms",
    }
    has = {"protocol", "cc", "buffers", "send_buffer", "receive_buffer", "initial_window"}
    assert set(json.loads(scenario_schema())["$defs"]["Transport"]["properties"]) == has | set(values)
    for key, value in values.items():
        entry = _ENTRY.replace("protocol: quic", f"protocol: quic, {key}: {value}")
        assert f"QUIC has no `{key}`: " in problems(entry)


def test_plans_that_quic_cannot_have_are_refused() -> None:
    plan = plan_of(workload(_ENTRY))
    for field, value in (("cc", "vegas"), ("payload_bytes", 1199), ("initial_window", 0), ("send_buffer_bytes", 1471)):
        flows = [{**flow, "transport": {**flow["transport"], field: value}} for flow in plan["flows"]]
        with pytest.raises(ValueError, match=f"transport.{field}"):
            _weir.check_plan(json.dumps({**plan, "flows": flows}))
