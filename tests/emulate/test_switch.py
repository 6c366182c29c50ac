"""``weir emulate --switch``: a switch between interfaces of three namespaces, with real traffic."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulate_support import TIMEOUT_S, until

from weir.emulate import Direction, OptionError, Pair, Port, SwitchReport, switch_plan
from weir.hosts.namespaces import within
from weir.study.switches import BetweenRig, Fitted, ModelRig, Stream, Trial, fit

root = pytest.mark.root
RATE = 20_000_000
"""Of the ports, bit/s: 1600 packets a second, which a busy machine carries, too."""
_WEIR = [sys.executable, "-m", "weir.cli", "emulate"]
_ALL = b"\xff" * 6
_TYPE = 0x88B5


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@dataclass
class Bed:
    """Three namespaces with an interface each; their other ends are the ports."""

    hosts: list[str]
    ports: list[str]

    def socket(self, host: int) -> socket.socket:
        """A socket for the test's frames at a host."""
        space, _, name = self.hosts[host].partition("/")
        made = within(
            f"/run/netns/{space}", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_TYPE))
        )
        made.bind((name, _TYPE))
        made.settimeout(0.2)
        return made

    def mac(self, host: int) -> bytes:
        """The address of a host."""
        space, _, name = self.hosts[host].partition("/")
        done = subprocess.run(["ip", "-n", space, "-j", "link", "show", name], capture_output=True, check=True)
        return bytes.fromhex(json.loads(done.stdout)[0]["address"].replace(":", ""))


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    """The namespaces."""
    tag = f"wes{os.getpid()}"
    spaces = [f"{tag}-{name}" for name in ("sw", "h0", "h1", "h2")]
    with contextlib.ExitStack() as stack:
        for space in spaces:
            _ip("netns", "add", space)
            stack.callback(_ip, "netns", "del", space)
        for number, space in enumerate(spaces[1:]):
            _ip("-n", space, "link", "add", "eth0", "type", "veth", "peer", "name", f"p{number}", "netns", spaces[0])
            for where, device in ((space, "eth0"), (spaces[0], f"p{number}")):
                quiet = ["sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1"]
                subprocess.run(["ip", "netns", "exec", where, *quiet], check=False, capture_output=True)
                _ip("-n", where, "link", "set", device, "up")
        yield Bed([f"{space}/eth0" for space in spaces[1:]], [f"{spaces[0]}/p{number}" for number in range(3)])


def _passes(bed: Bed) -> bool:
    """Whether a broadcast from host 0 reaches the others."""
    with bed.socket(0) as sender, bed.socket(1) as one, bed.socket(2) as two:
        sender.send(_ALL + bed.mac(0) + _TYPE.to_bytes(2, "big") + b"hello".ljust(60, b"\0"))
        with contextlib.suppress(TimeoutError):
            return bool(one.recv(100) and two.recv(100))
    return False


@contextlib.contextmanager
def switched(bed: Bed, file: Path, switch: str, rate: int = RATE) -> Iterator[dict[str, Any]]:
    """A switch between the ports; afterwards, the dictionary has what it wrote to ``file``."""
    words = ["--switch", switch, "--between", ",".join(bed.ports), "--rate", f"{rate}bps", "--stats", str(file)]
    process = subprocess.Popen([*_WEIR, *words], stderr=subprocess.PIPE, text=True)
    stats: dict[str, Any] = {}
    try:
        assert until(lambda: process.poll() is not None or _passes(bed), 60), "no frame passes"
        assert process.poll() is None, process.communicate()[1]
        yield stats
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
        stats |= json.loads(file.read_text()) | {"said": said}
    finally:
        process.kill()
        process.wait()


def _streams(rates: Sequence[float], end_ns: int) -> tuple[Stream, ...]:
    """Two inputs with these rates to one output."""
    return tuple(
        Stream(input=number, output=0, ip_bytes=1500, wire_bps=rate, start_ns=0, stop_ns=end_ns)
        for number, rate in enumerate(rates)
    )


def _described(folder: Path, arbiter: str, jitter: str = "0ms") -> str:
    """The file of a switch."""
    file = folder / "switch.yaml"
    file.write_text(
        f"memory: {{partitioned: {{size: 60kB}}}}\narbiter: {arbiter}\njitter: {jitter}\n", encoding="utf-8"
    )
    return str(file)


@root
@pytest.mark.parametrize("arbiter", ["round_robin", "fifo"])
def test_two_inputs_share_a_port_as_in_the_simulator(bed: Bed, tmp_path: Path, arbiter: str) -> None:
    """Senders of 1000 and 800 contend for 1000; on a busy machine, they have less than they ask for."""
    rig, span = BetweenRig(bed.hosts, RATE, 38), 2_000_000_000
    # Exact clocks would lock the phases of a FIFO, here as in the simulator.
    described = _described(tmp_path, arbiter, "10ms")
    with switched(bed, tmp_path / "stats.json", described) as stats:
        seen = rig.observe(Trial(_streams((RATE, 0.8 * RATE), span), span))
        # On a busy machine the emulator may be late, and what waits in the switch is in no count.
        time.sleep(1)
    came = np.array([(received >= 0).sum() for received in seen.received], float)
    sent = np.array([len(times) for times in seen.sent], float)
    rates = [one.achieved_bps for one in rig.accuracy]
    model = ModelRig(f"{{file: {json.dumps(described)}}}", rate_bps=RATE)
    expected = model.counts(_streams(rates, span), span, span).sum(axis=1).astype(float)
    assert came / came.sum() == pytest.approx(expected / expected.sum(), abs=0.02)
    inputs, output = bed.ports[:2], bed.ports[2]
    pairs = {(pair["input"], pair["output"]): pair for pair in stats["pairs"]}
    for number, name in enumerate(inputs):
        pair = pairs[name, output]
        assert pair["in_packets"] == pair["out_packets"] + pair["drop_packets"] >= sent[number]
        assert pair["out_packets"] >= came[number]
        if min(rates) > 0.7 * RATE:
            assert pair["drop_packets"] > 0.05 * pair["in_packets"]
    ports = {port["interface"]: port for port in stats["ports"]}
    assert ports[output]["sent"]["packets"] == sum(pairs[name, output]["out_packets"] for name in inputs)
    assert f"{inputs[0]} to {output}" in stats["said"]


