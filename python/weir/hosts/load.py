"""Watches this host during a run: did the machine, rather than the protocol, decide a result?"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from weir.hosts.namespaces import within
from weir.hosts.wiring import Host

__all__ = ["Counters", "HostWatch", "Processors", "counters"]

_EVERY_S = 0.5
_BUSY = 0.95
"""Share of its time from which a processor counts as saturated."""
_SATURATED = 0.1
"""Share of saturated intervals of a processor that causes a warning."""
_STOLEN = 0.02
"""Share of the time taken by other machines on the same hardware that causes a warning."""

_LATE_NS = {
    "emulator.lateness_p99_ns": 250_000,
    "senders.timer_late_p99_ns": 20_000_000,
    "receivers.timer_late_p99_ns": 20_000_000,
}
"""Delays that show that a process of the run was kept from its work; those of agents only blur the measurement."""

_LOSSES = {
    "TcpExt.TCPBacklogDrop": "segments dropped by a busy socket",
    "TcpExt.TCPRcvQDrop": "segments dropped by a full receive buffer",
    "TcpExt.PruneCalled": "times a receive buffer was pruned",
    "TcpExt.RcvPruned": "segments pruned from a receive buffer",
    "TcpExt.TCPMemoryPressures": "times TCP ran short of memory",
    "TcpExt.ListenDrops": "connections dropped by a listener",
    "TcpExt.TCPAbortOnMemory": "connections ended for want of memory",
    "Udp.RcvbufErrors": "datagrams dropped by a full receive buffer",
    "Udp.SndbufErrors": "datagrams dropped by a full send buffer",
}
"""Counters of an experiment's host that count packets lost by the machine, with their meaning.

