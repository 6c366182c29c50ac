"""What a plan asks of nodes, what the method refuses, and losses as ends see them. Pure."""

from __future__ import annotations

import numpy as np
import pytest
from nodes_support import text

from shared import plan_of
from weir.deploy import route
from weir.hosts.messages import Frame
from weir.inventory import parse
from weir.methods.hosts._losses import losses
from weir.methods.hosts._settings import changes, hosts_of, limits, obstacle
from weir.plan import Plan, typed

CHANGED = text() + "changes: [{at: 1s, link: bottleneck, rate: 10Mbps}]\n"


def plan(scenario: str) -> Plan:
    return typed(plan_of(scenario))


def addresses(of: Plan) -> dict[int, str]:
    return {host: f"10.0.0.{host}" for host in hosts_of(of)}


def test_a_plain_plan_changes_what_linux_switches_for_a_host() -> None:
    plain = plan(text())
    found = changes(plain, addresses(plain))
    assert list(found) == hosts_of(plain)
    assert {tuple((change["name"], change["value"]) for change in one) for one in found.values()} == {
        (("net.ipv4.tcp_sack", "1"), ("net.ipv4.tcp_timestamps", "1"))
    }


def test_settings_of_routes_and_of_ecn() -> None:
    special = plan(text(more=", initial_window: 3, ecn: true, ack: every"))
    flow = special.flows[0]
    found = changes(special, addresses(special))
    names = {change["name"]: change["value"] for change in found[flow.to] if change["kind"] == "sysctl"}
    assert names["net.ipv4.tcp_ecn_fallback"] == "0"
    (way,) = [change for change in found[flow.from_] if change["kind"] == "route"]
    (back,) = [change for change in found[flow.to] if change["kind"] == "route"]
    assert (way["to"], way["value"]) == (f"10.0.0.{flow.to}", ["initcwnd", "3", "features", "ecn"])
    assert (back["to"], back["value"]) == (f"10.0.0.{flow.from_}", ["quickack", "1"])


def test_through_a_node_between_each_peer_has_a_route_to_it() -> None:
    special = plan(text(more=", initial_window: 3"))
    flow = special.flows[0]
    found = changes(special, addresses(special), {host: {"via": "10.9.9.9"} for host in hosts_of(special)})
    (way,) = [change for change in found[flow.from_] if change["kind"] == "route"]
    (back,) = [change for change in found[flow.to] if change["kind"] == "route"]
    assert way == route(f"10.0.0.{flow.to}", ["initcwnd", "3"], via="10.9.9.9")
    assert back == route(f"10.0.0.{flow.from_}", [], via="10.9.9.9")


def test_without_privilege_buffers_have_limits() -> None:
    plain = plan(text())
    sender, receiver = plain.flows[0].from_, plain.flows[0].to
    assert [(one["name"], one["value"]) for one in limits(plain, sender)] == [
        ("net.core.wmem_max", str(2 * (1_000_000 + (4 << 20))))
    ]
    assert [one["name"] for one in limits(plain, receiver)] == ["net.core.rmem_max"]
    assert all(one["at_least"] for one in limits(plain, sender))


SWITCHED = """
title: Test
topology: {star: {hosts: 3, access: {rate: 50Mbps}, switch: fair}}
transport: {cc: linux:reno, stack: linux}
workload: [{name: flow, between: [h0, h2], kind: bulk, until: 3s}]
measure: {goodput: 200ms, links: 0}
"""


@pytest.mark.parametrize(
    ("scenario", "network", "why"),
    [
        (text(), "existing", None),
        (text(), "emulated", "packets of several hosts pass it (src0, src1), and they can send 100Mbps"),
        (text(rate="200Mbps"), "emulated", None),
        (text(), "emulated, emulator: A", None),
        (CHANGED, "existing", "changes links during the run"),
        (CHANGED, "emulated, emulator: A", None),
        (text().replace("links: 0", "links: 0, trace: {}"), "existing", "measure.trace"),
        (text().replace("links: 0", "links: 0, trace: {}"), "emulated, emulator: A", "measure.trace"),
        (text().replace("stack: linux", "stack: linux-2.6"), "existing", "linux-2.6"),
        (SWITCHED, "existing", "switch `hub`: a memory and an arbiter: this method lacks those; `sim`, `emul`"),
        (SWITCHED, "existing", "leave `switch` out and use `network: existing`"),
        (SWITCHED, "emulated, emulator: A", "switch `hub`: a memory and an arbiter"),
    ],
)
def test_what_is_refused(scenario: str, network: str, why: str | None) -> None:
    found = obstacle(plan(scenario), parse(f"{{sets: {{A: {{nodes: [a1]}}}}, network: {network}}}"))
    assert found is None if why is None else why in (found or "")


def test_losses_are_retransmissions_and_missing_datagrams() -> None:
    frame = Frame(
        "flows",
        {
            "flow": np.array([0, 0, 1], np.uint32),
            "start_ns": np.array([0, 500, 7], np.uint64),
            "retransmitted_packets": np.array([3, 0, 4], np.uint64),
        },
    )
    stats = {"b1.cbr.2.lost": 5.0, "b1.cbr.3.lost": 0.0, "b1.cbr.2.received": 9.0, "a1.wakeups": 1.0}
    first, second = losses([frame], stats)
    assert [list(first.columns[name]) for name in ("flow", "time_ns", "packets")] == [[0, 1], [1, 8], [3, 4]]
    assert [list(second.columns[name]) for name in ("flow", "packets")] == [[2], [5]]
