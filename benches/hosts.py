"""Measures how many real machines one controller carries, on a test bed of this machine:

    sudo .venv/bin/python benches/hosts.py               128 nodes, five minutes
    sudo .venv/bin/python benches/hosts.py --quick       8 nodes, one minute
    sudo .venv/bin/python benches/hosts.py --idle 30min  also: connections that carry nothing for so long

- *reach*: SSH connections to all nodes (``weir.hosts.ssh.connect_all``), then their facts as ``weir hosts check`` asks
  for them.
- *memory*: of the controller and its ``ssh`` processes, proportional set size: a page that n processes share counts
  1/n in each (proc_pid_smaps(5)).
- *run*: ``weir run --method hosts`` of one slow flow for each pair of nodes, several times. *started* is when the flows
  of the first begin, after connections, deployment, calibration; *skew* is the time from the first start of a node to
  the last, as each run measured it, and *after_first* how long after the first a node begins.

Nodes, their servers and the controller share this machine's processors: on machines of their own, everything but the
controller's share is parallel. Needs root. Results are printed and stored in ``benches/results/hosts.json``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from weir.hosts.facts import gather
from weir.hosts.ssh import Connections, connect_all
from weir.inventory import Inventory, load
from weir.run.quantity import parse_quantity

HERE = Path(__file__).parent.absolute()
PLAN_S = 5
REPEATS = 3
TARGETS = {
    "started_s": 60.0,
    "run_memory_mb": 1000.0,
    "after_first_median_ms": 2.0,
    "skew_median_ms": 2.0,
    "skew_max_ms": 10.0,
}
"""Upper limits, for 128 nodes without other load."""
_WEIR = (sys.executable, "-m", "weir")
_SCENARIO = """\
title: One slow flow for each pair of nodes
transport: {{cc: "linux:reno"}}
topology:
  dumbbell: {{pairs: {pairs}, access: {{rate: 1Gbps}}, bottleneck: {{rate: 1Gbps, queue: 1000packets}}, rtt: 18ms}}
workload:
  - {{name: slow, kind: cbr, between: pairs, rate: 50kbps}}
repeat: {repeat}
duration: {seconds}s
"""


def main() -> None:
    """Measures, prints, stores."""
    asked = _arguments()
    _tell(f"makes a test bed of {asked.nodes} nodes")
    with _bed(asked.nodes) as inventory:
        machines = load(inventory)
        figures: dict[str, Any] = {"nodes": len(machines.nodes), "load_before": os.getloadavg()[0]}
        _tell(f"connects to all nodes{f', and waits {asked.idle:g} s' if asked.idle else ''}")
        figures |= _reach(machines, asked.idle)
        _tell(f"executes {REPEATS} cells of {PLAN_S} s on all nodes")
        figures |= _run(inventory, len(machines.nodes) // 2)
    figures["within"] = {name: figures[name] <= most for name, most in TARGETS.items() if figures.get(name) is not None}
    text = json.dumps(figures, indent=2)
    sys.stdout.writelines((text, "\n"))
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    (results / "hosts.json").write_text(text + "\n", encoding="utf-8")


def _tell(what: str) -> None:
    """Says what happens now."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=128, help="number of nodes, on two sites")
    parser.add_argument("--quick", action="store_true", help="8 nodes")
    parser.add_argument("--idle", type=_seconds, default=0.0, metavar="TIME", help="let connections rest so long")
    asked = parser.parse_args()
    asked.nodes = 8 if asked.quick else asked.nodes
    return asked


def _seconds(text: str) -> float:
    found = parse_quantity(text)
    if found is None:
        raise argparse.ArgumentTypeError("expected a time such as 30min")
    return found.value