The emulator itself counts packets that a device drops before the emulator takes them.
"""


@dataclass(frozen=True)
class Processors:
    """Time of each processor since boot, in clock ticks."""

    busy: tuple[int, ...]
    softirq: tuple[int, ...]
    steal: tuple[int, ...]
    total: tuple[int, ...]

    @classmethod
    def now(cls) -> Processors:
        """Reads ``/proc/stat``."""
        lines = Path("/proc/stat").read_text(encoding="utf-8").splitlines()
        # user nice system idle iowait irq softirq steal; user already includes guests (proc(5)).
        times = [[int(n) for n in line.split()[1:9]] for line in lines if line.startswith("cpu") and line[3] != " "]
        return cls(
            busy=tuple(sum(t) - t[3] - t[4] for t in times),
            softirq=tuple(t[6] for t in times),
            steal=tuple(t[7] for t in times),
            total=tuple(sum(t) for t in times),
        )


Counters = dict[str, int]


def counters(host: Host) -> Counters:
    """The kernel's counters for ``host``: the tables of ``netstat``.

    Raises:
        OSError: its namespace is gone.
    """
    return within(host.path, _netstat)


def _netstat() -> Counters:
    found: Counters = {}
    for name in ("netstat", "snmp"):
        lines = Path(f"/proc/thread-self/net/{name}").read_text(encoding="utf-8").splitlines()
        for heads, values in zip(lines[::2], lines[1::2], strict=True):
            group, *columns = heads.split()
            numbers = (int(value) for value in values.split()[1:])
            found |= {f"{group}{column}".replace(":", "."): n for column, n in zip(columns, numbers, strict=True)}
    return found


@dataclass
class HostWatch:
    """Samples the processors during a run. A context manager around the measured time."""

    hosts: tuple[Host, ...]
    stats: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def __enter__(self) -> HostWatch:
        """Starts watching."""
        self._before = {host: counters(host) for host in self.hosts}
        self._samples = [Processors.now()]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it, and fills ``stats`` and ``warnings``."""
        self._stop.set()
        self._thread.join()
        self._samples.append(Processors.now())
        self._judge_processors()
        with contextlib.suppress(OSError):
            self._judge_sockets()

    def judge(self, stats: Mapping[str, float]) -> list[str]:
        """The warnings, given the run's processes' counters of their own delays.

        A saturated processor alone proves nothing: the emulator and the agents have priority on it.
        """
        share = self.stats["host.saturated"]
        late = {name: stats.get(name, 0.0) for name in _LATE_NS}
        worst = max(late, key=lambda name: late[name] / _LATE_NS[name])
        if share <= _SATURATED or late[worst] <= _LATE_NS[worst]:
            return self.warnings
        return [
            f"host: a processor was saturated {share:.0%} of the time, and the {worst.partition('.')[0]} came "
            f"{late[worst] / 1e6:.2g} ms late or more in one case of a hundred: the results may be those of this "
            "machine. Use lower rates or fewer flows, and leave the machine alone meanwhile",
            *self.warnings,
        ]

    def _watch(self) -> None:
        while not self._stop.wait(_EVERY_S):
            self._samples.append(Processors.now())

    def _judge_processors(self) -> None:
        first, last = self._samples[0], self._samples[-1]
        busy = _shares(first.busy, last.busy, first, last)
        steal = _shares(first.steal, last.steal, first, last)
        softirq = _shares(first.softirq, last.softirq, first, last)
        for number, share in enumerate(busy):
            self.stats[f"host.cpu{number}"] = round(share, 4)
        self.stats["host.softirq"] = round(max(softirq), 4)
        self.stats["host.steal"] = round(max(steal), 4)
        self.stats["host.saturated"] = round(max(_saturated(self._samples)), 4)
        if max(steal) > _STOLEN:
            self.warnings.append(f"host: {max(steal):.0%} of a processor's time was taken by other virtual machines")

    def _judge_sockets(self) -> None:
        lost: dict[str, list[tuple[int, str]]] = {}
        for host, before in self._before.items():
            after = counters(host)
            for name in _LOSSES:
                more = after.get(name, 0) - before.get(name, 0)
                if more > 0:
                    lost.setdefault(name, []).append((more, host.name))
        for name, cases in lost.items():
            self.stats[f"host.{name}"] = sum(count for count, _ in cases)
            count, worst = max(cases)
            where = worst if len(cases) == 1 else f"{len(cases)} hosts, most ({count}) at {worst}"
            self.warnings.append(f"host: {sum(c for c, _ in cases)} {_LOSSES[name]} ({where}): not part of the plan")


def _shares(begin: Iterable[int], end: Iterable[int], first: Processors, last: Processors) -> list[float]:
    totals = zip(first.total, last.total, strict=True)
    pairs = zip(begin, end, totals, strict=True)
    return [(b - a) / max(total_b - total_a, 1) for a, b, (total_a, total_b) in pairs]


def _saturated(samples: list[Processors]) -> list[float]:
    """Per processor, the share of the intervals in which it had no time left."""
    steps = [_shares(a.busy, b.busy, a, b) for a, b in itertools.pairwise(samples)]
    return [sum(share > _BUSY for share in of_one) / len(steps) for of_one in zip(*steps, strict=True)]


def facts(host: Host) -> Mapping[str, str]:
    """Every TCP parameter in ``host``, by name: the plan's settings, and this kernel's other values.

    Raises:
        OSError: its namespace is gone.
    """
    return within(host.path, _parameters)


def _parameters() -> dict[str, str]:
    found = {}
    for file in sorted(Path("/proc/sys/net/ipv4").glob("tcp_*")):
        if os.access(file, os.R_OK):
            with contextlib.suppress(OSError):
                found[f"net.ipv4.{file.name}"] = " ".join(file.read_text(encoding="utf-8").split())
    return found


def busy_share(seconds: float) -> float:
    """The share of all processors' time in use, measured over ``seconds``."""
    before = Processors.now()
    time.sleep(seconds)
    after = Processors.now()
    return (sum(after.busy) - sum(before.busy)) / max(sum(after.total) - sum(before.total), 1)
