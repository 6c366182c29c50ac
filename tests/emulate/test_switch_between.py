"""Real switches between interfaces: a Linux bridge and Open vSwitch, whose ports have a rate and a buffer."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from weir._errors import UnavailableError
from weir.cli.switch import command
from weir.study import switches
from weir.study.switches import BetweenRig, Fitted, Trial, fit
from weir.study.switches import _programme as programme
from weir.study.switches._tcp import tcp_between

RATE, LIMIT = 100_000_000, 75_000
"""The ports' rate, bit/s, and their buffers, bytes."""
_ETHERNET = 14
"""Bytes that the ports count besides an IP packet."""


def _ip(*words: str) -> bool:
    return subprocess.run(["ip", *words], capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def hosts_of_a_switch(tag: str) -> Iterator[tuple[str, list[str]]]:
    """Three namespaces with an interface each, whose other ends ``p0`` to ``p2`` are in a fourth one: that one, and the
    interfaces.
    """
    if os.geteuid() != 0:
        pytest.skip("needs root for network namespaces")
    spaces = [f"{tag}-{name}" for name in ("sw", "h0", "h1", "h2")]
    with contextlib.ExitStack() as stack:
        for space in spaces:
            if not _ip("netns", "add", space):
                pytest.skip("this machine has no network namespaces")
            stack.callback(_ip, "netns", "del", space)
        for number, space in enumerate(spaces[1:]):
            end = ["peer", "name", f"p{number}", "netns", spaces[0]]
            if not _ip("-n", space, "link", "add", "eth0", "type", "veth", *end):
                pytest.skip("this kernel has no veth devices")
            for where, device in ((space, "eth0"), (spaces[0], f"p{number}")):
                quiet = ["ip", "netns", "exec", where, "sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1"]
                subprocess.run(quiet, check=False, capture_output=True)
                _ip("-n", where, "link", "set", device, "up")
        yield spaces[0], [f"{space}/eth0" for space in spaces[1:]]


def shape(space: str, ports: int) -> None:
    """Gives ports their rate and their buffer. Open vSwitch removes the queueing discipline of a port that is added."""
    for number in range(ports):
        shaper = ["tbf", "rate", f"{RATE}bit", "burst", "1600", "limit", str(LIMIT)]
        add = ["tc", "-n", space, "qdisc", "add", "dev", f"p{number}", "root", *shaper]
        if subprocess.run(add, check=False).returncode:
            pytest.skip("this kernel has no token bucket filter")


@pytest.fixture(scope="module")
def interfaces() -> Iterator[list[str]]:
    """Interfaces of hosts behind a bridge."""
    with hosts_of_a_switch(f"wsw{os.getpid()}") as (space, names):
        if not _ip("-n", space, "link", "add", "br0", "type", "bridge", "mcast_snooping", "0"):
            pytest.skip("this kernel has no bridges")
        _ip("-n", space, "link", "set", "br0", "up")
        for number in range(len(names)):
            _ip("-n", space, "link", "set", f"p{number}", "master", "br0")
        shape(space, len(names))
        yield names


@pytest.fixture(scope="module")
def rig(interfaces: list[str]) -> BetweenRig:
    """The bridge with testers."""
    return BetweenRig(interfaces, RATE, _ETHERNET)


@pytest.fixture(scope="module")
def found(rig: BetweenRig) -> Fitted:
    """The bridge, characterised once."""
    return fit(rig)


def passes_slow_streams(rig: BetweenRig) -> None:
    """Packets of two slow streams come out with their numbers, unless their port is full.

    A busy machine wakes a token bucket late, and its senders make up for lost time: then a port may be full.
    """
    trial = programme.pair(rig, 0.2, 0.2, 500_000_000, 3_000_000_000)
    seen = rig.observe(Trial(trial.streams, trial.end_ns))
    sent, received = np.concatenate(seen.sent), np.concatenate(seen.received)
    came = received >= 0
    assert min(len(times) for times in seen.sent) > 200
    assert came.sum() > 200
    assert (received[came] >= sent[came]).mean() > 0.99
    packet = trial.streams[0].ip_bytes + _ETHERNET
    for at in sent[~came]:
        inside = packet * int(np.sum(came & (sent <= at) & (received > at)))
        assert inside > 0.5 * LIMIT


_KILLED = """
import sys
from weir.study.switches import BetweenRig, _programme as programme
rig = BetweenRig(sys.argv[1:], 100_000_000, 14)
trial = programme.pair(rig, 0.2, 0.2, 500_000_000, 60_000_000_000)
print("begins", flush=True)
rig.observe(trial)
"""


def _testers(driver: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(driver), "-f", "weir-agent tester"], capture_output=True, check=False)
    return [int(word) for word in found.stdout.split()]


