"""How exact and how fast the emulator is here, beside a plain veth pair: ``sudo .venv/bin/python benches/emulator.py``.

Three cases. *Exact*: 1 Gb/s, 50 ms, packets of 1500 bytes without offloads; the rate of a saturated bottleneck and the
one-way delay of paced packets, by the kernel's receive timestamps. *Trains*: one TCP flow through 10 Gb/s and a delay
line of 100 ms, with segmentation offload. *Flows*: the same with 200 flows and 1 Gb/s. Each also runs over a veth pair,
which is what this machine does without any emulation.

Needs root (two network namespaces, removed at the end). Runs take turns and medians count; on a busy machine only the
ratios mean something. Everything is printed, and stored in ``benches/results/emulator.json``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import select
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from weir.emulate import LinkOptions, Report, plan
from weir.emulate._emulator import Emulator
from weir.emulate._hosts import wiring
from weir.methods import _owner
from weir.methods.emul._namespaces import within
from weir.methods.emul._network import Network, environment
from weir.methods.emul._wiring import Host, Wiring

HERE = Path(__file__).parent
PORT = 6001
PAYLOAD = 1472
WIRE = 1538
RATE_BPS = 10**9
DELAY_NS = 50_000_000
SO_TIMESTAMPNS = 35
UDP_SEGMENT = 103
SEGMENTS = 40
WINDOW = 4000
"""Packets that a rate is measured over: 49 ms at 1 Gb/s."""
BUFFER = 400 << 20
CHUNK = 1 << 20
Figures = dict[str, float]


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="runs of each case (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a measurement (default %(default)s)")
    parser.add_argument("--role", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role:
        name, *values = arguments.role
        print(json.dumps(ROLES[name](*values)))
        return
    if os.geteuid() != 0:
        sys.exit("benches/emulator.py: needs root: it makes two network namespaces")
    report = {name: _repeat(case, arguments.repeats, arguments.seconds) for name, case in CASES.items()}
    target = HERE / "results" / "emulator.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(report, indent=2) + "\n")


def _repeat(case: Callable[[float], Figures], repeats: int, seconds: float) -> Figures:
    """The medians of a case, printed."""
    runs = [case(seconds) for _ in range(repeats)]
    figures = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    print(f"{case.__name__}: {(case.__doc__ or '').splitlines()[0]}")
    for key, value in figures.items():
        print(f"  {key:<28}{value:>14.3f}")
    return figures


# The cases.


def exact(seconds: float) -> Figures:
    """1 Gb/s, 50 ms, packets of 1500 bytes, no offloads."""
    up = LinkOptions(rate=f"{RATE_BPS}bps", delay=f"{DELAY_NS}ns", queue="1bdp")
    with _emulated(up, LinkOptions(), "--no-offloads") as net:
        blast = net.run(("blast", net.peer, str(seconds)), ("stamps", net.peer))
        paced = net.run(("pace", net.peer, str(seconds)), ("stamps", net.peer))
    with _plain() as veth:
        base = veth.run(("pace", veth.peer, str(seconds)), ("stamps", veth.peer))
    expected = RATE_BPS * PAYLOAD / WIRE
    ideal = DELAY_NS + 8e9 * WIRE / RATE_BPS
    return {
        "rate_error_percent": 100 * abs(blast["rate_bps"] / expected - 1),
        **{f"delay_error_{q}_us": (paced[f"delay_{q}_ns"] - ideal) / 1e3 for q in ("p1", "p50", "p99")},
        **{f"veth_delay_{q}_us": base[f"delay_{q}_ns"] / 1e3 for q in ("p50", "p99")},
        **_own(net.report),
    }


def trains(seconds: float) -> Figures:
    """One TCP flow, 10 Gb/s, a delay line of 100 ms, segmentation offload."""
    return _bulk(1, "10Gbps", seconds)


def flows(seconds: float) -> Figures:
    """200 TCP flows, 1 Gb/s, a delay line of 100 ms, segmentation offload: small windows make short trains."""
    return _bulk(200, "1Gbps", seconds)


def _bulk(count: int, rate: str, seconds: float) -> Figures:
    up, down = LinkOptions(rate=rate, delay="100ms", queue="1bdp"), LinkOptions(rate=rate)
    # The window opens for some seconds before it fills the path.
    warm = 3.0
    with _emulated(up, down, connections=count) as net:
        emulated = net.run(
            ("send", net.peer, str(count), str(warm + seconds)), ("sink", net.peer, str(warm), str(seconds))
        )
    with _plain(count) as veth:
        plain = veth.run(("send", veth.peer, str(count), str(1.0 + seconds)), ("sink", veth.peer, "1.0", str(seconds)))
    return {
        "goodput_gbps": emulated["goodput_bps"] / 1e9,
        "best_100ms_gbps": emulated["best_bps"] / 1e9,
        "veth_goodput_gbps": plain["goodput_bps"] / 1e9,
        "of_veth": emulated["goodput_bps"] / plain["goodput_bps"],
        **_own(net.report),
    }


CASES = {"exact": exact, "trains": trains, "flows": flows}


def _own(report: Report | None) -> Figures:
    """What the emulator says of itself."""
    assert report is not None
    names = {"lateness_p50_ns": 1e3, "lateness_p99_ns": 1e3, "lateness_max_ns": 1e3}
    late = {f"own_{name.replace('_ns', '_us')}": report.stats[name] / scale for name, scale in names.items()}
    busy = report.stats["busy_share"]
    gbits = 8e-9 * (report.up.bytes + report.down.bytes) / report.seconds
    return {**late, "busy_share": busy, "gbps_per_busy_cpu": gbits / max(busy, 1e-9)}


# The networks.


class Net:
    """Two hosts, and programs that measure between them."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self.hosts = hosts
        self.report: Report | None = None

    @property
    def peer(self) -> str:
        """Address of the second host."""
        return self.hosts[1].address

    def run(self, sender: Sequence[str], receiver: Sequence[str]) -> Figures:
        """What ``receiver`` at the second host measured of what ``sender`` at the first one sent."""
        listening = self._start(1, receiver)
        assert listening.stdout is not None
        listening.stdout.readline()
        sending = self._start(0, sender)
        sending.communicate(timeout=120)
        out, _ = listening.communicate(timeout=120)
        figures: Figures = json.loads(out)
        return figures

    def _start(self, host: int, role: Sequence[str]) -> subprocess.Popen[str]:
        words = [sys.executable, str(Path(__file__).absolute()), "--role", *role]
        return within(self.hosts[host].path, lambda: subprocess.Popen(words, stdout=subprocess.PIPE, text=True))


