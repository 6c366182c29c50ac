"""MPTCP and SCTP, from the language to the plan."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scenario_support import plan_of, workload

from weir import _weir
from weir.methods import get
from weir.plan import header_bytes, packet_bytes, payload_bytes, typed
from weir.scenario import ScenarioError


def transport(own: str, **keys: str) -> dict[str, Any]:
    """The transport of the first flow, over ``own``."""
    plan = plan_of(workload(f"name: x, kind: bulk, between: pairs, transport: {{{own}}}", **keys))
    found: dict[str, Any] = plan["flows"][0]["transport"]
    return found


def problems(*entries: str, **keys: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        plan_of(workload(*entries, **keys))
    return str(caught.value)


@pytest.mark.parametrize(
    ("own", "cc", "payload"),
    [
        ("protocol: mptcp, cc: 'linux:reno'", "linux:reno", 1424),
        ("protocol: sctp", "sctp", 1452),
    ],
)
def test_each_has_its_control_and_the_usual_buffers(own: str, cc: str, payload: int) -> None:
    found = transport(own, transport="{cc: cubic, sack: false, ecn: true}")
    assert (found["cc"], found["payload_bytes"]) == (cc, payload)
    assert (found["send_buffer_bytes"], found["receive_buffer_bytes"]) == (4 << 20, 6 << 20)


def test_mptcp_takes_the_control_of_the_scenario() -> None:
    assert transport("protocol: mptcp", transport="{cc: 'linux:cubic'}")["cc"] == "linux:cubic"


def test_a_payload_of_sctp_fills_whole_words() -> None:
    narrow = (
        "{dumbbell: {pairs: 1, access: {rate: 1Gbps}, bottleneck: {rate: 1Gbps, queue: 10ms, mtu: 1403B}, rtt: 20ms}}"
    )
    assert transport("protocol: sctp", topology=narrow)["payload_bytes"] == 1352


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ("protocol: mptcp, cc: cubic", "MPTCP takes a congestion control of the kernel: give `transport: {cc: linux:"),
        ("protocol: sctp, cc: cubic", "SCTP has one congestion control (RFC 9260): leave out `cc: cubic`"),
        ("protocol: mptcp, cc: {name: cubic, hystart: 0}", "`cubic` of MPTCP has no option `hystart`"),
        ("protocol: sctp, sack: true", "SCTP has no `sack` here: the kernel's defaults hold"),
        ("protocol: mptcp, cc: 'linux:reno', pacing: true", "MPTCP has no `pacing` here"),
        ("protocol: sctp, buffers: 1kB", "buffer of 1000 bytes cannot hold one segment of 1452 bytes"),
    ],
)
def test_what_a_protocol_cannot_do_is_refused(own: str, said: str) -> None:
    assert said in problems(f"name: x, kind: bulk, between: pairs, transport: {{{own}}}")


def test_programs_and_traces_are_refused() -> None:
    sctp = "transport: {protocol: sctp}"
    assert "weir has none with SCTP for it" in problems(f"name: p, kind: iperf3, between: pairs, {sctp}")
    entry = f"name: x, kind: bulk, between: pairs, {sctp}"
    text = problems(entry, measure="{trace: {from: 0s, to: 1s}}")
    assert "the trace would have flow `x[0]` over SCTP; it has TCP and UDP only" in text


@pytest.mark.parametrize("own", ["protocol: mptcp, cc: 'linux:reno'", "protocol: sctp"])
def test_a_packet_with_its_headers_fits_the_path(own: str) -> None:
    plan = plan_of(workload(f"name: x, kind: bulk, between: pairs, transport: {{{own}}}"))
    found = typed(plan).flows[0].transport
    assert packet_bytes(found) == payload_bytes(found) + header_bytes(found) <= 1500
    assert get("sim").obstacle(plan) == "flow x[0]: its transport is one of a real kernel: --method lab, emul or hosts"


@pytest.mark.parametrize(
    ("field", "value"), [("cc", "vegas"), ("payload_bytes", 63), ("send_buffer_bytes", 10), ("receive_buffer_bytes", 9)]
)
def test_plans_that_cannot_be_are_refused(field: str, value: object) -> None:
    plan = plan_of(workload("name: x, kind: bulk, between: pairs, transport: {protocol: sctp}"))
    flows = [{**flow, "transport": {**flow["transport"], field: value}} for flow in plan["flows"]]
    with pytest.raises(ValueError, match=f"transport.{field}"):
        _weir.check_plan(json.dumps({**plan, "flows": flows}))
