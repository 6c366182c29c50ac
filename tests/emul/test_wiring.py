"""From a plan to commands: names, addresses, settings, and refusals of flows that Linux cannot distinguish."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from emul_support import text

from shared import plan_of
from weir import methods
from weir.hosts.network import _batches, script
from weir.hosts.wiring import Wiring, WiringError, card, wire
from weir.plan import typed


@pytest.fixture(scope="module")
def plan() -> dict[str, Any]:
    return plan_of(text(pairs=2, cc="cubic"))


def changed(plan: dict[str, Any], flow: int, **values: object) -> dict[str, Any]:
    """``plan`` with other settings of the transport of one flow."""
    other = copy.deepcopy(plan)
    other["flows"][flow]["transport"] |= values
    return other


def between_the_same(plan: dict[str, Any]) -> dict[str, Any]:
    """``plan`` with both flows between the hosts of the first."""
    other = copy.deepcopy(plan)
    for key in ("from", "to", "path", "reverse_path"):
        other["flows"][1][key] = other["flows"][0][key]
    return other


def settings(wiring: Wiring, host: int) -> dict[str, str]:
    """The kernel's parameters that the commands set in a host."""
    path = f"--net={wiring.hosts[host].path}"
    words = [word for command in wiring.up if path in command for word in command if "=" in word and word != path]
    return dict(word.split("=", 1) for word in words)


def routes(wiring: Wiring, host: int) -> list[str]:
    """The routes of a host to others."""
    lines = [" ".join(command) for command in wiring.up if wiring.hosts[host].namespace in command]
    return [line.partition("route add ")[2] for line in lines if "route add 10." in line]


def test_each_host_that_a_flow_uses_is_a_namespace(plan: dict[str, Any]) -> None:
    wiring = wire(typed(plan), "t")
    assert [host.name for host in wiring.hosts] == ["src0", "dst0", "src1", "dst1"]
    assert [host.namespace for host in wiring.hosts] == [f"weir-t-h{host.node}" for host in wiring.hosts]
    assert len({host.address for host in wiring.hosts}) == 4
    assert wiring.hosts[0].to_job() == {
        "node": wiring.hosts[0].node,
        "netns": f"/run/netns/weir-t-h{wiring.hosts[0].node}",
        "address": wiring.hosts[0].address,
        "device": "weir0",
    }
    with pytest.raises(KeyError):
        wiring.host(0)  # a router


def test_what_is_made_is_removed(plan: dict[str, Any]) -> None:
    wiring = wire(typed(plan), "t")
    added = [command[3] for command in wiring.up if command[:3] == ("ip", "netns", "add")]
    removed = [command[3] for command in wiring.down if command[:3] == ("ip", "netns", "del")]
    assert added == removed == [host.namespace for host in wiring.hosts]
    touched = {host.namespace for host in wiring.hosts} | {f"--net={host.path}" for host in wiring.hosts}
    assert all(touched & set(command) for command in wiring.up), "every command is about one of the namespaces"


def test_buffers_metrics_and_windows_are_those_of_the_plan(plan: dict[str, Any]) -> None:
    plan = changed(plan, 0, send_buffer_bytes=3_000_000, receive_buffer_bytes=1_000_000, initial_window=4)
    wiring = wire(typed(plan), "t")
    sender, receiver = settings(wiring, 0), settings(wiring, 1)
    assert sender["net.ipv4.tcp_wmem"] == "4096 6000000 6000000"
    assert receiver["net.ipv4.tcp_rmem"] == "4096 2000000 2000000"
    assert sender["net.ipv4.tcp_no_metrics_save"] == receiver["net.ipv4.tcp_no_metrics_save"] == "1"
    assert routes(wiring, 0) == [f"{wiring.hosts[1].address}/32 dev weir0 initcwnd 4"]
    assert routes(wiring, 1) == [f"{wiring.hosts[0].address}/32 dev weir0"]


def test_a_threshold_of_earlier_connections_is_refused(plan: dict[str, Any]) -> None:
    known = changed(plan, 0, initial_ssthresh=30)
    with pytest.raises(WiringError, match=r"initial_ssthresh \(.*\): Linux of today gives new connections"):
        wire(typed(known), "t")
    assert "initial_ssthresh" in (methods.get("lab").obstacle(known) or ""), "so that `weir run` takes the simulator"


