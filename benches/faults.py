"""Random faults during runs on test beds: nothing complete may be lost, nothing may be left on a node.

``sudo .venv/bin/python benches/faults.py --trials 20 --seed 1`` makes test beds of four nodes. Each trial starts a run
of three cells, causes one fault at a random instant of it, and then executes the same command again. It checks that

- the first command ends by itself, within ``WITHIN_S`` of the fault beyond the run's own length,
- what it kept of the cell of the fault is marked as partial, and names the node,
- every node is as before: parameters, addresses, routes, queueing disciplines, processes, files,
- cells that were complete before the fault are the same files afterwards, and the run becomes complete.

The kinds of faults come in turn, in an order drawn from the seed; trial N of a seed is the same whatever the number of
trials (``--first N --trials 1``). Each test bed executes a trial at a time (``--beds``).

A test bed's node cannot set its clock, which is this machine's: where a clock steps, the programs of weir there are
told so by a preloaded library (``clock_step.c``). The agent has no library, and counts by the monotonic clock.

It needs root, a server of OpenSSH and a C compiler; without, it says so and ends with 2. It prints one line a trial and
a summary as JSON, and ends with 1 if a check failed.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import queue
import random
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weir import testbed
from weir.testbed import BedError

HERE = Path(__file__).parent.absolute()
SCENARIO = """\
title: Faults
source: benches/faults.py
seed: 1
topology:
  dumbbell:
    pairs: 2
    access: {rate: 1Gbps}
    bottleneck: {rate: 1Gbps, queue: 1000packets}
    rtt: 18ms
transport: {cc: "linux:reno", stack: linux, buffers: 1MB, ecn: true, initial_window: 4}
workload:
  - {name: flow, between: pairs, kind: bulk, until: 1s}
measure: {goodput: 200ms, tcp: 50ms, links: 0}
sweep: {transport.buffers: [1MB, 2MB, 3MB]}
"""
CELLS = 3
NODES = ("a1", "a2", "b1", "b2")
END_S = 240.0
WITHIN_S = 45.0
"""A hanging node is given up after 6 s, an agent that says nothing 20 s after the plan's end."""
CLEAN_S = 45.0
"""A node that has lost its controller restores itself after 20 s at the latest."""
WEIR = (sys.executable, "-m", "weir")
SNAPSHOT = r"""
programs=$(ps -eo comm=); echo "$programs" | grep -v sshd
find /tmp /var/tmp ~ -path ~/.cache -prune -o -name 'fault-*' -prune -o -print | sort
ip -4 -o address; ip route show table all; ip rule; tc qdisc show
grep -s '' /proc/sys/net/core/* /proc/sys/net/ipv4/tcp_* | grep -v congestion_control
"""
"""What a node is; not the congestion controls, which belong to all nodes of a kernel, nor the server's sessions."""


def weir(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*WEIR, *arguments], capture_output=True, text=True, check=False)


# Test beds -----------------------------------------------------------------------------------------------------------


class Bed:
    """A test bed whose nodes have clocks that can be stepped."""

    def __init__(self, name: str, library: Path) -> None:
        self.name = name
        self.library = library
        self.renew()

    def renew(self) -> None:
        """Makes it, anew if it is there: a node that has died comes back."""
        testbed.down(self.name)
        self.bed = testbed.up(testbed.Request(name=self.name, nodes=2, disk_bytes=64 << 20))
        for node in NODES:
            python = '#!/bin/sh\nCLOCK_STEP=/opt/clock/ahead LD_PRELOAD=/opt/clock/step.so exec python3 "$@"\n'
            self.bed.put(node, "/opt/clock/step.so", self.library.read_bytes())
            self.bed.put(node, "/opt/clock/ahead", struct.pack("q", 0))
            self.bed.put(node, "/opt/clock/python", python.encode(), 0o755)
        lines = self.bed.inventory.read_text(encoding="utf-8").splitlines()
        wanted = [more for line in lines for more in (line, *_python_after(line))]
        self.inventory = self.bed.folder / "faults.yaml"
        self.inventory.write_text("\n".join(wanted) + "\n", encoding="utf-8")
        self.before: dict[str, set[str]] = {}

    def keep(self) -> None:
        """Remembers how the nodes are: after a run, because the agent stays in their caches."""
        self.before = {node: self.snapshot(node) for node in NODES}

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
RELAYS = "ps -eo pid,args | awk '/[w]eir-relay/{print $1}'"
WATCHDOGS = """pgrep -f '["]do["]: ["]watch["]'"""


def die(trial: Trial) -> bool:
    os.kill(trial.bed.bed.node(trial.node).pid, signal.SIGKILL)
    trial.gone.append(trial.node)
    trial.mends.append(trial.bed.renew)
    return True


def freeze(trial: Trial) -> bool:
    """Stops everything on the node for some time, as a machine that hangs, and comes back."""
    trial.sh(f"kill -STOP -1; sleep {trial.draw.uniform(2.0, 30.0):.1f}; kill -CONT -1")
    return True


