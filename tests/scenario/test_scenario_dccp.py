"""DCCP, from the language to the plan, and where it runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scenario_support import plan_of_workload as plan
from scenario_support import problems_of_workload as problems

from weir import _weir
from weir.methods import get
from weir.plan import header_bytes, packet_bytes, payload_bytes, typed
from weir.run.plan import plan_of as plan_of_run

_ENTRY = "name: s, kind: bulk, between: pairs, transport: {protocol: dccp}"


def test_a_datagram_leaves_room_for_the_options_of_the_kernel() -> None:
    found = plan(_ENTRY, transport="{cc: cubic, sack: false}")
    assert found["flows"][0]["transport"] == {"protocol": "dccp", "ccid": 2, "payload_bytes": 1296}
    assert found["flows"][0]["source"] == {"kind": "bulk"}
    _weir.check_plan(json.dumps(found))
    transport = typed(found).flows[0].transport
    assert (payload_bytes(transport), header_bytes(transport), packet_bytes(transport)) == (1296, 36, 1332)


@pytest.mark.parametrize("ccid", [2, 3])
def test_each_flow_chooses_its_control(ccid: int) -> None:
    found = plan(f"name: s, kind: bulk, between: pairs, transport: {{protocol: dccp, ccid: {ccid}}}")
    assert found["flows"][0]["transport"]["ccid"] == ccid


def test_the_control_of_the_scenario_is_for_its_flows_of_dccp() -> None:
    found = plan("name: s, kind: bulk, between: pairs", transport="{protocol: dccp, ccid: 3}")
    assert found["flows"][0]["transport"]["ccid"] == 3


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ("protocol: dccp, ccid: 4", "2 (TCP-like, RFC 4341) or 3 (TFRC, RFC 4342)"),
        ("protocol: dccp, cc: reno", "DCCP has no `cc` here: `ccid` chooses its congestion control, 2 or 3"),
        ("protocol: dccp, buffers: 1MB", "DCCP has no `buffers` here"),
        ("ccid: 3", "TCP has no `ccid`: it is the congestion control of `protocol: dccp`; give `cc`"),
        ("protocol: tfrc, ccid: 3", "TFRC has no `ccid`"),
        ("protocol: sctp, ccid: 2", "SCTP has no `ccid`"),
        ("protocol: quic, ccid: 2", "QUIC has no `ccid`: `cc` chooses its congestion control"),
    ],
)
def test_what_a_protocol_cannot_do_is_refused(own: str, said: str) -> None:
    assert said in problems(f"name: s, kind: bulk, between: pairs, transport: {{{own}}}")


def test_it_carries_data_without_end_only() -> None:
    said = problems("name: s, kind: transfer, size: 1MB, between: pairs, transport: {protocol: dccp}")
    assert "DCCP has no end of a transfer, for what is lost stays lost: `kind: bulk` only" in said


def test_programs_and_traces_are_refused() -> None:
    dccp = "transport: {protocol: dccp}"
    assert "weir has none with DCCP for it" in problems(f"name: p, kind: iperf3, between: pairs, {dccp}")
    said = problems(_ENTRY, measure="{trace: {from: 0s, to: 1s}}")
    assert "the trace would have flow `s[0]` over DCCP; it has TCP and UDP only" in said


def test_a_path_of_tiny_packets_has_no_room_for_it() -> None:
    narrow = (
        "{dumbbell: {pairs: 1, access: {rate: 1Gbps}, bottleneck: {rate: 1Gbps, queue: 10ms, mtu: 267B}, rtt: 20ms}}"
    )
    assert "the path's MTU is 267; DCCP needs 268" in problems(_ENTRY, topology=narrow)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("ccid", 1, "transport.ccid: must be 2 or 3"),
        ("payload_bytes", 63, "transport.payload_bytes: must be 64 to 65000"),
    ],
)
def test_plans_that_cannot_be_are_refused(field: str, value: int, said: str) -> None:
    found = plan(_ENTRY)
    found["flows"][0]["transport"][field] = value
    with pytest.raises(ValueError, match=said):
        _weir.check_plan(json.dumps(found))


def test_the_simulator_names_what_it_has_instead() -> None:
    said = get("sim").obstacle(plan(_ENTRY))
    assert said is not None
    assert said.startswith("flow s[0]: DCCP is the kernel's: --method lab; ")
    assert "`transport: {protocol: tfrc}`" in said


def test_a_run_knows_its_control() -> None:
    found = plan("name: s, kind: bulk, between: pairs, transport: {protocol: dccp, ccid: 3}")
    flow = plan_of_run(Path("plan.json"), found).flows[0]
    assert (flow.protocol, flow.cc, flow.header_bytes) == ("dccp", "ccid3", 36)
