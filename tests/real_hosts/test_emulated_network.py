"""``network: emulated``: a node between the others is the network, and is as before afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from between_support import Between
from nodes_support import text, unavailable

from shared import Memory, plan_of
from weir.methods import LostError, Method, MethodError, Outcome
from weir.methods.hosts import Hosts

CHANGED = "changes: [{at: 2s, link: bottleneck, rate: 5Mbps}]\n"


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Between]:
    """Four nodes, and one between them."""
    if (why := unavailable()) is not None:
        pytest.skip(why)
    with Between(tmp_path) as made:
        yield made


def scenario(until: str = "4s", more: str = "", losses: str = "", rtt: str = "30ms") -> str:
    measured = text(until=until, rtt=rtt).replace("links: 0", "links: 100ms, delay: 200ms")
    return measured.replace("queue: {", f"{losses}queue: {{") + more


def execute(method: Method, plan: str) -> tuple[Memory, Outcome]:
    sink = Memory()
    return sink, method.execute(json.dumps(plan_of(plan)), sink, lambda *_: None)


def checks(sink: Memory) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(sink.text("calibration.json"))["checks"]
    return found


def test_the_node_between_is_the_network_of_the_scenario(nodes: Between) -> None:
    before = {name: nodes.state(name) for name in nodes.everyone}
    method = Hosts(nodes.connect).on(str(nodes.inventory()))
    assert {"links", "delays", "delay_bins"} <= method.tables
    assert method.obstacle(plan_of(scenario(more=CHANGED))) is None
    assert list(method.remarks(plan_of(scenario()), 0)) == []
    try:
        sink, outcome = execute(method, scenario(more=CHANGED))
        assert "via 10.77.1.1" in nodes.run("a1", "ip", "route", "show", nodes.address("b1"))
        assert "lookup 10002" in nodes.run("e1", "ip", "rule")
    finally:
        method.close()

    assert outcome.partial is None
    assert [check["holds"] for check in checks(sink) if check["what"] != "rate of TCP"] == [True] * 4
    goodput, links = sink.columns("goodput"), sink.columns("links")
    rates = [
        sum(
            count
            for at, count in zip(goodput["time_ns"], goodput["delivered_bytes"], strict=True)
            if first < at / 1e9 <= last
        )
        * 8
        / (last - first)
        / 1e6
        for first, last in ((1.0, 2.0), (3.0, 4.0))
    ]
    assert 16 < rates[0] < 20, "the bottleneck, without headers"
    assert 3.5 < rates[1] < 5, "after its change"
    events = sink.columns("events")
    changes = [at for at, kind in zip(events["time_ns"], events["kind"], strict=True) if kind == "link_change"]
    assert [at / 1e9 for at in changes] == [pytest.approx(2, abs=0.01)]
    flows = sink.columns("flows")
    assert sum(flows["lost_packets"]) == sum(links["drop_packets"]) > 0, "what the emulator has dropped"
    delays = sink.columns("delays")
    assert min(delays["delay_min_ns" if "delay_min_ns" in delays else "min_ns"]) >= 15_000_000

    assert {name: nodes.state(name) for name in nodes.everyone} == before
    assert nodes.journals() == []
    assert nodes.processes() == []


def test_a_sender_feels_that_the_card_of_its_host_is_full(nodes: Between) -> None:
    def usual_rtt(method: Hosts) -> tuple[Memory, Outcome, float]:
        """Its median from the second second on, ms."""
        with contextlib.closing(method):
            sink, outcome = execute(
                method, scenario(until="4s").replace("rate: 50Mbps", "rate: 8Mbps, queue: 700packets")
            )
        samples = sink.columns("samples")
        rows = zip(samples["time_ns"], samples["srtt_ns"], strict=True)
        return sink, outcome, statistics.median(rtt for at, rtt in rows if at > 2e9) / 1e6

    before = nodes.state("a1")
    most = segments(nodes)
    path = nodes.inventory()
    _, outcome, plain = usual_rtt(Hosts(nodes.connect).on(str(path)))
    assert any("a1, a2: the card of a host is at e1" in warning for warning in outcome.warnings)
    said = json.loads(path.read_text())
    for name in "AB":
        said["sets"][name]["interface"] = "eth0"
    path.write_text(json.dumps(said))
    sink, outcome, held = usual_rtt(Hosts(nodes.connect).on(str(path)))
    assert not any("the card of a host" in warning for warning in outcome.warnings)
    cards = {
        each["name"]: [change["change"] for change in each["changes"]] for each in json.loads(sink.text("nodes.json"))
    }
    (queue,) = (change for change in cards["a1"] if change["kind"] == "qdisc")
    assert (queue["device"], queue["value"][:2]) == ("eth0", ["tbf", "rate"])
    rate_bps = 8e6 * 0.999 * (1500 + 14) / (1500 + 38)
    assert int(queue["value"][2].removesuffix("bit")) == pytest.approx(rate_bps, abs=1), "it counts Ethernet's header"
    assert [(change["device"], change["value"]) for change in cards["a1"] if change["kind"] == "segments"] == [
        ("eth0", 1)
    ]
    assert plain > 2 * held, "a queue of many round trips in front of the access link"
    assert nodes.state("a1") == before
    assert segments(nodes) == most


def segments(nodes: Between) -> int:
    """The most segments that the interface of a host's node takes at once."""
    words = nodes.run("a1", "ip", "-d", "link", "show", "dev", "eth0").split()
    return int(words[words.index("gso_max_segs") + 1])


