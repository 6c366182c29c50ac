"""A real switch between interfaces: a Linux bridge in network namespaces, whose ports have a rate and a buffer."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from weir._errors import UnavailableError
from weir.cli.switch import command
from weir.study import switches
from weir.study.switches import BetweenRig, Fitted, Trial, fit
from weir.study.switches import _programme as programme

RATE, LIMIT = 100_000_000, 75_000
"""The ports' rate, bit/s, and their buffers, bytes."""
_ETHERNET = 14
"""Bytes that the ports count besides an IP packet."""


def _ip(*words: str) -> bool:
    return subprocess.run(["ip", *words], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def interfaces() -> Iterator[list[str]]:
    """Three namespaces with an interface each, behind a bridge in a fourth one."""
    if os.geteuid() != 0:
        pytest.skip("needs root for network namespaces")
    tag = f"wsw{os.getpid()}"
    spaces = [f"{tag}-{name}" for name in ("sw", "h0", "h1", "h2")]
    with contextlib.ExitStack() as stack:
        for space in spaces:
            if not _ip("netns", "add", space):
                pytest.skip("this machine has no network namespaces")
            stack.callback(_ip, "netns", "del", space)
        bridge = spaces[0]
        if not _ip("-n", bridge, "link", "add", "br0", "type", "bridge", "mcast_snooping", "0"):
            pytest.skip("this kernel has no bridges")
        _ip("-n", bridge, "link", "set", "br0", "up")
        for number, space in enumerate(spaces[1:]):
            end = ["peer", "name", f"p{number}", "netns", bridge]
            if not _ip("-n", space, "link", "add", "eth0", "type", "veth", *end):
                pytest.skip("this kernel has no veth devices")
            for where, device in ((space, "eth0"), (bridge, f"p{number}")):
                quiet = ["ip", "netns", "exec", where, "sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1"]
                subprocess.run(quiet, check=False, capture_output=True)
                _ip("-n", where, "link", "set", device, "up")
            _ip("-n", bridge, "link", "set", f"p{number}", "master", "br0")
            shaper = ["tbf", "rate", f"{RATE}bit", "burst", "1600", "limit", str(LIMIT)]
            done = subprocess.run(
                ["tc", "-n", bridge, "qdisc", "add", "dev", f"p{number}", "root", *shaper], check=False
            )
            if done.returncode:
                pytest.skip("this kernel has no token bucket filter")
        yield [f"{space}/eth0" for space in spaces[1:]]


@pytest.fixture(scope="module")
def rig(interfaces: list[str]) -> BetweenRig:
    """The bridge with testers."""
    return BetweenRig(interfaces, RATE, _ETHERNET)


@pytest.fixture(scope="module")
def found(rig: BetweenRig) -> Fitted:
    """The bridge, characterised once."""
    return fit(rig)


def test_every_packet_of_a_slow_stream_comes_out_with_its_number(rig: BetweenRig) -> None:
    trial = programme.pair(rig, 0.2, 0.2, 500_000_000, 500_000_000)
    seen = rig.observe(Trial(trial.streams, trial.end_ns))
    for sent, received in zip(seen.sent, seen.received, strict=True):
        assert len(sent) > 200
        assert (received >= 0).mean() > 0.99
        came = received >= 0
        assert (received[came] >= sent[came]).mean() > 0.99


def test_a_bridge_is_first_in_first_out_with_the_buffers_of_its_ports(found: Fitted) -> None:
    assert (found.kind, found.law.kind) == ("proportional", "fifo")
    if not found.memory.bound:
        pytest.skip("this machine is too busy to fill a port")
    assert found.memory.largest == pytest.approx(LIMIT, rel=0.1)
    assert found.memory.kind == "partitioned"


def test_no_sender_is_faster_than_its_port(rig: BetweenRig, found: Fitted) -> None:
    """How much slower one is depends on the load of this machine; it says so."""
    assert found.packets > 1000
    assert max(one.achieved_bps for one in rig.accuracy) < 1.01 * RATE
    assert rig.summary.streams == len(rig.accuracy) > 10
    assert 0 < rig.summary.achieved < 1.01
    assert rig.summary.late_median_ns <= rig.summary.late_p99_ns


def test_interfaces_that_are_none_are_refused(interfaces: list[str]) -> None:
    with pytest.raises(UnavailableError, match="three or more"):
        BetweenRig(interfaces[:2], RATE)
    with pytest.raises(UnavailableError, match="no interface 'nosuch0'"):
        BetweenRig(["nosuch0", *interfaces[:2]], RATE)
    with pytest.raises(UnavailableError, match="give --rate"):
        BetweenRig(interfaces)
    bridge = interfaces[0].split("-")[0] + "-sw"
    with pytest.raises(UnavailableError, match="is a port of the bridge br0 itself"):
        BetweenRig([f"{bridge}/p0", *interfaces[:2]], RATE)


def test_the_command_says_how_exact_the_senders_were(
    interfaces: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = switches.characterise

    def short(rig: BetweenRig, name: str, **options: Any) -> switches.Characterised:
        """One trial of the real rig; the rest takes a model, because a whole characterisation takes a minute."""
        rig.observe(programme.pair(rig, 0.3, 0.3, 200_000_000, 100_000_000))
        return whole(switches.ModelRig("{memory: 60kB}"), name, **options)

    monkeypatch.setattr(switches, "characterise", short)
    asked = ["characterise", "--between", ",".join(interfaces), "--rate", "100Mbps", "--overhead", "14B"]
    words = [*asked, "-o", str(tmp_path), "--points", "2", "-q", "--no-tcp", "--json"]
    result = CliRunner().invoke(command, words, catch_exceptions=False)
    assert result.exit_code == 0
    said = json.loads(result.stdout)
    assert said["accuracy"]["streams"] == 2
    # Slow streams make up for what a busy machine delays.
    assert said["accuracy"]["achieved"] == pytest.approx(1.0, abs=0.1)
    assert said["name"].startswith("between-")
    assert (tmp_path / "switch.yaml").exists()
