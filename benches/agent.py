"""Compares the agent with iperf3 on the same veth pair: ``sudo .venv/bin/python benches/agent.py``.

The two run in turn, in pairs, and the medians of the ratios count: on a busy machine, figures are comparable only with
their neighbours. Sampling costs less than runs differ by. So its cost is measured in several ways, each with a
confidence interval (95 %, bootstrap over rounds): goodput with and without sampling, and processor time per byte; the
same at ten times as many samples, divided by ten; and the processor time that the agents themselves count for it. The
last is judged: one thread sends, and time spent on samples is lost for data. Load disturbs it least, although caches
are colder then.

    sudo .venv/bin/python benches/agent.py                       three minutes
    sudo .venv/bin/python benches/agent.py sampling --rounds 60  only the cost of sampling, more precisely
    sudo .venv/bin/python benches/agent.py --quick               a minute

Needs root (two network namespaces, removed at the end) and iperf3; ``WEIR_BIN`` names the folder of another
``weir-agent``. Results are printed and stored in ``benches/results/agent.json``.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import io
import json
import os
import platform
import random
import resource
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from weir._programs import find
from weir.methods import MethodError

HERE = Path(__file__).parent
MS = 1_000_000
SPACES = ("weir-bench-agent-a", "weir-bench-agent-b")
ADDRESSES = ("10.213.7.1", "10.213.7.2")
FIRST_PORT = 5201
SAMPLED_FLOWS = 200
SAMPLING_MS = 20
AMPLIFIED_MS = 2
TARGET_PERCENT = 1.0
"""Target: sampling costs less than this share of the goodput."""
RESAMPLES = 4000
PIPE_BYTES = 1 << 20
CHUNK = 1 << 18
_FORMATS = {"u8": "B", "u32": "I", "u64": "Q", "i64": "q"}


@dataclass(frozen=True)
class Figures:
    """The result of one run of a traffic generator."""

    goodput_bps: float
    cpu_s_per_gb: float
    """Processor time of both ends, user and system, per gigabyte delivered."""
    cpu_s: float = 0.0
    """Processor time of both ends."""
    measuring_s: float = 0.0
    """The part of it spent on examining connections and writing rows."""
    extra: dict[str, float] = field(default_factory=dict)


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs of each case (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of each run (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=20, help="rounds of case sampling (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="2 pairs, 10 rounds, runs of a second")
    arguments = parser.parse_args()
    if unknown := set(arguments.cases) - set(CASES):
        parser.error(f"no case {unknown.pop()!r}; there are {', '.join(CASES)}")
    if arguments.quick:
        arguments.pairs, arguments.rounds, arguments.seconds = 2, 10, 1.0
    try:
        agent = find("weir-agent")
    except MethodError as error:
        sys.exit(f"benches/agent.py: {error}")
    if os.geteuid() != 0:
        sys.exit("benches/agent.py: needs root: it makes two network namespaces")
    extent = Extent(agent, arguments.pairs, arguments.seconds, arguments.rounds)
    host = {"kernel": platform.release(), "processors": os.cpu_count(), "load_before": os.getloadavg()[0]}
    report: dict[str, Any] = {"host": host, "pairs": extent.pairs, "seconds": extent.seconds, "rounds": extent.rounds}
    with veth():
        for name in arguments.cases or CASES:
            report[name] = CASES[name](extent)
    target = HERE / "results" / "agent.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(report, indent=2) + "\n")


@dataclass(frozen=True)
class Extent:
    """The measurements and their duration."""

    agent: Path
    pairs: int
    seconds: float
    rounds: int


# -- the cases


def bulk(extent: Extent, flows: int) -> dict[str, float]:
    """Bulk flows, compared with iperf3's."""
    ours, theirs = partial(run_agent, extent.agent, flows, extent.seconds), partial(run_iperf3, flows, extent.seconds)
    return show(f"bulk, {flows} flow(s): agent / iperf3", *in_pairs(extent.pairs, ours, theirs))


