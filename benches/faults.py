"""Random faults during runs on a test bed: nothing complete may be lost, nothing may be left on a node.

``python benches/faults.py --trials 20 --seed 1`` makes a test bed of four nodes. Each trial starts a run of three
cells, causes one fault at a random instant, and then executes the same command again. It checks that

- the first command ends, by itself, whatever has happened,
- every node is as before: parameters, processes, files of the run, journal,
- cells that were complete before the fault are the same files afterwards, and the run becomes complete.

It needs root and a server of OpenSSH. It prints one line a trial and a summary as JSON, and ends with 1 if a check
failed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

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
transport: {cc: "linux:reno", stack: linux, buffers: 1MB}
workload:
  - {name: flow, between: pairs, kind: bulk, until: 2s}
measure: {goodput: 200ms, tcp: 50ms, links: 0}
sweep: {transport.buffers: [1MB, 2MB, 3MB]}
"""
NODES = ("a1", "a2", "b1", "b2")
SAVE = "/proc/sys/net/ipv4/tcp_no_metrics_save"
LEFT = f"cat {SAVE}; ls ~/.local/state/weir /tmp 2>/dev/null | grep -E 'journal|weir-'; pgrep 'weir-agent|python'"
END_S = 300.0
"""A fault may be none, such as one of a node that is not in use yet: then the command takes its time."""
CLEAN_S = 45.0
SPAN_S = 25.0
"""Faults happen at an instant of this time after the start of the command."""

WEIR = (sys.executable, "-m", "weir")


def weir(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*WEIR, *arguments], capture_output=True, text=True, check=False)


class Bed:
    def __init__(self, name: str) -> None:
        self.name = name
        made = weir("testbed", "up", "--name", name, "--nodes", "2", "--json")
        if made.returncode:
            raise SystemExit(made.stderr)
        self.inventory = json.loads(made.stdout)["inventory"]

    def exec(self, node: str, line: str) -> str:
        return weir("testbed", "exec", "--name", self.name, node, "--", "sh", "-c", line).stdout.strip()

    def left(self) -> dict[str, str]:
        """What is left on nodes, by node."""
        found = {node: self.exec(node, LEFT) for node in NODES}
        return {node: text for node, text in found.items() if text != "0"}


def workers(pid: int) -> list[int]:
    """The children of a process that execute cells."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in children.read_text().split()] if children.exists() else []


def kill(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        os.kill(pid, number)


SESSIONS = "$(ps -eo pid,args | awk '/[s]shd: .*@notty/{print $1}')"
RELAYS = "$(ps -eo pid,args | awk '/[w]eir-relay/{print $1}')"
FAULTS: dict[str, Callable[[Bed, int, str], object]] = {
    "agent killed": lambda bed, pid, node: bed.exec(node, "kill -9 $(pgrep weir-agent)"),
    "agent stopped": lambda bed, pid, node: bed.exec(node, "kill -STOP $(pgrep weir-agent)"),
    "connection cut": lambda bed, pid, node: bed.exec(node, f"kill -9 {SESSIONS}"),
    "far end killed": lambda bed, pid, node: bed.exec(node, f"kill -9 {RELAYS}"),
    "far end stopped": lambda bed, pid, node: bed.exec(node, f"kill -STOP {RELAYS}"),
    "watchdog killed": lambda bed, pid, node: bed.exec(node, 'kill -9 $(pgrep -f \'["]do["]: ["]watch["]\')'),
    "disk full": lambda bed, pid, node: bed.exec(node, "head -c 2G /dev/zero > ~/full"),
    "controller killed": lambda bed, pid, node: os.kill(pid, signal.SIGKILL),
    "controller interrupted": lambda bed, pid, node: os.kill(pid, signal.SIGINT),
    "worker killed": lambda bed, pid, node: kill(workers(pid), signal.SIGKILL),
}


def digests(run: Path) -> dict[str, str]:
    """The complete cells of a run, by id, with a digest of their manifests, which have those of their files."""
    found = {}
    for manifest in sorted(run.glob("cells/*/manifest.json")):
        if "partial" not in json.loads(manifest.read_text()):
            found[manifest.parent.name] = hashlib.sha256(manifest.read_bytes()).hexdigest()
    return found


def trial(bed: Bed, draw: random.Random, folder: Path) -> tuple[str, list[str]]:
    """One fault; its name, and the checks that failed."""
    fault, node, at_s = draw.choice(sorted(FAULTS)), draw.choice(NODES), draw.uniform(1.0, SPAN_S)
    scenario = folder / "faults.yaml"
    scenario.write_text(SCENARIO)
    command = [*WEIR, "run", str(scenario), "--on", bed.inventory, "--out", str(folder / "run"), "--no-report"]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    time.sleep(at_s)
    before = digests(folder / "run")
    if first.poll() is None:
        FAULTS[fault](bed, first.pid, node)
    wrong = []
    try:
        said = first.communicate(timeout=END_S)[0]
    except subprocess.TimeoutExpired:
        first.kill()
        said = first.communicate()[0]
        wrong.append("the run did not end")
    bed.exec(node, "rm -f ~/full; kill -CONT $(pgrep weir-agent)")
    deadline = time.monotonic() + CLEAN_S
    while (left := bed.left()) and time.monotonic() < deadline:
        time.sleep(1.0)
    wrong += [f"{name} has {text!r} left" for name, text in left.items()]
    if left:
        weir("clean", "--on", bed.inventory, "--all")
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    after = digests(folder / "run")
    wrong += [f"cell {cell} was lost or changed" for cell, digest in before.items() if after.get(cell) != digest]
    if again.returncode or len(after) != 3:
        wrong.append(f"the run is not complete: {(again.stdout + again.stderr)[-400:]}; before: {said[-400:]}")
    return f"{fault} ({node}, {at_s:.1f} s)", wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    failed, seen = {}, Counter()
    bed = Bed(f"faults{os.getpid():x}")
    begun = time.monotonic()
    try:
        for number in range(options.trials):
            with tempfile.TemporaryDirectory(prefix="weir-faults-") as folder:
                name, wrong = trial(bed, draw, Path(folder))
            seen[name.partition(" (")[0]] += 1
            print(f"{number:4} {name}: {'; '.join(wrong) or 'good'}", flush=True)
            if wrong:
                failed[number] = [name, *wrong]
    finally:
        weir("testbed", "down", "--name", bed.name)
    about = {"trials": options.trials, "seed": options.seed, "failed": failed, "faults": dict(sorted(seen.items()))}
    print(json.dumps({**about, "seconds": round(time.monotonic() - begun)}, indent=2))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