def test_random_losses_and_other_queues_are_those_of_the_scenario(nodes: Between) -> None:
    method = Hosts(nodes.connect).on(str(nodes.inventory()))
    lossy = scenario(losses="loss: 5%, ").replace("droptail: {size: 40kB}", "codel: {}")
    try:
        sink, outcome = execute(method, lossy)
    finally:
        method.close()
    assert outcome.partial is None
    losses = [check for check in checks(sink) if check["what"] == "loss there and back"]
    assert [round(float(str(check["expected"])), 1) for check in losses] == [5.0, 5.0]
    assert all(check["holds"] for check in losses)
    links = sink.columns("links")
    assert sum(links["drop_packets"]) > 10


def test_a_dead_emulator_ends_the_run_within_seconds(nodes: Between) -> None:
    before = {name: nodes.state(name) for name in nodes.everyone}
    method = Hosts(nodes.connect).on(str(nodes.inventory()))
    killed: list[float] = []
    over = threading.Event()

    def kill() -> None:
        while not nodes.pids("a1", "weir-agent"):
            if over.wait(0.2):
                return
        over.wait(2)
        (emulator,) = nodes.pids("e1", "weir-emu")
        os.kill(emulator, signal.SIGKILL)
        killed.append(time.monotonic())

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        _, outcome = execute(method, scenario(until="60s"))
        assert time.monotonic() - killed[0] < 10
        assert "e1 failed at" in (outcome.partial or "")
        assert not outcome.lost, "the node is there: the next cell may succeed"
    finally:
        over.set()
        thread.join()
        method.close()
    assert {name: nodes.state(name) for name in nodes.everyone} == before


def test_a_lost_controller_leaves_nothing(nodes: Between) -> None:
    before = {name: nodes.state(name) for name in nodes.everyone}
    method = Hosts(nodes.connect).on(str(nodes.inventory()))
    execute(method, scenario(until="1s"))
    fleet = method._fleet
    assert fleet is not None
    for member in fleet.all.values():
        member.place.cut()
    deadline = time.monotonic() + 30
    while nodes.journals() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert {name: nodes.state(name) for name in nodes.everyone} == before
    method.close()


def test_a_node_behind_a_router_is_refused(nodes: Between) -> None:
    nodes.run("e1", "ip", "route", "replace", f"{nodes.address('b1')}/32", "via", nodes.address("b2"))
    method = Hosts(nodes.connect).on(str(nodes.inventory()))
    try:
        with pytest.raises((MethodError, LostError), match=r"e1 reaches b1 .* by a router"):
            execute(method, scenario(until="1s"))
    finally:
        method.close()


def test_the_emulators_node_is_no_host(nodes: Between) -> None:
    method = Hosts(nodes.connect).on(str(nodes.inventory(emulator="A[1]")))
    assert "node `a1` is the emulator; it cannot be host `src0`" in (method.obstacle(plan_of(scenario())) or "")
