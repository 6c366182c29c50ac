"""Measures the lab's speed on this machine: ``python benches/lab.py``.

Each case is a plan of 60 virtual seconds in the lab, in a process of its own, with TCP_INFO of every flow every 20 ms;
the time to start the lab counts. The figure of merit is virtual time per second of CPU, because a lab has one core and
other programs may use the rest; wall time is shown too. Then as many labs as processors run at once, compared with one
after the other. Results are printed and stored in ``benches/results/lab.json``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULT = HERE / "results" / "lab.json"

_SCENARIO = """\
title: {what}
seed: 1
topology:
  dumbbell:
    pairs: {flows}
    access: {{rate: 10Gbps}}
    bottleneck: {{rate: {rate}, queue: {{droptail: {{size: 1bdp}}}}}}
    rtt: {rtt}
transport: {{cc: "linux:cubic", buffers: {buffers}}}
workload:
  - {{name: flows, between: pairs, kind: bulk, start: 0s, until: {until}s}}
measure: {{goodput: 500ms, tcp: 20ms, links: 20ms}}
methods: {{lab: {{offload: {offload}}}}}
"""


@dataclass(frozen=True)
class Case:
    """One plan, and its target speed as a multiple of real time."""

    name: str
    flows: int
    rate: str
    rtt: str
    buffers: str
    offload: str
    until_s: float
    aim: float

    @property
    def what(self) -> str:
        """Description in words."""
        packets = "trains of segments" if self.offload == "trains" else "1500 B packets"
        return f"{self.flows} flows into {self.rate}, {self.rtt}, {packets}"


CASES = (
    Case("small", 4, "100Mbps", "20ms", "4MB", "packets", 60, 5),
    Case("gigabit", 1, "1Gbps", "10ms", "16MB", "trains", 60, 15),
    Case("gigabit-packets", 1, "1Gbps", "10ms", "16MB", "packets", 20, 1),
    Case("ten-gigabit", 12, "10Gbps", "10ms", "32MB", "trains", 20, 1.5),
    Case("ten-gigabit-packets", 12, "10Gbps", "10ms", "32MB", "packets", 5, 0.3),
)


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(case.name for case in CASES)}")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each case, pairs of labs (default %(default)s)")
    parser.add_argument("--shorter", type=float, default=1.0, help="scales the virtual time, for a smoke test")
    parser.add_argument("--no-scaling", action="store_true", help="without concurrent labs")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(_execute(_case(arguments.child), arguments.shorter)))
        return
    chosen = [_case(name) for name in arguments.cases] or list(CASES)
    print(f"{'case':<22}{'x real/CPU':>12}{'x real/wall':>12}{'aim':>6}{'goodput Gb/s':>14}  what")
    report: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "load_1min": round(os.getloadavg()[0], 2),
        "cases": [_bench(case, arguments.repeats, arguments.shorter) for case in chosen],
    }
    if not arguments.no_scaling:
        report["scaling"] = _scaling(CASES[0], arguments.repeats, arguments.shorter)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(f"stored in {RESULT.relative_to(HERE.parent)}")


def _case(name: str) -> Case:
    found = next((case for case in CASES if case.name == name), None)
    if found is None:
        raise SystemExit(f"no case {name!r}; there are {', '.join(case.name for case in CASES)}")
    return found


def _bench(case: Case, repeats: int, shorter: float) -> dict[str, Any]:
    runs = [_collect(_start(case, shorter)) for _ in range(repeats)]
    medians = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    print(
        f"{case.name:<22}{medians['per_cpu_s']:>12.2f}{medians['per_wall_s']:>12.2f}{case.aim:>6g}"
        f"{medians['goodput_gbps']:>14.3f}  {case.what}",
        flush=True,
    )
    return {"case": case.name, "what": case.what, "aim": case.aim, "repeats": repeats, **medians}


def _start(case: Case, shorter: float) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--child", case.name, "--shorter", str(shorter)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _collect(process: subprocess.Popen[str]) -> dict[str, float]:
    out, _ = process.communicate()
    if process.returncode:
        raise SystemExit(process.returncode)
    found: dict[str, float] = json.loads(out)
    return found


def _scaling(case: Case, repeats: int, shorter: float) -> dict[str, float]:
    """Speed-up of one lab per processor at once over one after the other, median of pairs."""
    count = len(os.sched_getaffinity(0))
    gains = []
    for _ in range(repeats):
        in_turn_s = sum(_wall(case, 1, shorter) for _ in range(count))
        gains.append(in_turn_s / _wall(case, count, shorter))
    gain = statistics.median(gains)
    listed = ", ".join(f"{each:.2f}" for each in sorted(gains))
    print(f"{count} labs at once take 1/{gain:.2f} of the time that they take one after the other ({listed})")
    return {"labs": count, "repeats": repeats, "gain": round(gain, 3)}


def _wall(case: Case, count: int, shorter: float) -> float:
    begin = time.monotonic()
    for process in [_start(case, shorter) for _ in range(count)]:
        _collect(process)
    return time.monotonic() - begin


# In a process of its own, so that the CPU time of its children is the lab's ------------------------------------


def _execute(case: Case, shorter: float) -> dict[str, float]:
    from weir import methods

    plan = _plan(case, shorter)
    sink = _Counting()
    begin = time.monotonic()
    methods.get("lab").execute(json.dumps(plan), sink, lambda *_: None)
    wall_s = time.monotonic() - begin
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    virtual_s = plan["end_ns"] / 1e9
    return {
        "virtual_s": virtual_s,
        "wall_s": round(wall_s, 3),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 3),
        "per_wall_s": round(virtual_s / wall_s, 3),
        "per_cpu_s": round(virtual_s / (usage.ru_utime + usage.ru_stime), 3),
        "goodput_gbps": round(sink.delivered_bytes * 8e-9 / virtual_s, 4),
    }


def _plan(case: Case, shorter: float) -> dict[str, Any]:
    from weir.cli._scenarios import load

    text = _SCENARIO.format(
        what=case.what,
        flows=case.flows,
        rate=case.rate,
        rtt=case.rtt,
        buffers=case.buffers,
        offload=case.offload,
        until=max(0.5, case.until_s * shorter),
    )
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        cells: Sequence[Any] = load(file.name, quiet=True).cells()
        plan: dict[str, Any] = cells[0].plan()
    return plan


class _Counting:
    """A sink that sums up the delivered bytes."""

    def __init__(self) -> None:
        self.delivered_bytes = 0

    def write(self, table: str, rows: Any) -> None:
        if table == "goodput":
            self.delivered_bytes += sum(rows.column("delivered_bytes").to_pylist())

    def open(self, name: str) -> Any:
        import io

        return io.BytesIO()


if __name__ == "__main__":
    main()
