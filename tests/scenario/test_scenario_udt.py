"""UDT, from the language to the plan, and where it runs."""

from __future__ import annotations

import json

import pytest
from scenario_support import plan_of_workload as plan
from scenario_support import problems_of_workload as problems

from weir import _weir
from weir.methods import get
from weir.plan import header_bytes, packet_bytes, payload_bytes, typed

_ENTRY = "name: s, kind: bulk, between: pairs, transport: {protocol: udt}"


def test_a_packet_fills_the_path() -> None:
    found = plan(_ENTRY, transport="{cc: cubic, sack: false, buffers: 64MB}")
    # The buffers of the scenario are those of its TCP flows.
    assert found["flows"][0]["transport"] == {
        "protocol": "udt",
        "payload_bytes": 1456,
        "send_buffer_bytes": 8192 * 1456,
        "receive_buffer_bytes": 8192 * 1456,
    }
    _weir.check_plan(json.dumps(found))
    transport = typed(found).flows[0].transport
    assert (payload_bytes(transport), header_bytes(transport), packet_bytes(transport)) == (1456, 44, 1500)


def test_it_follows_a_profile_at_the_ticks_of_a_timer() -> None:
    entry = (
        "name: s, kind: transfer, size: 1MB, between: pairs, profile: [{wire_rate: 10Mbps}, {at: 1s, rate: 5Mbps}], "
        "transport: {protocol: udt, timer: 4ms, buffers: 1MB}"
    )
    transport = plan(entry)["flows"][0]["transport"]
    assert transport["timer_ns"] == 4_000_000
    assert transport["send_buffer_bytes"] == transport["receive_buffer_bytes"] == 1_000_000
    assert transport["profile"] == [
        {"at_ns": 0, "rate_bps": 10_000_000 * 1500 // 1538},
        {"at_ns": 1_000_000_000, "rate_bps": 5_000_000},
    ]


def test_it_carries_bulk_and_transfers_only() -> None:
    said = problems("name: s, kind: web, between: pairs, transport: {protocol: udt}, objects: 1, size: 1kB, think: 1s")
    assert "UDT carries entries of `kind: bulk` and `kind: transfer` only" in said


def test_it_has_no_settings_of_tcp_and_tcp_none_of_its() -> None:
    said = problems("name: s, kind: bulk, between: pairs, transport: {protocol: udt, ecn: true}")
    assert "UDT has no `ecn`: it has its own congestion control, buffers and `timer`" in said
    assert "UDT has no `cc`" in problems("name: s, kind: bulk, between: pairs", transport="{protocol: udt, cc: reno}")
    said = problems("name: s, kind: bulk, between: pairs, transport: {cc: reno, timer: 1ms}")
    assert "TCP has no `timer`: it is that of a host with `protocol: udt`" in said
    for tick in ("100s", "1ns"):
        said = problems(_ENTRY.replace("{protocol: udt}", f"{{protocol: udt, timer: {tick}}}"))
        assert "expected a tick from 1us to 1s" in said


def test_a_buffer_holds_a_packet() -> None:
    said = problems("name: s, kind: bulk, between: pairs, transport: {protocol: udt, send_buffer: 1kB}")
    assert "a send buffer of 1000 bytes cannot hold one segment of 1456 bytes" in said
    found = plan(_ENTRY)
    found["flows"][0]["transport"]["receive_buffer_bytes"] = 1
    with pytest.raises(ValueError, match=r"transport.receive_buffer_bytes: must hold one packet"):
        _weir.check_plan(json.dumps(found))


def test_every_method_has_it_but_only_the_simulator_its_profiles() -> None:
    profiled = "name: s, kind: transfer, size: 1MB, between: pairs, profile: 10Mbps, transport: {protocol: udt}"
    for entry in (_ENTRY, _ENTRY.replace("{protocol: udt}", "{protocol: udt, timer: 4ms, buffers: 1MB}")):
        found = plan(entry)
        assert [get(method).unfit(found) for method in ("sim", "emul", "lab")] == [None] * 3
    found = plan(profiled)
    assert get("sim").unfit(found) is None
    for method in ("emul", "lab"):
        said = get(method).unfit(found)
        assert said is not None, method
        assert said.startswith("profile (s[0], s[1], s[2]"), said
        assert "weir follows rate profiles of UDT in the simulator only" in said, said
