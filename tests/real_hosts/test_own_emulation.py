"""``network: emulated`` without a node between: each host emulates what it sends, and is as before afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from nodes_support import Nodes, unavailable

from shared import Memory, dumbbell, plan_of
from weir.hosts import ends
from weir.methods import Method, Outcome
from weir.methods.hosts import Hosts
from weir.plan import typed


class Ends(Nodes):
    """``a1`` and ``a2`` at one side of a router, ``b1`` and ``b2`` at the other, without limits of rates."""

    def inventory(self) -> Path:
        """The file of an inventory of the nodes, which emulate their links."""
        path = super().inventory()
        path.write_text(json.dumps({**json.loads(path.read_text()), "network": "emulated"}))
        return path

    def _make(self) -> None:
        super()._make()
        for name in self.names:
            subprocess.run(
                ["tc", "-n", self.namespace("r"), "qdisc", "del", "dev", f"to{name}", "root"],
                capture_output=True,
                check=True,
            )


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Ends]:
    """Four nodes."""
    if (why := unavailable()) is not None:
        pytest.skip(why)
    with Ends(tmp_path) as made:
        yield made


QUEUE = "queue: {droptail: {size: 40kB}}"


def scenario(pairs: int = 1, bottleneck: str = f"rate: 10Mbps, {QUEUE}", more: str = "", until: str = "4s") -> str:
    return dumbbell(
        title="Test",
        pairs=pairs,
        access="rate: 50Mbps",
        bottleneck=bottleneck,
        rtt="30ms",
        transport="cc: linux:reno, stack: linux, buffers: 1MB",
        workload=f"name: flow, between: pairs, kind: bulk, streams: 2, until: {until}",
        measure="goodput: 200ms, tcp: 50ms, links: 100ms, delay: 200ms",
        more=more,
    )


def execute(method: Method, text: str) -> tuple[Memory, Outcome]:
    sink = Memory()
    return sink, method.execute(json.dumps(plan_of(text)), sink, lambda *_: None)


@pytest.mark.parametrize("strict", ["0", "1"])
def test_hosts_emulate_what_they_send(nodes: Ends, strict: str) -> None:
    for name in nodes.names:
        nodes.run(name, "sh", "-c", f"echo {strict} > /proc/sys/net/ipv4/conf/all/rp_filter")
    before = {name: nodes.state(name) for name in nodes.names}
    method = Hosts(nodes.connect).on(str(nodes.inventory()))
    text = scenario(more="changes: [{at: 2s, link: bottleneck, rate: 5Mbps}]\n")
    assert method.obstacle(plan_of(text)) is None
    try:
        sink, outcome = execute(method, text)
        assert "dev weirh2" in nodes.run("a1", "ip", "route", "show", nodes.address("b1"))
    finally:
        method.close()

    assert outcome.partial is None
    checks = json.loads(sink.text("calibration.json"))["checks"]
    assert [check["holds"] for check in checks if check["what"] != "rate of TCP"] == [True] * 2
    assert 8e6 < rate(sink, 1.0, 2.0) < 10e6, "the bottleneck, without headers"
    assert 3.5e6 < rate(sink, 3.0, 4.0) < 5e6, "after its change"
    links = sink.columns("links")
    assert set(links["link"]) == {0, 1}, "the bottleneck by its only sender, the way back by its own"
    assert max(links["queue_max_bytes"]) <= 40_000
    flows = sink.columns("flows")
    assert sum(flows["lost_packets"]) == sum(
        dropped for link, dropped in zip(links["link"], links["drop_packets"], strict=True) if link == 0
    )
    assert min(sink.columns("delays")["delay_min_ns"]) >= 15e6, "half of the round-trip time"
    assert {name: nodes.state(name) for name in nodes.names} == before
    assert nodes.journals() == []
    assert nodes.processes() == []


def rate(sink: Memory, first: float, last: float) -> float:
    """Goodput of all flows between two instants, bit/s."""
    goodput = sink.columns("goodput")
    rows = zip(goodput["time_ns"], goodput["delivered_bytes"], strict=True)
    return sum(count for at, count in rows if first < at / 1e9 <= last) * 8 / (last - first)


def test_a_dead_emulator_ends_the_run_within_seconds(nodes: Ends) -> None:
    before = {name: nodes.state(name) for name in nodes.names}
    method = Hosts(nodes.connect).on(str(nodes.inventory()))
    killed: list[float] = []

    def progress(reached_ns: int, *_: object) -> None:
        if reached_ns > 1e9 and not killed:
            (emulator,) = nodes.pids("b1", "weir-emu")
            os.kill(emulator, signal.SIGKILL)
            killed.append(time.monotonic())

    sink = Memory()
    try:
        outcome = method.execute(json.dumps(plan_of(scenario(until="60s"))), sink, progress)
        assert time.monotonic() - killed[0] < 10
        assert "b1 failed at" in (outcome.partial or "")
        assert not outcome.lost, "the node is there: the next cell may succeed"
        assert sink.columns("goodput")["delivered_bytes"]
    finally:
        method.close()
    assert {name: nodes.state(name) for name in nodes.names} == before


def test_a_bottleneck_that_hosts_share_is_refused_by_its_name(nodes: Ends) -> None:
    method = Hosts(nodes.connect).on(str(nodes.inventory()))
    why = method.obstacle(plan_of(scenario(pairs=2))) or ""
    assert why.startswith("network: emulated without `emulator`: link bottleneck: packets of several hosts pass it")
    assert "(src0, src1), and they can send 100Mbps, more than its 10Mbps" in why
    assert "`emulator: SET`" in why
    assert method.obstacle(plan_of(scenario(pairs=2, bottleneck="rate: 100Mbps"))) is None, "they cannot fill it"


@pytest.mark.parametrize(
    ("bottleneck", "more", "why"),
    [
        ("rate: 1Gbps, loss: 1%", "", None),
        ("rate: 1Gbps, loss: {gilbert_elliott: {p: 0.1, r: 0.5}}", "", "its losses depend on the packets before"),
        ("rate: 1Gbps, jitter: {deviation: 1ms}", "", "its delay depends on the packets before"),
        ("rate: 1Gbps", "changes: [{at: 2s, link: bottleneck, rate: 5Mbps}]\n", "it changes during the run"),
    ],
)
def test_what_hosts_share_must_not_depend_on_the_packets_of_others(bottleneck: str, more: str, why: str | None) -> None:
    found = ends.obstacle(typed(plan_of(scenario(pairs=2, bottleneck=bottleneck, more=more))))
    assert found is None if why is None else why in (found or "")


def test_a_part_has_the_flows_in_their_order_and_only_what_its_host_sends() -> None:
    document = plan_of(scenario(pairs=2, bottleneck="rate: 1Gbps, loss: 1%"))
    plan = typed(document)
    by_name = {node.name: number for number, node in enumerate(plan.nodes)}
    mine, other = (ends.part(document, plan, by_name[name]) for name in ("src1", "dst0"))
    assert [flow["name"] for flow in mine["flows"]] == [flow.name for flow in plan.flows]
    assert {flow["from"] for flow in mine["flows"]} == {by_name["src1"]}
    assert {flow["to"] for flow in other["flows"]} == {by_name["dst0"]}
    assert mine["seed"] != other["seed"], "they do not lose the same packets"
    assert mine["measure"]["links"] == [], "nobody sees all packets of a link that hosts share"
    typed(mine)
    typed(other)