@contextlib.contextmanager
def _bed(nodes: int) -> Iterator[Path]:
    """A test bed; its inventory."""
    name = f"bench-{os.getpid()}"
    up = ("testbed", "up", "--name", name, "--sites", "2", "--nodes", str(nodes // 2), "--rtt", "18ms", "--json")
    try:
        made = json.loads(_weir(*up).stdout)
        yield Path(made["inventory"])
    finally:
        _weir("testbed", "down", "--name", name)


def _weir(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*_WEIR, *words], capture_output=True, text=True, check=True)


def _reach(machines: Inventory, idle_s: float) -> dict[str, Any]:
    begin = time.monotonic()
    with connect_all(machines.nodes, patience_s=120.0) as made:
        reached = time.monotonic()
        with ThreadPoolExecutor(32) as pool:
            facts = [*pool.map(gather, made.places.values())]
        asked = time.monotonic()
        memory = _memory_mb()
        answered = _after(made, idle_s)
        closing = time.monotonic()
    return {
        "reached": len(facts),
        "connect_s": reached - begin,
        "ask_s": asked - reached,
        "close_s": time.monotonic() - closing,
        "memory_mb": memory,
        "idle_s": idle_s,
        "answer_after_idle": answered,
        "clock_error_max_us": max(each.asked_error_s for each in facts) * 1e6,
    }


def _after(made: Connections, idle_s: float) -> int | None:
    """How many places answer after a time in which nothing was asked."""
    if not idle_s:
        return None
    time.sleep(idle_s)
    return sum(place.run(["true"]).code == 0 for place in made.places.values())


def _run(inventory: Path, pairs: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        scenario, out = Path(folder, "pairs.yaml"), Path(folder, "run")
        scenario.write_text(_SCENARIO.format(pairs=pairs, repeat=REPEATS, seconds=PLAN_S), encoding="utf-8")
        words = [*_WEIR, "run", scenario, "--method", "hosts", "--on", inventory, "--out", out, "-q"]
        begin = time.monotonic()  # the clock of ``begin_ns``, too
        process = subprocess.Popen([*map(str, words)], stdout=subprocess.DEVNULL)
        most = [0.0]
        watcher = threading.Thread(target=_watch, args=(process, most), daemon=True)
        watcher.start()
        try:
            code = process.wait()
        finally:
            process.terminate()
        wall_s = time.monotonic() - begin
        watcher.join()
        cells = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(out.glob("cells/*/clocks.json"))]
        manifests = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(out.glob("cells/*/manifest.json"))]
    skews = [cell["skew_ns"] / 1e6 for cell in cells if cell["skew_ns"] is not None]
    return {
        "run_exit": code,
        "cells": len(cells),
        "started_s": min(cell["begin_ns"] for cell in cells) / 1e9 - begin if cells else None,
        "setup_s": {name[6:-2]: value for name, value in _setup(manifests) if value >= 0.1},
        "run_s": wall_s,
        "run_memory_mb": most[0],
        "skew_median_ms": statistics.median(skews) if skews else None,
        "skew_max_ms": max(skews, default=None),
        "after_first_median_ms": statistics.median(late) if (late := _after_first_ms(cells)) else None,
    }


def _after_first_ms(cells: list[dict[str, Any]]) -> list[float]:
    """How long after the first node of its run each node began."""
    found = []
    for cell in cells:
        off = [node["start_off_ns"] for node in cell["nodes"].values() if node["start_off_ns"] is not None]
        found += [(each - min(off)) / 1e6 for each in off]
    return found


def _setup(manifests: list[dict[str, Any]]) -> list[tuple[str, float]]:
    """What the first cell did before its start, and how long it took."""
    stats = manifests[0]["stats"] if manifests else {}
    return [(name, value) for name, value in stats.items() if name.startswith("setup.")]


def _watch(process: subprocess.Popen[bytes], most: list[float]) -> None:
    while process.poll() is None:
        most[0] = max(most[0], _memory_mb(process.pid))
        time.sleep(1.0)


def _memory_mb(pid: int | None = None) -> float:
    """Proportional set size of a process and all its descendants."""
    return sum(_own_mb(each) for each in _descendants(pid or os.getpid()))


def _descendants(pid: int) -> list[int]:
    found = [pid]
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [each for child in file.read_text(encoding="ascii").split() for each in _descendants(int(child))]
    return found


def _own_mb(pid: int) -> float:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1e3
    return 0.0


if __name__ == "__main__":
    main()
