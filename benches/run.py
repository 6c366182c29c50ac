"""Measures the simulator's speed on this machine: ``make bench``.

Each case runs in a process of its own, which executes it twice and writes its tables as a run does: the first time the
process gets its memory from the kernel, which the later cells of a sweep use again. The median over repeats counts.
Then a small sweep runs with one worker and with two; sweeps of small cells tell what a cell and a worker cost. Results
are printed and stored in ``benches/results/latest.json``. On a busy machine only the figures per second of CPU are
meaningful.
"""

from __future__ import annotations

import argparse
import datetime
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plans import CASES, SMALL, Bench

HERE = Path(__file__).parent
RESULT = "benches/results/latest.json"

_FIRST = 0.01
"""Part of the simulated time that a process executes before it is measured."""
_COLUMNS = (
    ("case", 10, "case", ""),
    ("Gbit/wall s", 13, "gbit_per_wall_s", ".1f"),
    ("Gbit/CPU s", 12, "gbit_per_cpu_s", ".1f"),
    ("later cells", 13, "later_gbit_per_wall_s", ".1f"),
    ("x real time", 13, "real_time_factor", ".2f"),
    ("packets/s", 12, "packets_per_s", ",.0f"),
    ("peak MB", 9, "peak_mb", ".0f"),
)
"""Title, width, key and format of the columns printed."""


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(case.name for case in CASES)}")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each case (default %(default)s)")
    parser.add_argument("--shorter", type=float, default=1.0, help="scales the simulated time, for a smoke test")
    parser.add_argument("--no-scaling", action="store_true", help="without the sweeps")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(_measure(_case(arguments.child), arguments.shorter)))
        return
    chosen = [_case(name) for name in arguments.cases] or list(CASES)
    print("".join(f"{title:>{width}}" for title, width, *_ in _COLUMNS) + "  what")
    report = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "host": _host(),
        "cases": [_bench(case, arguments.repeats, arguments.shorter) for case in chosen],
    }
    if not arguments.no_scaling:
        report["scaling"] = _scaling(arguments.shorter)
        report["small_cells"] = _small_cells()
    target = HERE / "results" / "latest.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(f"stored in {RESULT}")


def _case(name: str) -> Bench:
    for case in CASES:
        if case.name == name:
            return case
    raise SystemExit(f"no case {name!r}; there are {', '.join(case.name for case in CASES)}")


def _bench(case: Bench, repeats: int, shorter: float) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", case.name, "--shorter", str(shorter)]
    runs = [json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout) for _ in range(repeats)]
    medians = {key: _median(runs, key) for key in runs[0]}
    medians["spread"] = round(max(r["wall_s"] for r in runs) / min(r["wall_s"] for r in runs) - 1, 3)
    shown = {**medians, "case": case.name, "peak_mb": medians["peak_rss_bytes"] / 1e6}
    print("".join(f"{shown[key]:>{width}{form}}" for _, width, key, form in _COLUMNS) + f"  {case.what}", flush=True)
    return {"case": case.name, "what": case.what, "repeats": repeats, **medians}


def _median(runs: Sequence[dict[str, float]], key: str) -> float:
    value = statistics.median(run[key] for run in runs)
    return round(value, 4) if isinstance(value, float) else value


