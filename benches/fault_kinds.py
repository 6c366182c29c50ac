"""The faults of ``benches/faults.py``, the nodes that they happen to, and the moments of a run at which they do."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weir import testbed

__all__ = ["CELLS", "FAULTS", "NODES", "OF_A_NODE", "Bed", "Moment", "Trial", "planned", "reached"]

CELLS = 3
NODES = ("a1", "a2", "b1", "b2")
SNAPSHOT = r"""
programs=$(ps -eo comm=); echo "$programs" | grep -v sshd
find /tmp /var/tmp ~ -path ~/.cache -prune -o -name 'fault-*' -prune -o -print | sort
ip -4 -o address; ip route show table all; ip rule; tc qdisc show
grep -s '' /proc/sys/net/core/* /proc/sys/net/ipv4/tcp_* | grep -v congestion_control
"""
"""What a node is; not the congestion controls, which belong to all nodes of a kernel, nor the server's sessions."""


# Test beds -----------------------------------------------------------------------------------------------------------


class Bed:
    """A test bed whose nodes have clocks that can be stepped."""

    def __init__(self, name: str, library: Path) -> None:
        self.name = name
        self.library = library
        self.renew()

    def renew(self) -> None:
        """Makes it, anew if it is there."""
        testbed.down(self.name)
        links = testbed.LinkOptions(rate="100Mbps")  # a faster one takes the processors that others need
        self.bed = testbed.up(testbed.Request(name=self.name, nodes=2, disk_bytes=64 << 20, links=links))
        for node in NODES:
            self._give_clock(node)
        lines = self.bed.inventory.read_text(encoding="utf-8").splitlines()
        wanted = [more for line in lines for more in (line, *_python_after(line))]
        self.inventory = self.bed.folder / "faults.yaml"
        self.inventory.write_text("\n".join(wanted) + "\n", encoding="utf-8")
        self.before = {node: self.first(node) for node in NODES}

    def revive(self, node: str) -> None:
        """Brings back a node that has died, under its address: cells belong to their inventory."""
        self.bed = testbed.start(self.name, [node])
        self._give_clock(node)
        self.before[node] = self.first(node)

    def _give_clock(self, node: str) -> None:
        python = '#!/bin/sh\nCLOCK_STEP=/opt/clock/ahead LD_PRELOAD=/opt/clock/step.so exec python3 "$@"\n'
        self.bed.put(node, "/opt/clock/step.so", self.library.read_bytes())
        self.bed.put(node, "/opt/clock/ahead", struct.pack("q", 0))
        self.bed.put(node, "/opt/clock/python", python.encode(), 0o755)

    def first(self, node: str) -> set[str]:
        """How a new node is, with the folders that weir keeps: of programs, and of journals."""
        self.sh(node, "umask 077; mkdir -p ~/.cache/weir ~/.local/state/weir")
        return self.snapshot(node)

    def snapshot(self, node: str) -> set[str]:
        return set(self.sh(node, SNAPSHOT).splitlines())

    def sh(self, node: str, line: str) -> str:
        return self.bed.run(node, ["sh", "-c", line]).out.decode(errors="replace").strip()

    def changed(self, gone: Sequence[str]) -> dict[str, list[str]]:
        """What is not as before on nodes that are there, by node."""
        found = {}
        for node in NODES:
            if node not in gone:
                now = self.snapshot(node)
                found[node] = sorted(f"+ {line}" for line in now - self.before[node])
                found[node] += sorted(f"- {line}" for line in self.before[node] - now)
        return {node: lines for node, lines in found.items() if lines}

    def down(self) -> None:
        testbed.down(self.name)


def _python_after(line: str) -> list[str]:
    """The key of the Python of a set, beside its key ``user``."""
    return [line[: line.index("user:")] + "python: /opt/clock/python"] if line.strip().startswith("user:") else []


# Faults --------------------------------------------------------------------------------------------------------------


@dataclass
class Trial:
    """A run, and what happens to it."""

    bed: Bed
    node: str
    draw: random.Random
    folder: Path
    process: subprocess.Popen[bytes]
    mends: list[Callable[[], object]] = field(default_factory=list)
    """What is executed when the nodes have been looked at."""
    gone: list[str] = field(default_factory=list)
    """Nodes that are no more."""

    def sh(self, line: str) -> str:
        return self.bed.sh(self.node, line)

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    def signal(self, number: int, which: str) -> bool:
        """Sends a signal to processes of the node that the shell words ``which`` list, when there are some."""
        while self.runs:
            if "hit" in self.sh(f'p=$({which}); [ -n "$p" ] && kill -{number} $p && echo hit'):
                return True
            time.sleep(0.05)
        return False


AGENTS = "pgrep weir-agent"
SESSIONS = "ps -eo pid,args | awk '/[s]shd.*@notty/{print $1}'"
RELAYS = "pgrep -x weir-relay"
WATCHDOGS = "pgrep -x weir-watch"


def die(trial: Trial) -> bool:
    os.kill(trial.bed.bed.node(trial.node).pid, signal.SIGKILL)
    trial.gone.append(trial.node)
    trial.mends.append(lambda: trial.bed.revive(trial.node))
    return True


def freeze(trial: Trial) -> bool:
    """Stops everything on the node for some time, as a machine that hangs, and comes back."""
    trial.sh(f"kill -STOP -1; sleep {trial.draw.uniform(2.0, 30.0):.1f}; kill -CONT -1")
    return True


def cut(trial: Trial, device: str, how: str, back: str) -> bool:
    trial.sh(how.format(device))
    trial.mends.append(lambda: trial.sh(back.format(device)))
    return True


def drop_all(trial: Trial, device: str) -> bool:
    """Nothing leaves by ``device``, and nobody is told."""
    show, replace = f"tc qdisc show dev {device} root", f"tc qdisc replace dev {device} root"
    before = trial.sh(show)  # qdisc tbf HANDLE root refcnt N rate RATE burst BYTESb lat TIME
    words = before.split()
    trial.sh(f"{replace} bfifo limit 1")

    def back() -> None:
        for more in range(0, 1000, 20):  # tc rounds a burst down to what passes in whole ticks of a clock
            burst = int(words[9].rstrip("b")) + more
            trial.sh(f"{replace} handle {words[2]} tbf rate {words[7]} burst {burst} lat {words[11]}")
            if trial.sh(show) == before:
                return

    trial.mends.append(back)
    return True


def fill(trial: Trial) -> bool:
    trial.sh("head -c 1G /dev/zero > ~/fault-full")
    trial.mends.append(lambda: trial.sh("rm ~/fault-full"))
    return True


def fill_here(trial: Trial) -> bool:
    """Fills the disk with the folder of the run."""
    full = trial.folder / "full"
    with contextlib.suppress(OSError), full.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass
    trial.mends.append(full.unlink)
    return True


def step_of(trial: Trial) -> bytes:
    """Some seconds to an hour, to the future or the past."""
    return struct.pack("q", trial.draw.choice((-1, 1)) * round(1e9 * 10 ** trial.draw.uniform(0.0, 3.5)))


def step(trial: Trial) -> bool:
    """Overwritten in its place: programs have mapped the file."""
    line = "cat > /opt/clock/new; dd if=/opt/clock/new of=/opt/clock/ahead conv=notrunc status=none"
    trial.bed.bed.run(trial.node, ["sh", "-c", f"{line}; rm /opt/clock/new"], step_of(trial))
    return True


def step_here(trial: Trial) -> bool:
    with (trial.folder / "ahead").open("r+b") as file:
        file.write(step_of(trial))
    return True


def workers(pid: int) -> list[int]:
    """The children of a process that execute cells, whichever of its threads started them."""
    found = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            found += [int(child) for child in children.read_text().split()]
    return found


def kill_worker(trial: Trial) -> bool:
    while trial.runs:
        if found := workers(trial.process.pid):
            os.kill(found[0], signal.SIGKILL)
            return True
        time.sleep(0.02)
    return False


def to_controller(number: int) -> Callable[[Trial], bool]:
    def send(trial: Trial) -> bool:
        trial.process.send_signal(number)
        return True

    return send


_LINK = ("ip link set {} down", "ip link set {} up")
FAULTS: dict[str, Callable[[Trial], bool]] = {
    "agent killed": lambda trial: trial.signal(signal.SIGKILL, AGENTS),
    "agent stopped": lambda trial: trial.signal(signal.SIGSTOP, AGENTS),
    "connection cut": lambda trial: trial.signal(signal.SIGKILL, SESSIONS),
    "connection hangs": lambda trial: cut(trial, testbed.Bed.control_interface, *_LINK),
    "experiment hangs": lambda trial: drop_all(trial, testbed.Bed.interface),
    "far end killed": lambda trial: trial.signal(signal.SIGKILL, RELAYS),
    "far end stopped": lambda trial: trial.signal(signal.SIGSTOP, RELAYS),
    "watchdog killed": lambda trial: trial.signal(signal.SIGKILL, WATCHDOGS),
    "node dies": die,
    "node freezes": freeze,
    "disk full": fill,
    "clock steps": step,
    "controller killed": to_controller(signal.SIGKILL),
    "controller interrupted": to_controller(signal.SIGINT),
    "controller's disk full": fill_here,
    "controller's clock steps": step_here,
    "worker killed": kill_worker,
}
OF_A_NODE = ("agent killed", "connection cut", "connection hangs", "far end killed", "node dies")
"""What a partial cell says names the node."""
OF_AGENTS = ("agent killed", "agent stopped")


# Moments -------------------------------------------------------------------------------------------------------------

_OF_A_CELL = ("configure", "execute", "traffic", "collect")
_LENGTH_S = {
    "start": 1.0,
    "deploy": 2.0,
    "configure": 0.3,
    "execute": 2.0,
    "traffic": 1.3,
    "collect": 0.0,
    "clean": 0.3,
}
"""How long stages take on a quiet machine, or less: a fault comes within that time of their begin."""
_OFTEN = {"start": 1, "deploy": 4, "configure": 2, "execute": 3, "traffic": 7, "collect": 1, "clean": 2}
_NO_AGENTS = ("collect", "clean")
"""Stages after which no agent of the cell runs, whose end would be a fault."""


@dataclass(frozen=True)
class Moment:
    """Some time after an event of a run."""

    stage: str
    """``start`` of the program; a stage of ``tasks.json`` when it begins; ``traffic``: the last agent is started."""
    cell: int
    after_s: float

    @property
    def order(self) -> tuple[int, int]:
        """Grows with the progress of a run."""
        if self.stage in _OF_A_CELL:
            return self.cell, _OF_A_CELL.index(self.stage)
        return {"start": (-2, 0), "deploy": (-1, 0), "clean": (CELLS, 0)}[self.stage]

    def __str__(self) -> str:
        """For people."""
        cell = f" of cell {self.cell}" if self.stage in _OF_A_CELL else ""
        return f"{self.stage}{cell} + {self.after_s:.1f} s"


def reached(run: Path) -> tuple[int, int]:
    """How far the run in a folder is, in the order of :attr:`Moment.order`."""
    most = Moment("start", 0, 0.0).order
    with contextlib.suppress(OSError, ValueError):
        for task in json.loads((run / "tasks.json").read_text())["tasks"]:
            cell = int((task["cell"] or "0").partition("-")[0])
            most = max(most, Moment(task["stage"], cell, 0.0).order)
    cell, stage = most
    if (cell, stage) == Moment("execute", cell, 0.0).order and any(run.glob(f".partial/{cell:04}-r0-*/job-b2.json")):
        return Moment("traffic", cell, 0.0).order
    return most


def planned(seed: int, number: int) -> tuple[str, str, Moment, random.Random]:
    """The kind, the node, the moment, and what else is drawn; all of trial ``number``."""
    round_, place = divmod(number, len(FAULTS))
    order = sorted(FAULTS)
    random.Random(f"{seed} kinds {round_}").shuffle(order)
    kind, draw = order[place], random.Random(f"{seed} trial {number}")
    stages = [stage for stage in _OFTEN if kind not in OF_AGENTS or stage not in _NO_AGENTS]
    node = draw.choice(NODES)
    stage = draw.choices(stages, [_OFTEN[stage] for stage in stages])[0]
    cells = CELLS - (kind in OF_AGENTS)  # if the cell's agents have ended, those of the next are hit
    return kind, node, Moment(stage, draw.randrange(cells), draw.uniform(0.0, _LENGTH_S[stage])), draw