def cut(trial: Trial, device: str, how: str, back: str) -> bool:
    trial.sh(how.format(device))
    trial.mends.append(lambda: trial.sh(back.format(device)))
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
    """The children of a process that execute cells."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in children.read_text().split()] if children.exists() else []


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
_NOTHING_LEAVES = ("tc qdisc replace dev {} root bfifo limit 1", "tc qdisc del dev {} root")
FAULTS: dict[str, Callable[[Trial], bool]] = {
    "agent killed": lambda trial: trial.signal(signal.SIGKILL, AGENTS),
    "agent stopped": lambda trial: trial.signal(signal.SIGSTOP, AGENTS),
    "connection cut": lambda trial: trial.signal(signal.SIGKILL, SESSIONS),
    "connection hangs": lambda trial: cut(trial, testbed.Bed.control_interface, *_LINK),
    "experiment hangs": lambda trial: cut(trial, testbed.Bed.interface, *_NOTHING_LEAVES),
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


def planned(seed: int, number: int) -> tuple[str, str, float, random.Random]:
    """The kind, the node, and the instant as a share of the run's length; all of trial ``number``."""
    round_, place = divmod(number, len(FAULTS))
    order = sorted(FAULTS)
    random.Random(f"{seed} kinds {round_}").shuffle(order)
    draw = random.Random(f"{seed} trial {number}")
    return order[place], draw.choice(NODES), draw.uniform(0.02, 1.0), draw


# Trials --------------------------------------------------------------------------------------------------------------


def digests(run: Path) -> dict[str, str]:
    """The complete cells of a run, by id, with a digest of their manifests, which have those of their files."""
    found = {}
    for manifest in sorted(run.glob("cells/*/manifest.json")):
        if "partial" not in json.loads(manifest.read_text()):
            found[manifest.parent.name] = hashlib.sha256(manifest.read_bytes()).hexdigest()
    return found


def partials(run: Path) -> dict[str, str]:
    """The partial cells of a run, with what they say."""
    read = {file.parent.name: json.loads(file.read_text()) for file in run.glob("cells/*/manifest.json")}
    return {name: str(facts["partial"]) for name, facts in read.items() if "partial" in facts}


@contextlib.contextmanager
def small_disk() -> Iterator[Path]:
    """A folder on a file system of its own."""
    with tempfile.TemporaryDirectory(prefix="weir-faults-") as name:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", name], check=True)
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", "--lazy", name], check=True)


@dataclass
class Lane:
    """A test bed with its trials, one after another."""

    bed: Bed
    seed: int
    library: Path
    length_s: float = 0.0
    """How long a run takes without a fault; the longest that was seen."""

    def command(self, folder: Path) -> list[str]:
        (folder / "faults.yaml").write_text(SCENARIO)
        where = ("--on", str(self.bed.inventory), "--out", str(folder / "run"), "--no-report")
        return [*WEIR, "run", str(folder / "faults.yaml"), *where]

    def reference(self) -> None:
        """A run without a fault: for its length, and for what it leaves."""
        with small_disk() as folder:
            begun = time.monotonic()
            done = subprocess.run(self.command(folder), capture_output=True, text=True, check=False)
            if done.returncode or len(digests(folder / "run")) != CELLS:
                raise SystemExit(f"a run without a fault fails: {done.stdout}{done.stderr}")
            self.length_s = max(self.length_s, time.monotonic() - begun)
        self.bed.keep()

    def trial(self, number: int) -> dict[str, object]:
        """What happened; ``wrong`` are the checks that failed."""
        kind, node, share, draw = planned(self.seed, number)
        if not self.bed.before:
            self.reference()
        with small_disk() as folder:
            return {"kind": kind, "node": node, **self._executed(kind, node, share, draw, folder)}

    def _executed(self, kind: str, node: str, share: float, draw: random.Random, folder: Path) -> dict[str, object]:
        (folder / "ahead").write_bytes(struct.pack("q", 0))
        stepped = {"CLOCK_STEP": str(folder / "ahead"), "LD_PRELOAD": str(self.library)}
        command, begun = self.command(folder), time.monotonic()
        with (folder / "said").open("wb") as said:
            process = subprocess.Popen(command, stdout=said, stderr=said, env={**os.environ, **stepped})
        trial = Trial(self.bed, node, draw, folder, process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(share * self.length_s)
        before, at_s = digests(folder / "run"), time.monotonic() - begun
        hit = trial.runs and FAULTS[kind](trial)
        wrong = self._end(trial, at_s, begun)
        ended_s = time.monotonic() - begun
        words = (folder / "said").read_text(errors="replace")
        left = self._left(trial)
        wrong += [f"{name}: {'; '.join(lines[:8])}" for name, lines in left.items()]
        clean_s = time.monotonic() - begun - ended_s
        kept = partials(folder / "run")
        if kind in OF_A_NODE:
            wrong += [f"partial {cell} names no {node}: {text}" for cell, text in kept.items() if node not in text]
        for mend in trial.mends:
            mend()
        if left:
            weir("clean", "--on", str(self.bed.inventory), "--all")
        again = subprocess.run(command, capture_output=True, text=True, check=False)
        after = digests(folder / "run")
        wrong += [f"cell {cell} was lost or changed" for cell, digest in before.items() if after.get(cell) != digest]
        if again.returncode or len(after) != CELLS:
            wrong.append(f"the run is not complete: {(again.stdout + again.stderr)[-600:]}; before: {words[-600:]}")
        if left:
            self.bed.renew()
        return {"at_s": at_s, "hit": hit, "ended_s": ended_s - at_s, "clean_s": clean_s, "kept": kept, "wrong": wrong}

    def _end(self, trial: Trial, at_s: float, begun: float) -> list[str]:
        try:
            trial.process.wait(END_S)
        except subprocess.TimeoutExpired:
            trial.process.kill()
            trial.process.wait()
            return ["the run did not end"]
        spent_s, allowed_s = time.monotonic() - begun, max(at_s, self.length_s) + WITHIN_S
        return [f"the run ended after {spent_s:.0f} s; allowed are {allowed_s:.0f} s"] if spent_s > allowed_s else []

    def _left(self, trial: Trial) -> dict[str, list[str]]:
        """What is not as before when the nodes have had time to restore themselves; faults of the trial are undone."""
        deadline = time.monotonic() + CLEAN_S
        while True:
            try:
                left = self.bed.changed(trial.gone)
            except BedError as error:
                return {trial.node: [str(error)]}
            expected = "+ qdisc bfifo", "- qdisc", "+ local", "- local", "- 10.", "- broadcast"
            if trial.mends and trial.node in left:  # the fault itself is there
                left[trial.node] = [line for line in left[trial.node] if not line.startswith(expected)]
                left = {node: lines for node, lines in left.items() if lines}
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.5)