def test_a_tester_leaves_when_its_driver_is_killed(interfaces: list[str]) -> None:
    driver = subprocess.Popen([sys.executable, "-c", _KILLED, *interfaces], stdout=subprocess.PIPE)
    assert driver.stdout is not None
    with driver.stdout:
        assert driver.stdout.readline() == b"begins\n"
        deadline = time.monotonic() + 10
        while not (testers := _testers(driver.pid)):
            assert time.monotonic() < deadline, "no tester began"
            time.sleep(0.05)
        driver.kill()
        driver.wait()
    deadline = time.monotonic() + 5
    while any(Path(f"/proc/{tester}").exists() for tester in testers):
        assert time.monotonic() < deadline, "a tester is left"
        time.sleep(0.05)


def test_a_packet_of_a_slow_stream_comes_out_with_its_number(rig: BetweenRig) -> None:
    passes_slow_streams(rig)


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
    with pytest.raises(
        UnavailableError, match=r"no rate of their own.*: \S+h0/eth0, \S+h1/eth0, \S+h2/eth0; give --rate"
    ):
        BetweenRig(interfaces)
    bridge = interfaces[0].split("-")[0] + "-sw"
    with pytest.raises(UnavailableError, match="is a port of the bridge br0 itself"):
        BetweenRig([f"{bridge}/p0", *interfaces[:2]], RATE)