def test_rate_profiles_are_the_agents(plan: dict[str, Any]) -> None:
    followed = changed(plan, 0, profile=[{"at_ns": 0, "rate_bps": 1_000_000}])
    assert wire(typed(followed), "t").up == wire(typed(plan), "t").up, "the sender sets the rate of its socket"
    assert "profile" not in (methods.get("lab").obstacle(followed) or "")


def test_rate_profiles_of_udt_are_refused(plan: dict[str, Any]) -> None:
    followed = copy.deepcopy(plan)
    followed["flows"][0]["transport"] = {
        "protocol": "udt",
        "payload_bytes": 1456,
        "send_buffer_bytes": 1_000_000,
        "receive_buffer_bytes": 1_000_000,
        "profile": [{"at_ns": 0, "rate_bps": 1_000_000}],
    }
    with pytest.raises(WiringError, match=r"profile \(.*\): weir follows rate profiles of UDT in the simulator only"):
        wire(typed(followed), "t")
    assert "profile" in (methods.get("lab").obstacle(followed) or ""), "so that `weir run` takes the simulator"


@pytest.mark.parametrize(("field", "key"), [("jump_start", "jump_start"), ("quick_start_bps", "quick_start")])
def test_beginnings_without_slow_start_are_refused(plan: dict[str, Any], field: str, key: str) -> None:
    begun = changed(plan, 0, **{field: True if field == "jump_start" else 20_000_000})
    with pytest.raises(WiringError, match=rf"{key} \(.*\): no kernel has (Jump Start|Quick-Start \(RFC 4782\)); weir"):
        wire(typed(begun), "t")
    assert key in (methods.get("lab").obstacle(begun) or ""), "so that `weir run` takes the simulator"


def test_ecn_and_quick_acknowledgements_belong_to_the_route_of_the_one_who_has_them(plan: dict[str, Any]) -> None:
    wiring = wire(typed(changed(plan, 0, ecn=True, ack="every")), "t")
    assert routes(wiring, 0)[0].endswith("initcwnd 10 features ecn")
    assert routes(wiring, 1)[0].endswith("dev weir0 quickack 1")
    assert settings(wiring, 1)["net.ipv4.tcp_ecn"] == "2"


def test_sack_is_off_at_the_hosts_of_a_flow_without(plan: dict[str, Any]) -> None:
    wiring = wire(typed(changed(plan, 0, sack=False)), "t")
    assert [settings(wiring, host)["net.ipv4.tcp_sack"] for host in range(4)] == ["0", "0", "1", "1"]


def test_a_flow_without_sack_needs_only_one_end_without(plan: dict[str, Any]) -> None:
    shared = changed(plan, 0, sack=False)
    shared["flows"][1]["from"] = shared["flows"][0]["from"]
    wiring = wire(typed(shared), "t")
    state = {host.name: settings(wiring, n)["net.ipv4.tcp_sack"] for n, host in enumerate(wiring.hosts)}
    assert state == {"src0": "1", "dst0": "0", "dst1": "1"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sack": False}, "has no sack and flow"),
        ({"timestamps": False}, "has no timestamps and flow"),
        ({"initial_window": 3}, r"differ in initial_window \(10 and 3\)"),
        ({"ecn": True}, r"differ in ecn \(False and True\)"),
        ({"ack": "every"}, "differ in ack"),
    ],
)
def test_flows_of_the_same_hosts_must_agree(plan: dict[str, Any], values: dict[str, Any], message: str) -> None:
    same = between_the_same(plan)
    wire(typed(same), "t")
    with pytest.raises(WiringError, match=message) as caught:
        wire(typed(changed(same, 1, **values)), "t")
    assert "Give them hosts of their own" in str(caught.value)


def test_an_old_stack_is_refused(plan: dict[str, Any]) -> None:
    old = changed(plan, 0, stack="linux-2.6")
    with pytest.raises(WiringError, match=r"stack: linux-2.6 \(.*\): no kernel of today has it"):
        wire(typed(old), "t")
    assert "linux-2.6" in (methods.get("lab").obstacle(old) or ""), "so that `weir run` takes the simulator by itself"


def test_a_parameter_that_the_kernel_lacks_is_an_error(plan: dict[str, Any]) -> None:
    """Only the parameters that disable IPv6 may be missing."""
    for command in wire(typed(plan), "t").up:
        if "-e" in command:
            assert all(word.startswith("net.ipv6.") for word in command if "=" in word and not word.startswith("--"))
        elif "sysctl" in command:
            assert any(word.startswith("net.ipv4.tcp_ecn=") for word in command)


