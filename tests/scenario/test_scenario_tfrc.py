"""TFRC, from the language to the plan, and where it runs."""

from __future__ import annotations

import json

import pytest
from scenario_support import plan_of_workload as plan
from scenario_support import problems_of_workload as problems

from weir import _weir
from weir.methods import get
from weir.plan import header_bytes, packet_bytes, payload_bytes, typed

_ENTRY = "name: s, kind: bulk, between: pairs, transport: {protocol: tfrc}"


def test_a_datagram_fills_the_path() -> None:
    found = plan(_ENTRY, transport="{cc: cubic, sack: false}")
    assert found["flows"][0]["transport"] == {"protocol": "tfrc", "payload_bytes": 1472}
    assert found["flows"][0]["source"] == {"kind": "bulk"}
    _weir.check_plan(json.dumps(found))
    transport = typed(found).flows[0].transport
    assert (payload_bytes(transport), header_bytes(transport), packet_bytes(transport)) == (1472, 28, 1500)


def test_it_carries_data_without_end_only() -> None:
    said = problems("name: s, kind: transfer, size: 1MB, between: pairs, transport: {protocol: tfrc}")
    assert "TFRC has no end of a transfer: it carries `kind: bulk` only" in said


def test_it_has_no_settings_of_tcp() -> None:
    said = problems("name: s, kind: bulk, between: pairs, transport: {protocol: tfrc, ecn: true}")
    assert "TFRC has no `ecn`" in said
    assert "TFRC has no `cc`" in problems("name: s, kind: bulk, between: pairs", transport="{protocol: tfrc, cc: reno}")


def test_a_path_of_tiny_packets_has_no_room_for_it() -> None:
    found = plan(_ENTRY)
    found["flows"][0]["transport"]["payload_bytes"] = 63
    with pytest.raises(ValueError, match=r"transport.payload_bytes: must be 64 to 65507"):
        _weir.check_plan(json.dumps(found))


def test_every_method_has_it() -> None:
    found = plan(_ENTRY)
    for method in ("sim", "emul", "lab"):
        assert get(method).unfit(found) is None, method