def test_the_command_says_how_exact_the_senders_were(
    interfaces: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, rigs = switches.characterise, list[BetweenRig]()

    def short(rig: BetweenRig, name: str, **options: Any) -> switches.Characterised:
        """One trial of the real rig; the rest takes a model, because a whole characterisation takes a minute."""
        rig.observe(programme.pair(rig, 0.3, 0.3, 200_000_000, 100_000_000))
        rigs.append(rig)
        return replace(whole(switches.ModelRig("{memory: 60kB}"), name, **options), senders=rig.summary)

    monkeypatch.setattr(switches, "characterise", short)
    asked = ["characterise", "--between", ",".join(interfaces), "--rate", "100Mbps", "--overhead", "14B"]
    words = [*asked, "-o", str(tmp_path), "--points", "2", "-q", "--no-tcp", "--json"]
    result = CliRunner().invoke(command, words, catch_exceptions=False)
    assert result.exit_code == 0
    said = json.loads(result.stdout)
    assert said["accuracy"]["streams"] == 2
    # A busy machine may achieve much less than was asked: what it achieved is what is said.
    assert said["accuracy"]["achieved"] == pytest.approx(rigs[0].summary.achieved)
    assert 0 < said["accuracy"]["achieved"] < 1.1
    assert said["name"].startswith("between-")
    assert (tmp_path / "switch.yaml").exists()


def test_tcp_of_this_kernel_passes_the_switch(rig: BetweenRig) -> None:
    """From hosts behind the first two interfaces to one behind the last, with and without SACK."""
    short = {"workload.first.until": "700ms", "workload.second.until": "700ms"}
    told = list[str]()
    flows = tcp_between(rig, told.append, {**short, "sweep.transport.cc": "['linux:reno']"})
    assert [(flow.control, flow.sack) for flow in flows] == [("reno", True), ("reno", False)]
    assert told == ["two flows of reno with SACK", "two flows of reno without SACK"]
    for flow in flows:
        assert min(flow.goodput_mbps) > 0.5
        assert sum(flow.goodput_mbps) < 1.4 * RATE / 1e6  # the second one counts a shorter time
    assert not list(Path("/run/netns").glob(f"weir-{os.getpid():x}-*"))


# Open vSwitch --------------------------------------------------------------------------------------------------------

_OVS = ("ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl")
_FIRST = ("chrt", "-f", "20")
"""Gives the switch its processor at once, as an idle machine does, whatever else this one executes."""
_WITH_THE_TESTS = ("setpriv", "--pdeathsig", "TERM")
"""Ends a process with the one that started it, also if that is killed."""


@pytest.fixture
def vswitch(tmp_path: Path) -> Iterator[list[str]]:
    """Interfaces of hosts behind Open vSwitch, which forwards in its own process, without a module of the kernel."""
    missing = [name for name in _OVS if shutil.which(name) is None]
    if missing:
        pytest.skip(f"Open vSwitch is not installed: {', '.join(missing)} (Debian: openvswitch-switch)")
    with contextlib.ExitStack() as stack:
        space, names = stack.enter_context(hosts_of_a_switch(f"wov{os.getpid()}"))
        database, remote = tmp_path / "conf.db", f"unix:{tmp_path}/db.sock"
        variables = {name: str(tmp_path) for name in ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR")}
        inside = ["ip", "netns", "exec", space, "env", *(f"{name}={value}" for name, value in variables.items())]
        subprocess.run([*inside, "ovsdb-tool", "create", str(database)], check=True, capture_output=True)
        for words in (["ovsdb-server", str(database), f"--remote=p{remote}"], ["ovs-vswitchd", remote]):
            with (tmp_path / f"{words[0]}.said").open("wb") as said:
                process = subprocess.Popen([*_WITH_THE_TESTS, *inside, *_FIRST, *words], stdout=said, stderr=said)
            stack.callback(_end, process)
        ports = [word for number in range(len(names)) for word in ("--", "add-port", "br0", f"p{number}")]
        vsctl = [*inside, "ovs-vsctl", f"--db={remote}", "--timeout=30", "--retry"]
        bridge = ["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev"]
        done = subprocess.run([*vsctl, *bridge, *ports], capture_output=True, text=True, check=False)
        if done.returncode:
            why = (tmp_path / "ovs-vswitchd.said").read_text()[-2000:]
            pytest.skip(f"Open vSwitch does not start here: {done.stderr.strip()} {why}")
        shape(space, len(names))
        yield names


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def test_a_port_of_open_vswitch_passes_slow_streams_and_is_no_faster_than_its_rate(vswitch: list[str]) -> None:
    """Two trials: a whole characterisation takes minutes where the switch's process competes for processors."""
    rig = BetweenRig(vswitch, RATE, _ETHERNET)
    passes_slow_streams(rig)
    fast = programme.pair(rig, 1.0, 1.0, 300_000_000, 100_000_000)
    seen = rig.observe(Trial(fast.streams, fast.end_ns))
    sent, received = np.concatenate(seen.sent), np.concatenate(seen.received)
    times = np.sort(received[received >= 0])
    packet = fast.streams[0].ip_bytes + _ETHERNET
    assert len(times) > 100
    # A token bucket that wakes late sends one packet more at most, so no time of 50 ms has more than the rate carries.
    within = np.searchsorted(times, times + 50_000_000) - np.arange(len(times))
    assert within.max() * packet * 8 <= 1.1 * RATE * 0.05
    offered = len(sent) * packet * 8e9 / (sent.max() - sent.min())
    assert offered < 1.05 * RATE or (received < 0).any()


def test_open_vswitch_forwards_in_the_order_of_arrival_or_weir_says_why_it_is_not_certain(vswitch: list[str]) -> None:
    """It once passed for bursty, because its process takes the packets of a port together when it was late."""
    found = fit(BetweenRig(vswitch, RATE, _ETHERNET))
    assert (found.kind == "proportional") or "overtook" in found.law.doubt
    assert found.forwarding == "store_and_forward"
    if found.memory.bound:
        assert found.memory.largest == pytest.approx(LIMIT, rel=0.15)


def test_tcp_passes_open_vswitch_with_checksums_and_interfaces_leave_them_out_again_afterwards(
    vswitch: list[str],
) -> None:
    """Its process passes packets as they are, so that a receiver would refuse those without a checksum."""
    rig = BetweenRig(vswitch, RATE, _ETHERNET)
    short = {"workload.first.until": "700ms", "workload.second.until": "700ms", "sweep.transport.sack": "[true]"}
    (flows,) = tcp_between(rig, lambda _: None, {**short, "sweep.transport.cc": "['linux:reno']"})
    assert sum(flows.goodput_mbps) > 0.5
    for interface in rig.interfaces:
        features = ["nsenter", f"--net={interface.path}", "ethtool", "-k", interface.name]
        assert "tx-checksumming: on" in subprocess.run(features, capture_output=True, text=True, check=True).stdout
