"""A switch that belongs to nobody's nodes: two of them send through a bridge, a third one receives."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from nodes_support import Nodes

from weir._errors import UnavailableError
from weir.cli.switch import command
from weir.deploy import DeployError
from weir.study import switches
from weir.study.switches import OverRig, Trial, over
from weir.study.switches import _programme as programme
from weir.study.switches._tcp import tcp_between

RATE, LIMIT = 20_000_000, 30_000
"""Of the bridge's ports: bit/s, and bytes of buffer."""
_ETHERNET = 14
_AT_SWITCH = ("a1", "a2", "b1")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], capture_output=True, check=True)


@pytest.fixture
def interfaces(nodes: Nodes) -> Iterator[list[str]]:
    """An interface ``sw0`` of each of three nodes at a bridge whose ports have a token bucket."""
    bridge = f"{nodes.tag}bridge"
    with ExitStack() as stack:
        _ip("netns", "add", bridge)
        stack.callback(_ip, "netns", "del", bridge)
        _ip("-n", bridge, "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
        _ip("-n", bridge, "link", "set", "br0", "up")
        for number, name in enumerate(_AT_SWITCH):
            space, port = nodes.namespace(name), f"p{number}"
            _ip("-n", space, "link", "add", "sw0", "type", "veth", "peer", "name", port, "netns", bridge)
            for where, device in ((space, "sw0"), (bridge, port)):
                quiet = ["ip", "netns", "exec", where, "sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1"]
                subprocess.run(quiet, check=True)
                _ip("-n", where, "link", "set", device, "up")
            _ip("-n", bridge, "link", "set", port, "master", "br0")
            shaper = ["tbf", "rate", f"{RATE}bit", "burst", "1600", "limit", str(LIMIT)]
            subprocess.run(["tc", "-n", bridge, "qdisc", "add", "dev", port, "root", *shaper], check=True)
        yield [f"{name}/sw0" for name in _AT_SWITCH]


@pytest.fixture
def rig(nodes: Nodes, interfaces: list[str]) -> Iterator[OverRig]:
    """The bridge with a tester on each node."""
    with over(nodes.inventory(), interfaces, RATE, _ETHERNET, connect=nodes.connect) as made:
        yield made


def test_packets_of_two_nodes_come_out_at_a_third_one_in_order_and_no_faster_than_the_port(
    rig: OverRig, nodes: Nodes
) -> None:
    """Bounds hold on a busy machine: it may lose packets, but nothing comes early or twice."""
    slow = programme.pair(rig, 0.2, 0.2, 400_000_000, 200_000_000)
    seen = rig.observe(Trial(slow.streams, slow.end_ns))
    for sent, received in zip(seen.sent, seen.received, strict=True):
        came = received >= 0
        assert len(sent) > 50
        assert came.mean() > 0.95
        assert (received[came] > sent[came]).all()
        assert (received[came][1:] > received[came][:-1]).all()
    assert {stream.input for stream in slow.streams} == {0, 1}
    full = programme.pair(rig, 1.0, 1.0, 500_000_000, 200_000_000)
    seen = rig.observe(Trial(full.streams, full.end_ns))
    passed = sum(int((received >= 0).sum()) for received in seen.received)
    offered = sum(len(sent) for sent in seen.sent)
    span_s = (max(received.max() for received in seen.received) - seen.sent[0][0]) / 1e9
    frame_bits = (full.streams[0].ip_bytes + _ETHERNET) * 8
    assert passed * frame_bits < 1.05 * (RATE * span_s + LIMIT * 8)
    if offered * frame_bits > 1.5 * RATE * span_s:  # a busy machine sends less, and the port then drops less
        assert passed < 0.9 * offered
    assert 0 < rig.clock_error_ns < 50_000_000
    assert "clocks of nodes within" in rig.summary.text


def test_tcp_of_the_nodes_kernels_passes_the_switch_and_its_hosts_disappear(
    rig: OverRig, nodes: Nodes, interfaces: list[str]
) -> None:
    short = {"workload.first.until": "900ms", "workload.second.until": "900ms", "sweep.transport.sack": "[false]"}
    (flows,) = tcp_between(rig, lambda _: None, {**short, "sweep.transport.cc": "['linux:reno']"})
    assert (flows.control, flows.sack) == ("reno", False)
    assert flows.goodput_mbps[0] > 0.5
    assert sum(flows.goodput_mbps) < 1.5 * RATE / 1e6  # the second one counts a shorter time
    for word in interfaces:
        assert "macvlan" not in nodes.run(word.split("/")[0], "ip", "-d", "link")
        assert f"weir-{os.getpid():x}-" not in nodes.run(word.split("/")[0], "ip", "netns")


def test_nodes_are_this_experiments_as_long_and_nothing_stays(nodes: Nodes, interfaces: list[str]) -> None:
    with over(nodes.inventory(), interfaces, RATE, _ETHERNET, connect=nodes.connect) as rig:
        with pytest.raises(DeployError), over(nodes.inventory(), interfaces, RATE, _ETHERNET, connect=nodes.connect):
            pass
        trial = programme.pair(rig, 0.2, 0.2, 50_000_000, 50_000_000)
        rig.observe(Trial(trial.streams, trial.end_ns))
    for name in _AT_SWITCH:
        assert nodes.pids(name, "weir-agent") == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["a1/sw0", "a2/sw0"], "expected three or more interfaces"),
        (["a1/sw0", "a2/sw0", "sw0"], "expected NODE/INTERFACE with --on, found 'sw0'"),
        (["a1/sw0", "a2/sw0", "c1/sw0"], "there is no node 'c1' in .*; it has a1, a2, b1, b2"),
        (["a1/sw0", "a2/sw0", "b1/none0"], "there is no interface 'b1/none0'"),
    ],
)
def test_interfaces_that_are_none_are_refused(nodes: Nodes, interfaces: list[str], words: list[str], why: str) -> None:
    with (
        pytest.raises(UnavailableError, match=why),
        over(nodes.inventory(), words, RATE, _ETHERNET, connect=nodes.connect),
    ):
        pass


def test_the_command_characterises_over_an_inventory(
    nodes: Nodes, interfaces: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = switches.characterise

    def short(rig: OverRig, name: str, **options: Any) -> switches.Characterised:
        """One trial of the nodes; the rest takes a model, because a whole characterisation takes minutes."""
        trial = programme.pair(rig, 0.2, 0.2, 200_000_000, 100_000_000)
        rig.observe(Trial(trial.streams, trial.end_ns))
        return replace(whole(switches.ModelRig("{memory: 60kB}"), name, **options), senders=rig.summary)

    monkeypatch.setattr(switches, "characterise", short)
    monkeypatch.setattr(switches, "over", partial(over, connect=nodes.connect))
    asked = ["characterise", "--on", str(nodes.inventory()), "--between", ",".join(interfaces)]
    words = [*asked, "--rate", "20Mbps", "--overhead", "14B", "-o", str(tmp_path / "out"), "--points", "2", "-q"]
    result = CliRunner().invoke(command, [*words, "--no-tcp", "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    said = json.loads(result.stdout)
    assert said["accuracy"]["streams"] == 2
    assert said["accuracy"]["clock_error_ns"] > 0
    assert said["name"] == "between-a1.sw0-a2.sw0-b1.sw0"


def test_an_inventory_without_interfaces_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(command, ["characterise", "fair", "--on", str(tmp_path / "nodes.yaml")])
    assert result.exit_code == 2
    assert "--on goes with --between" in result.output
