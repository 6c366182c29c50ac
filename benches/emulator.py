"""Measures the emulator's accuracy and speed, beside a plain veth pair and beside rattan:

    sudo .venv/bin/python benches/emulator.py            five minutes
    sudo .venv/bin/python benches/emulator.py --quick    one minute

- *delay*: packets of 1500 bytes every 200 us over 1 Gb/s and 50 ms without offloads; their one-way delay by the
  kernel's receive timestamps, minus the link's configured delay. Over the veth pair, the remainder is the hosts' own
  delay, including the measurement.
- *rate*: the same link, overloaded; the error of its rate.
- *bulk*: one TCP flow, 10 Gb/s and 100 ms; *plain packets* are without segmentation offload. The emulator does not
  store payload of zeros, which weir's agents send; it must store *random bytes*.
- *flows*: 200 TCP flows, 1 Gb/s and 100 ms.

*weir wrr* is weir's link with a scheduler of two classes instead of one queue.

The subjects take turns, and medians count; on a busy machine only comparisons are meaningful. rattan is built from its
crate once (benches/rattan.py); if it does not build or run, the table says why. Needs root: it makes network
namespaces, and removes them. Results are printed and stored in ``benches/results/emulator.json``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import queue
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rattan
from ends import PAYLOAD, PORT

from weir import _owner
from weir.emulate import LinkOptions, Report, plan
from weir.emulate._emulator import Emulator
from weir.emulate._hosts import wiring
from weir.hosts.namespaces import within
from weir.hosts.network import Network, environment
from weir.hosts.wiring import Host, Wiring

HERE = Path(__file__).parent.absolute()
WIRE = 1538
GIGABIT = 10**9
BUFFER = 400 << 20
WARM_S = 3.0
"""Time for the window to grow before it fills a path of 100 ms."""
TARGETS = {"rate_error_percent": 0.5, "delay_error_p50_us": 20.0, "delay_error_p99_us": 200.0}
"""Upper limits for the emulator."""
Figures = dict[str, float]


@dataclass(frozen=True)
class Road:
    """The path between the two hosts."""

    rate_bps: int
    delay_ms: int
    offloads: bool = True
    connections: int = 1
    payload: str = "zeros"

    @property
    def queue_bytes(self) -> int:
        """Queue size: one bandwidth-delay product."""
        return self.rate_bps * self.delay_ms // 8000

    @property
    def window_bytes(self) -> int:
        """The window of each connection. A single connection fills the path and half of the queue and loses nothing: so
        the emulator decides its speed, not TCP's recovery from slow start.
        """
        return self.queue_bytes * 3 // 2 if self.connections == 1 else BUFFER


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each case (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a measurement (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="one run of each, of 1.5 s; rattan if it is built")
    parser.add_argument("--build-seconds", type=float, default=1800.0, help="to build rattan in, if it is not (0: not)")
    arguments = parser.parse_args()
    if unknown := set(arguments.cases) - set(CASES):
        parser.error(f"no case {unknown.pop()!r}; there are {', '.join(CASES)}")
    if os.geteuid() != 0:
        sys.exit("benches/emulator.py: needs root: it makes network namespaces")
    if arguments.quick:
        arguments.repeats, arguments.seconds, arguments.build_seconds = 1, 1.5, 0.0
    report = _run(arguments.cases or list(CASES), arguments.repeats, arguments.seconds, arguments.build_seconds)
    target = HERE / "results" / "emulator.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(report, indent=2) + "\n")


def _run(cases: Sequence[str], repeats: int, seconds: float, build_s: float) -> dict[str, Any]:
    """All figures; prints each case when it is done."""
    report: dict[str, Any] = {"host": _host(), "repeats": repeats, "seconds": seconds}
    subjects: dict[str, Subject] = {"veth": _plain, "weir": _emulated, "weir wrr": _scheduled}
    try:
        program = rattan.find(build_s)
        subjects["rattan"] = lambda path: _rattan(program, path)
    except rattan.MissingError as error:
        report["without_rattan"] = str(error)
        print(f"without rattan: {error}", flush=True)
    for name in cases:
        report[name] = _compare(name, subjects, repeats, seconds)
    report["load_after"] = os.getloadavg()[0]
    return report


def _host() -> dict[str, Any]:
    return {"kernel": platform.release(), "processors": os.cpu_count(), "load_before": os.getloadavg()[0]}


def _compare(name: str, subjects: dict[str, Subject], repeats: int, seconds: float) -> dict[str, Figures]:
    """Prints and returns the medians of a case for each subject. The order alternates between repeats."""
    measure, variants = CASES[name]
    order = [(subject, variant) for variant in variants for subject in subjects]
    runs: dict[str, list[Figures]] = {f"{subject}{variant}": [] for subject, variant in order}
    for repeat in range(repeats):
        for subject, variant in (*order[repeat % len(order) :], *order[: repeat % len(order)]):
            figures = _measured(subjects[subject], measure, variants[variant], seconds)
            if figures is not None:
                runs[f"{subject}{variant}"].append(figures)
    medians = {who: _medians(found) for who, found in runs.items() if found}
    _print(f"{name}: {(measure.__doc__ or '').splitlines()[0]}", medians)
    return medians


def _measured(subject: Subject, measure: Measure, path: Road, seconds: float) -> Figures | None:
    """The measurement; ``None`` if it does not apply to the subject."""
    try:
        with subject(path) as net:
            figures = measure(net, path, seconds)
        return figures and figures | net.own
    except rattan.MissingError as error:
        print(f"rattan: {error}", flush=True)
        return None


def _medians(runs: Sequence[Figures]) -> Figures:
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def _print(title: str, medians: dict[str, Figures]) -> None:
    """Prints a table: one row per figure, one column per subject."""
    print(f"\n{title}\n{'':<24}" + "".join(f"{who:>22}" for who in medians))
    for key in dict.fromkeys(key for figures in medians.values() for key in figures):
        cells = (f"{figures[key]:.3f}" if key in figures else "" for figures in medians.values())
        line = f"{key:<24}" + "".join(f"{cell:>22}" for cell in cells)
        if key in TARGETS and "weir" in medians:
            met = medians["weir"][key] <= TARGETS[key]
            line += f"   (weir: at most {TARGETS[key]:g}: {'met' if met else 'NOT MET'})"
        print(line, flush=True)


# The cases.


def delay(net: Net, path: Road, seconds: float) -> Figures:
    """One-way delay of paced packets of 1500 bytes, 1 Gb/s, 50 ms, no offloads; minus the link's configured delay."""
    found = net.run(("pace", net.peer, str(seconds)), ("stamps", net.peer))
    ideal = (path.delay_ms * 1e6 + 8e9 * WIRE / path.rate_bps) if net.is_emulated else 0.0
    return {f"delay_error_{q}_us": (found[f"delay_{q}_ns"] - ideal) / 1e3 for q in ("p1", "p50", "p99")}