def _measure(case: Bench, shorter: float) -> dict[str, float]:
    """Runs ``case`` in this process, as a worker would: tables are written to a disk."""
    import pyarrow.parquet as pq

    from weir import _memory, methods
    from weir.engine._cell import CellWriter
    from weir.plan import canonical

    _memory.keep_freed()
    plan = case.plan(shorter)
    text = canonical(plan)
    method = methods.get("sim")
    with tempfile.TemporaryDirectory() as folder:
        with CellWriter(Path(folder), "first") as cell:  # imports what a worker imports once
            method.execute(canonical(case.plan(_FIRST)), cell, lambda _now_ns: None)
        before = _peak_rss_bytes()
        begin, cpu = time.perf_counter(), time.process_time()
        with CellWriter(Path(folder), case.name) as cell:
            outcome = method.execute(text, cell, lambda _now_ns: None)
            cell.commit(text, {})
        wall_s, cpu_s = time.perf_counter() - begin, time.process_time() - cpu
        peak = _peak_rss_bytes()
        begin = time.perf_counter()
        with CellWriter(Path(folder), "later") as cell:
            method.execute(text, cell, lambda _now_ns: None)
            cell.commit(text, {})
        later_wall_s = time.perf_counter() - begin
        file = Path(folder) / "cells" / case.name / "links.parquet"
        links = pq.read_table(file, filters=[("link", "in", case.counted(plan))])
        carried_bits = 8 * sum(links["out_bytes"].to_pylist())
    simulated_s = plan["end_ns"] / 1e9
    return {
        "gbit_per_wall_s": carried_bits / 1e9 / wall_s,
        "gbit_per_cpu_s": carried_bits / 1e9 / cpu_s,
        "later_gbit_per_wall_s": carried_bits / 1e9 / later_wall_s,
        "real_time_factor": simulated_s / wall_s,
        "packets_per_s": outcome.stats["packets"] / wall_s,
        "events_per_s": outcome.stats["events"] / wall_s,
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "simulated_s": simulated_s,
        "carried_gbit": carried_bits / 1e9,
        "utilisation": carried_bits / case.bottleneck_bps / simulated_s,
        "packets": outcome.stats["packets"],
        "peak_rss_bytes": peak,
        "rss_before_bytes": before,
        "max_packets_in_flight": outcome.stats["max_in_flight"],
    }


def _peak_rss_bytes() -> int:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmHWM")


class _SweepCell:
    """A cell of the sweep that measures scaling."""

    factors: dict[str, str] = {}  # noqa: RUF012
    repeat = 0

    def __init__(self, case: Bench, number: int, shorter: float) -> None:
        self.id = f"{case.name}-{number}"
        self._plan = case.plan(shorter) | {"seed": number}

    def plan(self) -> dict[str, Any]:
        """The plan."""
        return self._plan


class _Sweep:
    title = "scaling"
    text = "title: scaling\n"
    file = "benches/run.py"
    expect = ()
    summary = ()

    def __init__(self, case: Bench, cells: int, shorter: float = 1.0) -> None:
        self._cells = [_SweepCell(case, n, shorter) for n in range(cells)]

    def cells(self) -> list[_SweepCell]:
        """The cells, which differ in their seeds."""
        return self._cells


def _scaling(shorter: float) -> dict[str, float]:
    from weir import engine

    wall = {}
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            sweep = _Sweep(CASES[0], 8, shorter / 2)
            wall[workers] = engine.run(sweep, Path(folder) / "run", workers=workers).wall_s
    speed_up = wall[1] / wall[2]
    print(f"a sweep of 8 cells: {wall[1]:.1f} s with 1 worker, {wall[2]:.1f} s with 2: {speed_up:.2f} x")
    return {"one_worker_s": round(wall[1], 3), "two_workers_s": round(wall[2], 3), "speed_up": round(speed_up, 3)}


def _small_cells() -> dict[str, float]:
    """What a cell of a few milliseconds of work costs in a sweep, and what its first cell costs beyond that."""
    few, many = 4, 100
    took = {cells: [_small_sweep(cells) for _ in range(3)] for cells in (few, many)}
    found: dict[str, float] = {}
    for clock, place in (("wall", 0), ("cpu", 1)):
        less, more = (statistics.median(times[place] for times in took[cells]) for cells in (few, many))
        cell_s = (more - less) / (many - few)
        found |= {
            f"cell_{clock}_ms": round(1e3 * cell_s, 2),
            f"start_{clock}_ms": round(1e3 * (less - few * cell_s), 1),
        }
    print(
        "a small cell: {cell_wall_ms} ms, {cell_cpu_ms} ms of CPU; the start of a run with one worker: "
        "{start_wall_ms} ms, {start_cpu_ms} ms of CPU".format(**found)
    )
    return found


def _small_sweep(cells: int) -> tuple[float, float]:
    """Wall and processor time of a sweep of small cells with one worker, seconds."""
    from weir import engine

    with tempfile.TemporaryDirectory() as folder:
        before = _cpu_s()
        wall_s = engine.run(_Sweep(SMALL, cells), Path(folder) / "run", workers=1).wall_s
    return wall_s, _cpu_s() - before


def _cpu_s() -> float:
    """Processor time of this process and of those that it has waited for."""
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def _host() -> dict[str, Any]:
    from weir.engine import _host

    return {**_host.facts(), **_host.versions(), "commit": _host.commit()}


if __name__ == "__main__":
    main()