def sampling(extent: Extent) -> dict[str, Any]:
    """The cost of sampling 200 flows."""
    intervals = (0, SAMPLING_MS, AMPLIFIED_MS)
    runs: dict[int, list[Figures]] = {ms: [] for ms in intervals}
    for number in range(extent.rounds):
        for ms in (*intervals[number % 3 :], *intervals[: number % 3]):
            runs[ms].append(run_agent(extent.agent, SAMPLED_FLOWS, extent.seconds, tcp_ms=ms))
    base, usual, often = (runs[ms] for ms in intervals)
    if not all(run.measuring_s for run in usual):
        sys.exit(
            "benches/agent.py: this weir-agent does not report the cost of measuring; `make setup` builds one that does"
        )
    scale = AMPLIFIED_MS / SAMPLING_MS
    costs = {
        "goodput": cost((_loss(a, b) for a, b in zip(usual, base, strict=True)), 100),
        "goodput, amplified": cost((_loss(a, b) for a, b in zip(often, base, strict=True)), 100 * scale),
        "processor time per byte": cost((_more_cpu(a, b) for a, b in zip(usual, base, strict=True)), 100),
        "processor time per byte, amplified": cost(
            (_more_cpu(a, b) for a, b in zip(often, base, strict=True)), 100 * scale
        ),
        "of the agents' processor time": cost((_share(a, b) for a, b in zip(usual, base, strict=True)), 100),
        "of a processor": cost(
            (a.measuring_s - b.measuring_s for a, b in zip(usual, base, strict=True)), 100 / extent.seconds
        ),
    }
    print(
        f"{SAMPLED_FLOWS} flows sampled every {SAMPLING_MS} ms, {extent.rounds} rounds: cost in percent (95 % interval)"
    )
    for name, (middle, low, high) in costs.items():
        print(f"  {name:<34}{middle:8.2f}   ({low:.2f} to {high:.2f})")
    verdict = judge(costs["of a processor"])
    print(
        f"  less than {TARGET_PERCENT:g} % of goodput, where a sender's processor is what limits: {verdict}", flush=True
    )
    goodput = {f"goodput_{ms}_ms_gbps": statistics.median(r.goodput_bps for r in runs[ms]) / 1e9 for ms in intervals}
    return {**goodput, "cost_percent": costs, "verdict": verdict}


def _loss(sampled: Figures, plain: Figures) -> float:
    return 1 - sampled.goodput_bps / plain.goodput_bps


def _more_cpu(sampled: Figures, plain: Figures) -> float:
    return sampled.cpu_s_per_gb / plain.cpu_s_per_gb - 1


def _share(sampled: Figures, plain: Figures) -> float:
    return (sampled.measuring_s - plain.measuring_s) / sampled.cpu_s