def main() -> None:
    options = _arguments()
    _in_own_mounts()
    numbers: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(options.first, options.first + options.trials):
        numbers.put(number)
    results: dict[int, dict[str, object]] = {}
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="weir-faults-") as folder:
        library = Path(folder) / "step.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O", "-o", library, HERE / "clock_step.c"], check=True)

        def work(place: int) -> None:
            bed = Bed(f"faults{os.getpid():x}-{place}", library)
            try:
                lane = Lane(bed, options.seed, library)
                while not numbers.empty():
                    with contextlib.suppress(queue.Empty):
                        number = numbers.get_nowait()
                        results[number] = lane.trial(number)
                        _tell(number, results[number])
            finally:
                bed.down()

        threads = [threading.Thread(target=work, args=(place,)) for place in range(min(options.beds, options.trials))]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            while not numbers.empty():
                numbers.get()
            raise
    told = _summary(results, options, time.monotonic() - begun)
    sys.stdout.write(json.dumps(told, indent=2) + "\n")
    sys.exit(1 if told["failed"] or len(results) < options.trials else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, metavar="N", help="begin with this trial")
    parser.add_argument("--beds", type=int, default=2, help="test beds beside one another")
    options = parser.parse_args()
    lacking = [name for name in ("cc", "unshare", "sshd") if not shutil.which(name, path=_PATH)]
    if os.geteuid() or lacking:
        why = f"it lacks {', '.join(lacking)}" if lacking else "it needs root"
        parser.exit(2, f"no faults can be tried on this machine: {why}\n")
    return options


_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
_MARK = "WEIR_FAULTS_MOUNTS"


def _in_own_mounts() -> None:
    """Executes this program anew in a mount namespace: what it mounts goes with it, however it ends."""
    if _MARK not in os.environ:
        os.environ[_MARK] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])


def _tell(number: int, found: dict[str, object]) -> None:
    when = f"{found['kind']} ({found['node']}, {found['at_s']:.1f} s)"
    hit = "" if found["hit"] else "no hit; "
    spent = f"{hit}ended {found['ended_s']:.1f} s later, clean after {found['clean_s']:.1f} s"
    wrong = "; ".join(found["wrong"]) if isinstance(found["wrong"], list) else ""
    sys.stdout.write(f"{number:4} {when}: {spent}: {wrong or 'good'}\n")
    sys.stdout.flush()


def _summary(results: dict[int, dict[str, object]], options: argparse.Namespace, seconds: float) -> dict[str, object]:
    kinds: dict[str, list[dict[str, object]]] = defaultdict(list)
    for found in results.values():
        kinds[str(found["kind"])].append(found)

    def about(several: list[dict[str, object]]) -> dict[str, object]:
        hits = [one for one in several if one["hit"]]
        found: dict[str, object] = {"trials": len(several), "hits": len(hits)}
        for name in ("ended_s", "clean_s") if hits else ():
            values = [float(str(one[name])) for one in hits]
            found[name] = {"median": round(statistics.median(values), 1), "max": round(max(values), 1)}
        return found

    return {
        "trials": len(results),
        "seed": options.seed,
        "first": options.first,
        "failed": {number: found for number, found in sorted(results.items()) if found["wrong"]},
        "partial_cells": sum(len(found["kept"]) for found in results.values() if isinstance(found["kept"], dict)),
        "kinds": {kind: about(several) for kind, several in sorted(kinds.items())},
        "seconds": round(seconds),
    }


if __name__ == "__main__":
    main()
