"""A plan on nodes: tables, clocks, settings, and what is left."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator

import pytest
from nodes_support import Nodes, text

from shared import Memory, plan_of
from weir.methods import Outcome
from weir.methods.hosts import Hosts


@pytest.fixture
def method(nodes: Nodes) -> Iterator[Hosts]:
    found = Hosts(nodes.connect).on(str(nodes.inventory()))
    yield found
    found.close()


def execute(method: Hosts, scenario: str) -> tuple[Memory, Outcome]:
    sink = Memory()
    return sink, method.execute(json.dumps(plan_of(scenario)), sink, lambda *_: None)


def test_bulk_flows_fill_their_links_and_nothing_is_left(nodes: Nodes, method: Hosts) -> None:
    before = {name: nodes.sysctl(name, "net.ipv4.tcp_no_metrics_save") for name in nodes.names}
    assert set(before.values()) == {"0"}

    sink, outcome = execute(method, text())

    assert outcome.partial is None
    goodput = sink.columns("goodput")
    for flow in (0, 1):
        mine = [
            count
            for time_ns, number, count in zip(
                *(goodput[name] for name in ("time_ns", "flow", "delivered_bytes")), strict=True
            )
            if number == flow and 1e9 < time_ns <= 3e9
        ]
        assert len(mine) == 10, "both ends of a flow have the same intervals"
        assert 17e6 < sum(mine) * 8 / 2 < 20e6, "20 Mb/s without the headers"
    flows = sink.columns("flows")
    assert flows["flow"] == [0, 1]
    assert flows["lost_packets"] == flows["retransmitted_packets"]
    assert min(flows["lost_packets"]) > 0, "a queue of 40 kB overflows"
    assert flows["start_ns"][0] < 5e6
    assert flows["end_ns"] == [None, None]
    assert {nodes.sysctl(name, "net.ipv4.tcp_no_metrics_save") for name in nodes.names} == {"1"}
    assert len(nodes.journals()) == 4

    method.close()

    assert {name: nodes.sysctl(name, "net.ipv4.tcp_no_metrics_save") for name in nodes.names} == before
    assert nodes.journals() == []
    assert nodes.processes() == []


def test_agents_have_a_token_that_is_kept_nowhere(method: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bytes] = []

    def token_bytes(count: int) -> bytes:
        made.append(bytes(range(0xA0, 0xA0 + count)))
        return made[-1]

    monkeypatch.setattr(secrets, "token_bytes", token_bytes)

    sink, outcome = execute(method, text(until="1s"))

    assert made == [bytes(range(0xA0, 0xB0))]
    strangers = {name: outcome.stats[f"{name}.strangers"] for name in Nodes.names}
    assert strangers == dict.fromkeys(Nodes.names, 0), "agents without a token count none"
    assert sum(sink.columns("goodput")["delivered_bytes"]) > 1e6
    kept = json.loads(sink.text("job-a1.json"))
    assert kept["first_port"] > 0
    assert not {"plan", "token"} & set(kept)
    files = {name: file.getvalue() for name, file in sink.files.items()}
    files |= {f"{name}.txt": str(sink.columns(name)).encode() for name in sink.batches}
    files["outcome"] = repr(outcome).encode()
    for name, content in files.items():
        assert made[0] not in content, name
        assert made[0].hex().encode() not in content.lower(), name


def test_clocks_of_one_machine_are_found_to_be_one(nodes: Nodes, method: Hosts) -> None:
    sink, _ = execute(method, text())
    clocks = json.loads(sink.text("clocks.json"))
    assert set(clocks["nodes"]) == set(nodes.names)
    for about in clocks["nodes"].values():
        for fit in (about["before"], about["after"]):
            assert abs(fit["offset_ns"]) <= fit["error_ns"]
            assert fit["error_ns"] < 5e6
        assert len(about["readings"]) > 20
