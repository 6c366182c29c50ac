"""Quantities computed from a plan, against values computed by hand."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest

from shared import dumbbell, plan_of
from weir import methods
from weir.plan import (
    DroptailQueue,
    Limit,
    TcpTransport,
    UdpTransport,
    line_bytes,
    offered_bps,
    option_bytes,
    packet_bytes,
    queue_bytes,
    queue_packets,
    recorded_links,
    tcp_flows,
    typed,
    with_transports,
)


@pytest.fixture
def document() -> dict[str, Any]:
    """Two flows, the second over UDP."""
    made = plan_of(dumbbell())
    made["flows"][1]["transport"] = {"protocol": "udp", "payload_bytes": 500}
    return made


def test_timestamps_are_in_the_headers(document: dict[str, Any]) -> None:
    ((flow, tcp),) = tcp_flows(typed(document))
    assert flow.name == document["flows"][0]["name"]
    assert (tcp.timestamps, option_bytes(tcp), packet_bytes(tcp)) == (True, 12, tcp.mss_bytes + 52)
    plain = msgspec.structs.replace(tcp, timestamps=False)
    assert (option_bytes(plain), packet_bytes(plain)) == (0, tcp.mss_bytes + 40)
    assert packet_bytes(UdpTransport(payload_bytes=500)) == 528


@pytest.mark.parametrize(
    ("source", "bps"),
    [
        ({"kind": "bulk"}, 5_000_000),
        ({"kind": "cbr", "rate_bps": 1_000_000}, 1_000_000),
        ({"kind": "cbr", "rate_bps": 9_000_000}, 5_000_000),
        ({"kind": "command", "command": ["a"]}, 5_000_000),
        ({"kind": "command", "command": ["a"], "rate_bps": 1_000_000}, 1_000_000),
    ],
)
def test_a_flow_offers_no_more_than_its_source_and_its_path(
    document: dict[str, Any], source: dict[str, Any], bps: int
) -> None:
    document["flows"][0]["source"] = source
    plan = typed(document)
    assert offered_bps(plan, plan.flows[0]) == bps


@pytest.mark.parametrize(
    ("limit", "size", "packets"),
    [
        (Limit(packets=3), 4500, 3),
        (Limit(bytes=4499), 4499, 2),
        (Limit(bytes=100), 100, 1),
        (Limit(bytes=4000, packets=3), 4000, 3),
    ],
)
def test_a_queue_holds_bytes_and_packets(limit: Limit, size: int, packets: int) -> None:
    queue = DroptailQueue(limit=limit)
    assert (queue_bytes(queue, 1500), queue_packets(queue, 1500)) == (size, packets)


def test_transports_are_replaced_and_nothing_else(document: dict[str, Any]) -> None:
    before = copy.deepcopy(document)
    plan = typed(document)
    assert json.dumps(with_transports(document, plan, lambda _, given: given)) == json.dumps(document)
    other = with_transports(
        document, plan, lambda kind, given: {**given, "cc": "other"} if isinstance(kind, TcpTransport) else given
    )
    assert document == before
    assert [flow["transport"].get("cc") for flow in other["flows"]] == ["other", None]
    other["flows"][0]["transport"] = document["flows"][0]["transport"]
    assert other == document


@pytest.mark.parametrize("method", ["sim", "lab", "emul"])
def test_what_is_no_plan_is_refused_with_its_field(document: dict[str, Any], method: str) -> None:
    del document["links"][0]["rate_bps"]
    executor: Any = methods.get(method)
    assert "lacks the field links[0].rate_bps" in executor.obstacle(document)


def test_all_links_are_recorded_or_those_that_are_named(document: dict[str, Any]) -> None:
    document["measure"]["links"] = []
    assert recorded_links(typed(document)) == tuple(range(len(document["links"])))
    document["measure"]["links"] = [1]
    assert recorded_links(typed(document)) == (1,)


def test_a_delay_line_holds_what_comes_while_it_delays(document: dict[str, Any]) -> None:
    document["links"][0] |= {"rate_bps": 8_000_000, "delay": {"kind": "fixed", "delay_ns": 10_000_000}}
    assert line_bytes(typed(document).links[0]) == pytest.approx(10_000)
