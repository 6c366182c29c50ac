"""Measures the cost of checksums: reading a run with and without them, in pairs, and writing them.

    python benches/checksums.py [--pairs 15] [--scenario A/large-flows] [RUN]

Times are processor times of this process, so that a busy machine changes them little. Each pair reads the run once with
and once without all comparisons, in alternating order; the cost is the median difference over the median without. The
share of one read's time that is spent in comparisons measures the same with less noise. The cost of writing is the time
of all checksums over the time of the cells.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from weir import engine, scenario
from weir.cli._scenarios import locate
from weir.metrics import MeasuredRun, open_run
from weir.report import build
from weir.run import RunWarning, checksums, reader

SHOWN = ("goodput.aggregate.mean", "goodput.mean", "jain")


def opened(run: MeasuredRun) -> None:
    """Reads only the manifests."""


def metrics(run: MeasuredRun) -> None:
    """The metrics that `weir show` computes by default."""
    for name in SHOWN:
        run.metrics(name)


def claims(run: MeasuredRun) -> None:
    """The verdicts, which read most tables."""
    run.verdicts()


def report(run: MeasuredRun) -> None:
    """Every table, every chart."""
    with tempfile.TemporaryDirectory() as folder:
        build(run, Path(folder) / "report.html")


READERS: tuple[Callable[[MeasuredRun], None], ...] = (opened, metrics, claims, report)


class Anything(str):
    """A text that equals every checksum."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __ne__(self, _other: object) -> bool:
        return False


def nothing(*_: object, **__: object) -> None:
    """Finds no damage. A mock that records its calls would take longer than what it stands for."""


def anything(_: object) -> Anything:
    """The checksum of whatever it is."""
    return Anything()


def seconds(folder: Path, read: Callable[[MeasuredRun], None], *, compared: bool) -> float:
    """Processor time of opening and reading the run as in a new process."""
    checksums.forget()
    with contextlib.ExitStack() as stack:
        if not compared:
            stack.enter_context(mock.patch.object(reader, "damage", nothing))
            stack.enter_context(mock.patch.object(checksums, "_digest", anything))
        begin = time.process_time()
        read(open_run(folder))
        return time.process_time() - begin


def share(folder: Path, read: Callable[[MeasuredRun], None]) -> float:
    """Share of a read's time that is spent in comparisons: exact, while the pairs are noisy."""
    spent = 0.0

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal spent
            begin = time.thread_time()  # other threads may still finish earlier work
            try:
                return function(*arguments, **options)
            finally:
                spent += time.thread_time() - begin

        return call

    with (
        mock.patch.object(reader, "damage", timed(reader.damage)),
        mock.patch.object(checksums, "_digest", timed(checksums._digest)),
    ):
        total = seconds(folder, read, compared=True)
    return spent / total


def cost_of_reading(folder: Path, read: Callable[[MeasuredRun], None], pairs: int) -> tuple[float, float, float]:
    """Median seconds without and with checksums, and the cost."""
    seconds(folder, read, compared=True)  # from here on, the files are in memory
    found = []
    for pair in range(pairs):
        order = (True, False) if pair % 2 else (False, True)
        times = {compared: seconds(folder, read, compared=compared) for compared in order}
        found.append((times[False], times[True]))
    bare = statistics.median(a for a, _ in found)
    return bare, statistics.median(b for _, b in found), statistics.median(b - a for a, b in found) / bare


def cost_of_writing(folder: Path) -> tuple[float, float, int]:
    """Duration of the cells in seconds, seconds of making their checksums, and the bytes of their files."""
    took = made = 0.0
    size = 0
    for file in sorted(folder.glob("cells/*/manifest.json")):
        manifest = json.loads(file.read_text(encoding="utf-8"))
        names = manifest["checksums"]["files"]
        begin = time.process_time()
        checksums.seal(manifest, file.parent, names)
        made += time.process_time() - begin
        took += manifest["wall_s"]
        size += sum(entry["bytes"] for entry in names.values())
    return took, made, size


def main() -> int:
    """Runs the command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("run", nargs="?", type=Path, help="a run to read; default: a new one")
    options.add_argument("--scenario", default="A/large-flows", help="scenario whose quick version is run")
    options.add_argument("--pairs", type=int, default=15)
    given = options.parse_args()
    warnings.simplefilter("ignore", RunWarning)
    with tempfile.TemporaryDirectory() as folder:
        run = given.run
        if run is None:
            run = Path(folder) / "run"
            engine.run(scenario.load(locate(given.scenario), quick=True), run)
        took, made, size = cost_of_writing(run)
        print(f"writing: {size / 1e6:.1f} MB, cells {took:.2f} s, checksums {made:.4f} s: {made / took:.3%}")
        for read in READERS:
            bare, with_, cost = cost_of_reading(run, read, given.pairs)
            shares = statistics.median(share(run, read) for _ in range(3))
            pairs = f"{bare:.4f} s without, {with_:.4f} s with: {cost:+.2%}"
            print(f"{read.__name__}: {pairs} in pairs, {shares:.2%} of its time", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