@contextlib.contextmanager
def _emulated(up: LinkOptions, down: LinkOptions, *options: str, connections: int = 1) -> Iterator[Net]:
    tag = _owner.new()
    made = wiring(tag, 1500)
    with Network(
        Wiring(made.hosts, (*made.up, *_buffers(made.hosts, connections)), made.down, made.first_port, ()), tag
    ):
        jobs = [host.to_job() for host in made.hosts]
        with Emulator(plan(up, down), jobs, made.first_port, options, environment(tag)) as emulator:
            net, reports = Net(made.hosts), queue.SimpleQueue[Report]()
            reader = threading.Thread(target=lambda: reports.put(emulator.measure()))
            reader.start()
            yield net
            emulator.stop()
            net.report = reports.get(timeout=10)
            reader.join()


@contextlib.contextmanager
def _plain(connections: int = 1) -> Iterator[Net]:
    """A veth pair between the same namespaces."""
    tag = _owner.new()
    hosts = tuple(
        Host(node, name, f"weir-{tag}-{name}", f"10.0.0.{node + 1}", "eth0", 1500)
        for node, name in enumerate(("here", "peer"))
    )
    a, b = (host.namespace for host in hosts)
    up = (
        ("ip", "netns", "add", a),
        ("ip", "netns", "add", b),
        ("ip", "-n", a, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", b),
        *(("ip", "-n", host.namespace, "address", "add", f"{host.address}/24", "dev", "eth0") for host in hosts),
        *(("ip", "-n", host.namespace, "link", "set", "eth0", "up") for host in hosts),
        *_buffers(hosts, connections),
    )
    down = tuple(("ip", "netns", "del", host.namespace) for host in hosts)
    with Network(Wiring(hosts, up, down, PORT, ()), tag):
        yield Net(hosts)


def _buffers(hosts: Sequence[Host], connections: int) -> Iterator[tuple[str, ...]]:
    """Buffers for the longest path; Reno, whose slow start ends with a loss only, fills it first."""
    size = max(BUFFER // connections, 8 << 20)
    values = [f"net.ipv4.tcp_{name}=4096 {size} {2 * size}" for name in ("rmem", "wmem")]
    for host in hosts:
        enter = ("nsenter", f"--net={host.path}", "sysctl", "-q", "-w")
        yield (*enter, *values, "net.ipv4.tcp_congestion_control=reno")


# What runs within a namespace.


def blast(peer: str, seconds: str) -> Figures:
    """Sends datagrams as fast as it can, cut by the kernel."""
    out = _connected(peer)
    out.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, PAYLOAD)
    content, end = bytes(PAYLOAD * SEGMENTS), time.monotonic() + float(seconds)
    while time.monotonic() < end:
        with contextlib.suppress(BlockingIOError, OSError):
            out.send(content)
    return {}


def pace(peer: str, seconds: str) -> Figures:
    """Sends a datagram every 200 us, with the instant in it."""
    out, end = _connected(peer), time.monotonic() + float(seconds)
    due, content = time.monotonic_ns(), bytes(PAYLOAD - 8)
    while time.monotonic() < end:
        due += 200_000
        time.sleep(max(0.0, (due - time.monotonic_ns()) / 1e9 - 50e-6))
        while time.monotonic_ns() < due:
            pass
        out.send(time.time_ns().to_bytes(8, "big") + content)
    return {}


def _connected(peer: str) -> socket.socket:
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    out.connect((peer, PORT))
    return out


def stamps(address: str) -> Figures:
    """Rate and delay of the datagrams that arrive, by the kernel's clock."""
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.setsockopt(socket.SOL_SOCKET, 33, 512 << 20)  # SO_RCVBUFFORCE: the kernel's stamps wait for this program
    found.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    found.bind((address, PORT))
    found.settimeout(10.0)
    print("listening", flush=True)
    at, delays = [], []
    with contextlib.suppress(TimeoutError):
        while True:
            head, control, _, _ = found.recvmsg(8, 64)
            seconds, nanos = struct.unpack("qq", control[0][2])
            at.append(seconds * 10**9 + nanos)
            delays.append(at[-1] - int.from_bytes(head, "big"))
            found.settimeout(1.0)
    delays.sort()
    # While the sender does not get a processor for longer than the queue lasts, the link is idle: the median counts.
    windows = [8e9 * PAYLOAD * WINDOW / (at[i + WINDOW] - at[i]) for i in range(0, len(at) - WINDOW, WINDOW)]
    return {
        "rate_bps": statistics.median(windows),
        **{f"delay_p{q}_ns": float(delays[len(delays) * q // 100]) for q in (1, 50, 99)},
    }


def send(peer: str, count: str, seconds: str) -> Figures:
    """Sends over so many TCP connections as fast as it can."""
    poll, content, by_number = select.epoll(), bytes(CHUNK), {}
    for one in (socket.socket() for _ in range(int(count))):
        one.setblocking(False)
        one.connect_ex((peer, PORT))
        by_number[one.fileno()] = one
        poll.register(one.fileno(), select.EPOLLOUT)
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        for number, _ in poll.poll(0.1):
            with contextlib.suppress(BlockingIOError):
                by_number[number].send(content)
    os._exit(0)  # what is in the buffers is not waited for


def sink(address: str, warm: str, seconds: str) -> Figures:
    """Bytes that arrive over TCP in ``seconds``, from ``warm`` seconds after the first connection on."""
    listener = socket.create_server((address, PORT), backlog=1024)
    print("listening", flush=True)
    poll, by_number = select.epoll(), {listener.fileno(): listener}
    poll.register(listener.fileno(), select.EPOLLIN)
    bins: dict[int, int] = {}
    begin, waste = 0.0, bytearray(CHUNK)
    while not begin or time.monotonic() < begin + float(warm) + float(seconds):
        for number, _ in poll.poll(0.1):
            if number == listener.fileno():
                made, _ = listener.accept()
                begin = begin or time.monotonic()
                by_number[made.fileno()] = made
                poll.register(made.fileno(), select.EPOLLIN)
                continue
            with contextlib.suppress(ConnectionError):
                if size := by_number[number].recv_into(waste, CHUNK, socket.MSG_TRUNC):
                    index = int(10 * (time.monotonic() - begin))
                    bins[index] = bins.get(index, 0) + size
                    continue
            by_number.pop(number).close()
    counted = [bins.get(index, 0) for index in range(int(10 * float(warm)), int(10 * (float(warm) + float(seconds))))]
    return {"goodput_bps": 80 * sum(counted) / len(counted), "best_bps": 80.0 * max(counted)}


ROLES: dict[str, Callable[..., Figures]] = {
    "blast": blast, "pace": pace, "stamps": stamps, "send": send, "sink": sink,
}  # fmt: skip

if __name__ == "__main__":
    main()