@root
def test_characterise_finds_the_class_of_an_emulated_switch(bed: Bed, tmp_path: Path) -> None:
    rate = 50_000_000
    with switched(bed, tmp_path / "stats.json", _described(tmp_path, "round_robin"), rate) as stats:
        found: Fitted = fit(BetweenRig(bed.hosts, rate, 38))
    assert (found.kind, found.law.kind) == ("fair", "round_robin")
    if found.memory.bound:
        assert found.memory.largest == pytest.approx(60_000, rel=0.1)
    assert stats["stats"]["flooded_packets"] >= 1


@root
def test_a_known_station_gets_its_frames_alone_and_reserved_ones_go_nowhere(bed: Bed, tmp_path: Path) -> None:
    with (
        switched(bed, tmp_path / "stats.json", "fair") as stats,
        bed.socket(0) as a,
        bed.socket(1) as b,
        bed.socket(2) as c,
    ):
        b.send(_ALL + bed.mac(1) + _TYPE.to_bytes(2, "big") + b"here I am".ljust(60, b"\0"))
        assert b"here I am" in a.recv(100)
        assert b"here I am" in c.recv(100)
        a.send(b"\x01\x80\xc2\0\0\x01" + bed.mac(0) + _TYPE.to_bytes(2, "big") + b"pause".ljust(60, b"\0"))
        a.send(bed.mac(1) + bed.mac(0) + _TYPE.to_bytes(2, "big") + b"for you".ljust(60, b"\0"))
        b.settimeout(TIMEOUT_S)
        assert b"for you" in b.recv(100)
        with pytest.raises(TimeoutError):
            c.recv(100)
    assert stats["stats"]["unrouted_packets"] == 1


@root
def test_it_ends_after_its_time(bed: Bed, tmp_path: Path) -> None:
    file = tmp_path / "stats.json"
    words = ["--switch", "fair", f"--between={','.join(bed.ports)}", "--rate", "10Mbps", "--duration", "300ms"]
    done = subprocess.run([*_WEIR, *words, "--stats", str(file), "-q"], timeout=60, check=False)
    assert done.returncode == 0
    assert json.loads(file.read_text())["seconds"] >= 0.3


@root
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--switch", "no-such"], "--switch: "),
        (["--switch", "fair", "--rate", "fast"], "--rate: "),
        (["--switch", "fair", "--delay", "1ms"], "--delay does not go with --switch"),
        (["--switch", "fair", "--duration", "soon"], "--duration: "),
        (["--switch", "fair", "--rate", ""], "virtual interfaces have no rate of their own"),
        (["--switch", "./no-such.yaml"], "there is no file"),
        ([], "a link has two ends"),
    ],
)
def test_wrong_options_are_told(bed: Bed, words: list[str], said: str) -> None:
    if "--rate" not in words and words:
        words = [*words, "--rate", "10Mbps"]
    words = [word for at, word in enumerate(words) if word and words[at : at + 2] != ["--rate", ""]]
    done = subprocess.run(
        [*_WEIR, *words, "--between", ",".join(bed.ports)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2, done.stderr
    assert said in done.stderr


def test_a_plan_has_a_route_between_any_two_ports() -> None:
    plan = switch_plan("fair", 4, rate="100Mbps", queue="10packets")
    assert {(flow["from"], flow["to"]) for flow in plan["flows"]} == {
        (1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4),
    }  # fmt: skip
    for flow in plan["flows"]:
        (up, down), nodes = flow["path"], plan["links"]
        assert (nodes[up]["from"], nodes[down]["to"]) == (flow["from"], flow["to"])
        assert nodes[up]["queue"]["limit"]["packets"] == 10
    with pytest.raises(OptionError, match="2 to 64 interfaces"):
        switch_plan("fair", 1, rate="100Mbps")


def test_the_report_tells_a_queue_only_where_packets_wait() -> None:
    """Packets for an output wait in the memory of the switch; before an input they wait in a queue with a time."""
    port = Port("eth1", Direction(queue_mean_ns=1e6, queue_max_ns=3_000_000), Direction(packets=9))
    pair = Pair("eth1", "eth2", starved_max_ns=2_460_000, queue_max_bytes=76_500)
    into, out, between, _ = SwitchReport(1.0, [port], [pair], {}).lines()
    assert into.startswith("eth1 in")
    assert "queue 1.00 ms, at most 3.00 ms" in into
    assert out.startswith("eth1 out")
    assert "9 packets" in out
    assert "queue" not in out
    assert "at most 2.46 ms without service; at most 76500 B in the memory" in between
    assert "waited" not in between