def test_the_queue_of_a_card_passes_what_the_card_sends(plan: dict[str, Any]) -> None:
    wiring = wire(typed(plan), "t")
    (bucket,) = (c for c in wiring.up if c[:3] == ("tc", "-n", wiring.hosts[0].namespace))
    rate = int(bucket[bucket.index("rate") + 1].removesuffix("bit"))
    assert rate == pytest.approx(50e6 * 1500 / 1538, rel=2e-3)  # IP bytes; the link counts those on the wire
    assert rate < 50e6 * 1500 / 1538
    assert int(bucket[bucket.index("limit") + 1]) >= 1000 * 1500
    ethernet = card(typed(plan), wiring.hosts[0].node, header_bytes=14)  # whose disciplines count that header, too
    assert int(ethernet[ethernet.index("rate") + 1].removesuffix("bit")) == pytest.approx(rate * 1514 / 1500, abs=2)


_STAR = """
title: Two sources at one port
topology: {star: {hosts: 3, access: {rate: 100Mbps}, switch: fair}}
workload:
  - {name: one, kind: cbr, between: [h0, h2], wire_rate: 100Mbps}
  - {name: two, kind: cbr, between: [h1, h2], wire_rate: 50Mbps}
  - {name: three, OTHER, between: [h1, h2]}
duration: 1s
"""


@pytest.mark.parametrize(
    ("other", "rate_bps"),
    [
        ("kind: cbr, wire_rate: 10Mbps, packet: 1500B", 97_529_258),  # 1500 of 1538 B
        ("kind: cbr, wire_rate: 10Mbps, packet: 200B", 97_431_729),  # 99.9 % of this: the others take more on the wire
        ("kind: bulk, transport: {cc: reno}", 97_431_729),
    ],
)
def test_a_card_for_packets_of_one_size_has_the_rate_of_its_link(other: str, rate_bps: int) -> None:
    plan = typed(plan_of(_STAR.replace("OTHER", other)))
    hosts = {host.name: host.node for host in wire(plan, "t").hosts}
    assert card(plan, hosts["h0"])[:3] == ("tbf", "rate", "97529258bit")
    assert card(plan, hosts["h1"])[:3] == ("tbf", "rate", f"{rate_bps}bit")


def test_a_device_holds_what_comes_while_the_emulator_waits_for_a_processor(plan: dict[str, Any]) -> None:
    for host in wire(typed(plan), "t").hosts:
        (words,) = (c for c in wire(typed(plan), "t").up if host.namespace in c and "txqueuelen" in c)
        assert int(words[words.index("txqueuelen") + 1]) * 1538 * 8 / 1e9 > 0.1  # seconds of a gigabit


def test_a_host_whose_packets_are_alone_makes_no_trains(plan: dict[str, Any]) -> None:
    for alone in (True, False):
        devices = [c for c in wire(typed(plan), "t", alone=alone).up if "txqueuelen" in c]
        assert [("gso_max_segs" in words) for words in devices] == [alone] * len(wire(typed(plan), "t").hosts)


def test_the_script_is_a_shells_and_holds_every_command(plan: dict[str, Any]) -> None:
    wiring = wire(typed(plan), "t")
    lines = script(wiring).splitlines()
    assert lines[0] == "#!/bin/sh"
    assert sum(line.startswith(("ip ", "tc ", "nsenter ")) for line in lines) == len(wiring.up)
    assert "'net.ipv4.tcp_wmem=4096 4000000 4000000'" in script(wiring)


def test_neighbours_are_executed_in_one_call(plan: dict[str, Any]) -> None:
    wiring = wire(typed(plan), "t")
    batches = list(_batches(wiring.up))
    done = [line for command, lines in batches for line in (lines.splitlines() or [" ".join(command)])]
    assert len(done) == len(wiring.up)
    assert len(batches) < len(wiring.up) / 1.5
    assert batches[0][0] == ("ip", "-batch", "-")
    assert batches[0][1].splitlines()[0] == f"netns add {wiring.hosts[0].namespace}"


def test_too_many_flows_for_the_ports_are_refused(plan: dict[str, Any]) -> None:
    many = {**plan, "flows": plan["flows"] * 12_000}
    with pytest.raises(WiringError, match="has 24000 flows; this method has ports for 22768"):
        wire(typed(many), "t")