def rate(net: Net, path: Road, seconds: float) -> Figures:
    """Rate of a saturated link of 1 Gb/s, 50 ms, no offloads; packets of 1500 bytes."""
    if not net.is_emulated:
        return {}
    found = net.run(("blast", net.peer, str(seconds)), ("stamps", net.peer))
    if not found["windows"]:
        print("rate: the sender never filled the queue: this machine is too busy", flush=True)
        return {}
    expected = path.rate_bps * PAYLOAD / WIRE
    return {"rate_error_percent": 100 * abs(found["rate_bps"] / expected - 1), "windows": found["windows"]}


def tcp(net: Net, path: Road, seconds: float) -> Figures:
    """TCP over a delay of 100 ms."""
    warm = WARM_S if net.is_emulated else 1.0
    count = str(path.connections)
    sender = ("send", net.peer, count, str(warm + seconds), path.payload)
    found = net.run(sender, ("sink", net.peer, str(warm), str(seconds), str(path.window_bytes)))
    return {"goodput_gbps": found["goodput_bps"] / 1e9, "best_100ms_gbps": found["best_bps"] / 1e9}


Measure = Callable[["Net", Road, float], Figures]
EXACT = Road(GIGABIT, 50, offloads=False)
CASES: dict[str, tuple[Measure, dict[str, Road]]] = {
    "delay": (delay, {"": EXACT}),
    "rate": (rate, {"": EXACT}),
    "bulk": (
        tcp,
        {
            "": Road(10 * GIGABIT, 100),
            " random bytes": Road(10 * GIGABIT, 100, payload="random"),
            " plain packets": Road(10 * GIGABIT, 100, offloads=False),
        },
    ),
    "flows": (tcp, {"": Road(GIGABIT, 100, connections=200)}),
}
"""By name: the measurement, and its paths."""


# The networks.


class Net:
    """Two hosts, and programs that measure between them."""

    def __init__(self, hosts: Sequence[Host], pid: int | None = None) -> None:
        """``pid`` is the process of the emulator between ``hosts``, if any."""
        self.hosts = hosts
        self.own: Figures = {}
        self.emulator_cpu_s = 0.0
        self._pid = pid

    @property
    def is_emulated(self) -> bool:
        """Whether there is an emulator between the hosts."""
        return self._pid is not None

    @property
    def peer(self) -> str:
        """Address of the second host."""
        return self.hosts[1].address

    def run(self, sender: Sequence[str], receiver: Sequence[str]) -> Figures:
        """The measurement of ``receiver`` at the second host while ``sender`` runs at the first."""
        listening = self._start(1, receiver)
        assert listening.stdout is not None
        listening.stdout.readline()
        begin, cpu = time.monotonic(), self._cpu_s()
        sending = self._start(0, sender)
        sending.communicate(timeout=120)
        if self._pid is not None:
            self.emulator_cpu_s = self._cpu_s() - cpu
            self.own["emulator_cpu_share"] = self.emulator_cpu_s / (time.monotonic() - begin)
        out, _ = listening.communicate(timeout=120)
        if listening.returncode != 0:
            sys.exit(f"benches/emulator.py: {receiver[0]} failed at {self.hosts[1].namespace}")
        figures: Figures = json.loads(out)
        return figures

    def _cpu_s(self) -> float:
        """Processor time of the emulator's process, proc(5)."""
        if self._pid is None:
            return 0.0
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _start(self, host: int, role: Sequence[str]) -> subprocess.Popen[str]:
        words = [sys.executable, "-I", "-S", str(HERE / "ends.py"), *role]
        return within(self.hosts[host].path, lambda: subprocess.Popen(words, stdout=subprocess.PIPE, text=True))