def cost(changes: Iterable[float], scale: float) -> tuple[float, float, float]:
    """The median over rounds, times ``scale``, and its confidence interval."""
    scaled = [scale * change for change in changes]
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(scaled, k=len(scaled))) for _ in range(RESAMPLES))
    return statistics.median(scaled), medians[RESAMPLES // 40], medians[-RESAMPLES // 40]


def judge(interval: tuple[float, float, float]) -> str:
    """Whether a cost is below the target, by its interval."""
    _, low, high = interval
    if high < TARGET_PERCENT:
        return "yes"
    return "no" if low > TARGET_PERCENT else "not decided: needs more rounds, or a less busy machine"


def cbr(extent: Extent) -> dict[str, float]:
    """Datagrams at a constant rate, compared with iperf3's."""
    ours, theirs = in_pairs(
        extent.pairs, lambda: run_cbr(extent.agent, extent.seconds), lambda: run_iperf3_udp(extent.seconds)
    )
    result = {
        key: statistics.median(run.extra[key] for run in runs) for runs in (ours, theirs) for key in runs[0].extra
    }
    print("CBR, 1000 B at 20 Mb/s (400 us apart): " + ", ".join(f"{k} {v:.1f}" for k, v in result.items()), flush=True)
    return result


CASES: dict[str, Callable[[Extent], dict[str, Any]]] = {
    "bulk_1": partial(bulk, flows=1),
    "bulk_100": partial(bulk, flows=100),
    "sampling": sampling,
    "cbr": cbr,
}


def in_pairs(
    pairs: int, ours: Callable[[], Figures], theirs: Callable[[], Figures]
) -> tuple[list[Figures], list[Figures]]:
    """Runs both in turn; the order within a pair alternates."""
    results: tuple[list[Figures], list[Figures]] = ([], [])
    for number in range(pairs):
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            results[which].append((ours, theirs)[which]())
    return results


def show(title: str, ours: Sequence[Figures], theirs: Sequence[Figures]) -> dict[str, float]:
    """Prints and returns the medians, and the medians of the pairs' ratios."""
    result = {
        "goodput_gbps": statistics.median(run.goodput_bps for run in ours) / 1e9,
        "other_goodput_gbps": statistics.median(run.goodput_bps for run in theirs) / 1e9,
        "goodput_ratio": statistics.median(a.goodput_bps / b.goodput_bps for a, b in zip(ours, theirs, strict=True)),
        "cpu_ratio": statistics.median(a.cpu_s_per_gb / b.cpu_s_per_gb for a, b in zip(ours, theirs, strict=True)),
        "cpu_s_per_gb": statistics.median(run.cpu_s_per_gb for run in ours),
        "other_cpu_s_per_gb": statistics.median(run.cpu_s_per_gb for run in theirs),
    }
    print(
        f"{title}: goodput {result['goodput_gbps']:.1f} / {result['other_goodput_gbps']:.1f} Gb/s = "
        f"{result['goodput_ratio']:.3f}; CPU a byte: {result['cpu_ratio']:.3f}",
        flush=True,
    )
    return result


# -- the agent


def run_agent(binary: Path, flows: int, seconds: float, tcp_ms: int = 20) -> Figures:
    """Bulk flows from one process to another."""
    tcp = {
        "protocol": "tcp", "cc": "linux:cubic", "stack": "linux", "mss_bytes": 1448, "timestamps": True, "sack": True,
        "ecn": False, "initial_window": 10, "send_buffer_bytes": 4 << 20, "receive_buffer_bytes": 4 << 20,
        "pacing": False, "ack": "delayed",
    }  # fmt: skip
    plan = make_plan([(tcp, {"kind": "bulk"})] * flows, seconds, tcp_ms)
    (receiver, sender), cpu_s = run_plan(binary, plan)
    delivered = sum(receiver.column("delivered", "delivered_bytes"))
    if tcp_ms and not sender.column("samples", "time_ns"):
        sys.exit("benches/agent.py: nothing was sampled")
    measuring_s = sum(agent.stats.get("measuring_cpu_s", 0.0) for agent in (receiver, sender))
    return Figures(delivered * 8 / seconds, cpu_s / delivered * 1e9, cpu_s, measuring_s)


def run_cbr(binary: Path, seconds: float) -> Figures:
    """One flow of datagrams."""
    plan = make_plan([({"protocol": "udp", "payload_bytes": 972}, {"kind": "cbr", "rate_bps": 20_000_000})], seconds, 0)
    (receiver, sender), _ = run_plan(binary, plan)
    stats = receiver.stats | sender.stats
    wanted = ("spacing_error_p50_ns", "spacing_error_p99_ns", "send_late_p50_ns", "send_late_p99_ns", "delay_p50_ns")
    return Figures(
        0, 0, extra={f"{key[:-3]}_us": stats[f"cbr.0.{key}"] / 1e3 for key in wanted} | {"lost": stats["cbr.0.lost"]}
    )


def make_plan(flows: Sequence[tuple[dict[str, Any], dict[str, Any]]], seconds: float, tcp_ms: int) -> dict[str, Any]:
    """A plan of flows that all begin at once and end with the run."""
    link = {
        "rate_bps": 10**11, "mtu_bytes": 1500, "overhead_bytes": 38, "delay": {"kind": "fixed", "delay_ns": 0},
        "queue": {"kind": "droptail", "limit": {"bytes": 10**7}},
    }  # fmt: skip
    common = {
        "group": "f",
        "index": 0,
        "stream": 0,
        "role": "test",
        "from": 0,
        "to": 1,
        "path": [0],
        "reverse_path": [1],
    }
    return {
        "version": 1, "title": "bench", "seed": 1, "end_ns": int(seconds * 1e9),
        "nodes": [{"name": "a", "kind": "host"}, {"name": "b", "kind": "host"}],
        "links": [{"name": "ab", "from": 0, "to": 1, **link}, {"name": "ba", "from": 1, "to": 0, **link}],
        "flows": [
            {"name": f"f[{n}]", **common, "start_ns": 0, "stop_ns": None, "transport": transport, "source": source}
            for n, (transport, source) in enumerate(flows)
        ],
        "measure": {"goodput_ns": 100 * MS, "tcp_ns": tcp_ms * MS, "links_ns": 0},
    }  # fmt: skip


def run_plan(binary: Path, plan: dict[str, Any]) -> tuple[tuple[Agent, Agent], float]:
    """Runs a plan in two processes; returns them and their processor time in seconds."""
    hosts = [{"node": n, "address": ADDRESSES[n], "netns": f"/run/netns/{SPACES[n]}"} for n in (0, 1)]
    job = {"version": 1, "plan": plan, "hosts": hosts, "first_port": FIRST_PORT}
    count = len(plan["flows"])
    before = children_cpu_s()
    agents = tuple(Agent(binary, {**job, "ends": [{end: n} for n in range(count)]}) for end in ("to", "from"))
    epoch = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + 400 * MS
    for agent in agents:
        agent.start(epoch)
    for agent in agents:
        agent.wait()
    return (agents[0], agents[1]), children_cpu_s() - before


class Agent:
    """An agent process, ready to start."""

    def __init__(self, binary: Path, job: dict[str, Any]) -> None:
        self.stats: dict[str, float] = {}
        self._columns: dict[tuple[str, str], list[int]] = {}
        self._process = subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._say(job)
        self._ready = threading.Event()
        self._said = bytearray()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self._ready.wait(20)

    def column(self, table: str, column: str) -> list[int]:
        """A column of a table."""
        return self._columns.get((table, column), [])

    def start(self, epoch_ns: int) -> None:
        """Sends it the start time."""
        self._say({"command": "start", "clock": "monotonic", "reading_ns": epoch_ns, "after_ns": 0})

    def wait(self) -> None:
        """Waits for its end, and reads its output; exits if it failed."""
        self._reader.join()
        if self._process.wait(20) != 0:
            sys.exit("benches/agent.py: the agent failed")
        self._parse()

    def _say(self, what: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what).encode() + b"\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        """Stores the output unparsed: parsing at once would take a processor from the measurement."""
        assert self._process.stdout is not None
        number = self._process.stdout.fileno()
        fcntl.fcntl(number, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        while chunk := os.read(number, CHUNK):
            self._said += chunk
            self._ready.set()
        self._ready.set()

    def _parse(self) -> None:
        said = io.BytesIO(self._said)
        while line := said.readline():
            message = json.loads(line)
            if message["message"] == "table":
                for column, kind in message["columns"]:
                    content = said.read(struct.calcsize(_FORMATS[kind]) * message["rows"])
                    values = struct.unpack(f"<{message['rows']}{_FORMATS[kind]}", content)
                    self._columns.setdefault((message["name"], column), []).extend(values)
            elif message["message"] == "end":
                self.stats = message["stats"]


# -- iperf3


def run_iperf3(flows: int, seconds: float) -> Figures:
    """Bulk flows of iperf3 with its own settings."""
    result, cpu_s = iperf3("-P", str(flows), "-t", f"{seconds:.0f}")
    received = result["end"]["sum_received"]
    return Figures(received["bits_per_second"], cpu_s / received["bytes"] * 1e9)


def run_iperf3_udp(seconds: float) -> Figures:
    """Datagrams of iperf3; its jitter is the smoothed difference of transit times (RFC 1889)."""
    result, _ = iperf3("-u", "-b", "19.44M", "-l", "972", "-t", f"{seconds:.0f}")
    total = result["end"]["sum"]
    return Figures(0, 0, extra={"iperf3_jitter_us": total["jitter_ms"] * 1e3, "iperf3_lost": total["lost_packets"]})


def iperf3(*arguments: str) -> tuple[dict[str, Any], float]:
    """Runs a server and a client; returns the client's report and the processor time of both, in seconds."""
    before = children_cpu_s()
    server = subprocess.Popen(
        inside(1, "iperf3", "-s", "-1", "-B", ADDRESSES[1]), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        wait_until_listening()
        client = subprocess.run(
            inside(0, "iperf3", "-c", ADDRESSES[1], "-J", *arguments), capture_output=True, check=False, timeout=60
        )
        server.communicate(timeout=20)
    finally:
        server.kill()
        server.wait()
    if client.returncode != 0:
        sys.exit(f"benches/agent.py: iperf3 failed: {client.stdout.decode()[-300:]}")
    return json.loads(client.stdout), children_cpu_s() - before


def wait_until_listening() -> None:
    """Waits for the server's port."""
    for _ in range(200):
        listening = subprocess.run(inside(1, "ss", "-Hltn"), capture_output=True, check=True).stdout
        if f":{FIRST_PORT}".encode() in listening:
            return
        time.sleep(0.02)
    sys.exit("benches/agent.py: iperf3 does not listen")


# -- the machine


@contextlib.contextmanager
def veth() -> Iterator[None]:
    """Two namespaces with a veth pair between them."""
    try:
        for name in SPACES:
            ip("netns", "add", name)
        ip("link", "add", "veth0", "netns", SPACES[0], "type", "veth", "peer", "name", "veth0", "netns", SPACES[1])
        for name, address in zip(SPACES, ADDRESSES, strict=True):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "veth0")
            ip("-n", name, "link", "set", "veth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield
    finally:
        for name in SPACES:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def ip(*arguments: str) -> None:
    """Runs iproute2."""
    subprocess.run(["ip", *arguments], check=True)


def inside(host: int, *command: str) -> list[str]:
    """A command in a host's namespace."""
    return ["ip", "netns", "exec", SPACES[host], *command]


def children_cpu_s() -> float:
    """Processor time of all children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