Subject = Callable[[Road], contextlib.AbstractContextManager[Net]]
"""Creates the hosts with a path between them."""


@contextlib.contextmanager
def _emulated(path: Road, queue_of: Callable[[Road], str] = lambda path: f"{path.queue_bytes}B") -> Iterator[Net]:
    tag = _owner.new()
    made = wiring(tag, 1500)
    options = [] if path.offloads else ["--no-offloads"]
    up = LinkOptions(rate=f"{path.rate_bps}bps", delay=f"{path.delay_ms}ms", queue=queue_of(path))
    commands = (*made.up, *_buffers(made.hosts, path.connections))
    with Network(Wiring(made.hosts, commands, made.down, made.first_port, ()), tag):
        jobs = [host.to_job() for host in made.hosts]
        with Emulator(plan(up, LinkOptions()), jobs, made.first_port, options, environment(tag)) as emulator:
            net, reports = Net(made.hosts, emulator.pid), queue.SimpleQueue[Report]()
            reader = threading.Thread(target=lambda: reports.put(emulator.measure()))
            reader.start()
            yield net
            emulator.stop()
            net.own |= _own(reports.get(timeout=10), net.emulator_cpu_s)
            reader.join()


def _scheduled(path: Road) -> contextlib.AbstractContextManager[Net]:
    """A scheduler of two classes; the traffic is in the one with a tenth of the link, and may use the whole."""
    size = f"queue: {path.queue_bytes}B"
    return _emulated(
        path,
        lambda _: f"{{wrr: {{classes: {{af: {{dscp: af11, weight: 90%, {size}}}, be: {{weight: 10%, {size}}}}}}}}}",
    )


def _own(report: Report, cpu_s: float) -> Figures:
    """The emulator's own figures, and its processor time per packet without waiting: load disturbs that least."""
    stats = report.stats
    names = ("lateness_p50", "lateness_p99", "lateness_max", "read_lag_p50", "read_lag_p99")
    figures = {f"own_{name}_us": stats[f"{name}_ns"] / 1e3 for name in names}
    busy = stats["busy_share"] / stats["cpu_share"] if stats["cpu_share"] else 0.0
    return figures | {"own_cpu_us_a_packet": 1e6 * cpu_s * busy / max(stats["delivered_packets"], 1.0)}


@contextlib.contextmanager
def _rattan(program: Path, path: Road) -> Iterator[Net]:
    with rattan.Link(program, path.rate_bps, path.delay_ms, path.queue_bytes) as made:
        for command in _buffers(made.hosts, path.connections):
            subprocess.run(command, check=True)
        yield Net(made.hosts, made.pid)


@contextlib.contextmanager
def _plain(path: Road) -> Iterator[Net]:
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
        *(() if path.offloads else _without_offloads(hosts)),
        *_buffers(hosts, path.connections),
    )
    down = tuple(("ip", "netns", "del", host.namespace) for host in hosts)
    with Network(Wiring(hosts, up, down, PORT, ()), tag):
        yield Net(hosts)


def _without_offloads(hosts: Sequence[Host]) -> Iterator[tuple[str, ...]]:
    """Disables offloads: packets are segmented before they reach the device."""
    for host in hosts:
        yield ("ip", "-n", host.namespace, "link", "set", "eth0", "gso_max_segs", "1")


def _buffers(hosts: Sequence[Host], connections: int) -> Iterator[tuple[str, ...]]:
    """Buffers for the longest path; Reno, whose slow start ends only at a loss, fills it first."""
    size = max(BUFFER // connections, 8 << 20)
    # Linux uses at least half of a buffer for metadata.
    values = [f"net.ipv4.tcp_{name}=4096 {2 * size} {2 * size}" for name in ("rmem", "wmem")]
    for host in hosts:
        enter = ("nsenter", f"--net={host.path}", "sysctl", "-q", "-w")
        yield (*enter, *values, "net.ipv4.tcp_congestion_control=reno")


if __name__ == "__main__":
    main()
