#!/usr/bin/env python3
"""What a cell costs on a cluster, how two workers scale, and what one scheduler carries.

    benches/cluster.py [--repeats N] [--cells N] [--workers N] [--seconds S]

Three measurements on this machine, with Dask workers as programs of their own:

- a cell's cost: small cells of the simulator, locally and on one Dask worker, in pairs;
- scaling: cells that compute, on one worker and on two, in pairs; their order alternates, and the best pair and the
  median are printed, because others may use the machine. Beside them the same with processes of this machine, without a
  cluster: what its processors can bring;
- a scheduler's limit: empty cells through ``--workers`` workers of one thread. They are Dask workers without nannies,
  all in few processes, and their cells are made by the worker itself instead of a process beside it: a hundred Pythons
  with Arrow would measure this machine's memory. What remains is what the controller and the scheduler do for a cell:
  submission, answer, checksums, the write of the folder with its fsyncs.
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
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "engine")]

import fake  # noqa: E402

from weir import cluster, engine  # noqa: E402
from weir.cluster import _far  # noqa: E402

_PROCESSES = 4


@contextlib.contextmanager
def dask(workers: int, processes: int | None = None) -> Iterator[str]:
    """The address of a scheduler with ``workers`` workers of one thread, in as many processes or in ``processes``."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        file = Path(name) / "scheduler.json"
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'python'}{os.pathsep}{ROOT / 'tests' / 'engine'}"}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
        module = [sys.executable, "-m"]
        scheduler = [*module, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
        started = [subprocess.Popen([*scheduler, "--scheduler-file", str(file)], **quiet)]  # type: ignore[call-overload]
        try:
            while not file.exists():
                time.sleep(0.05)
            time.sleep(0.2)
            address = json.loads(file.read_text())["address"]
            if processes is None:
                one = [
                    *module,
                    "distributed.cli.dask_worker",
                    address,
                    "--nthreads",
                    "1",
                    "--no-nanny",
                    "--no-dashboard",
                ]
                commands = [[*one, "--local-directory", name]] * workers
            else:
                share = [workers // processes + (number < workers % processes) for number in range(processes)]
                commands = [[sys.executable, __file__, "--many", str(count), address, name] for count in share]
            started += [subprocess.Popen(command, **quiet) for command in commands]  # type: ignore[call-overload]
            wait_for(address, workers)
            yield address
        finally:
            for process in reversed(started):
                process.terminate()
            for process in started:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=30)
                process.kill()


def wait_for(address: str, workers: int) -> None:
    from distributed import Client

    with Client(address, set_as_default=False, timeout=60) as client:
        client.wait_for_workers(workers, timeout=300)


def many(count: int, address: str, folder: str) -> None:
    """Serves as ``count`` workers of one thread in this process."""
    import asyncio

    from distributed import Worker

    async def serve() -> None:
        workers = [Worker(address, nthreads=1, local_directory=folder, heartbeat_interval="5s") for _ in range(count)]
        await asyncio.gather(*workers)
        await asyncio.gather(*(worker.finished() for worker in workers))

    asyncio.run(serve())


class Timed:
    """A place of the engine that notes when its workers were ready."""

    def __init__(self, place: engine.Workers) -> None:
        self._place = place
        self.refusal, self.obstacle = place.refusal, place.obstacle
        self.begun = 0.0

    def start(self, *arguments: Any) -> engine.Executor:
        executor = self._place.start(*arguments)
        self.begun = time.monotonic()
        return executor


def far(address: str, titles: Sequence[str], out: Path, method: str) -> float:
    """Seconds from the first submission to the last cell in its place: without connecting and making workers ready."""
    with cluster.connect(cluster.parse(f"dask:{address}")) as place:
        timed = Timed(place)
        result = engine.run(fake.scenario(*titles), out, method=method, place=timed)
        end = time.monotonic()
    assert not result.failures, result.failures[0]
    return end - timed.begun


def pairs(repeats: int, *sides: object) -> list[list[float]]:
    """What each of ``sides`` returns, ``repeats`` times, in alternating order."""
    found: list[list[float]] = [[] for _ in sides]
    for repeat in range(repeats):
        order = range(len(sides)) if repeat % 2 == 0 else reversed(range(len(sides)))
        for number in order:
            found[number].append(sides[number](repeat))  # type: ignore[operator]
            took = f"repeat {repeat + 1} of {repeats}, side {number + 1} of {len(sides)}: {found[number][-1]:.3f} s"
            print(took, file=sys.stderr, flush=True)
    return found


def cost(cells: int, repeats: int, folder: Path) -> None:
    few, more = ["rows=1"] * 2, ["rows=1"] * (cells + 2)

    def local(repeat: int) -> float:
        def took(titles: Sequence[str], name: str) -> float:
            out = folder / f"{name}-{repeat}"
            return engine.run(fake.scenario(*titles), out, method=fake.METHOD, workers=1).wall_s

        return (took(more, "local-more") - took(few, "local-few")) / cells

    with dask(1) as address:

        def away(repeat: int) -> float:
            least = far(address, few, folder / f"far-few-{repeat}", fake.METHOD)
            return (far(address, more, folder / f"far-more-{repeat}", fake.METHOD) - least) / cells

        here, there = pairs(repeats, local, away)
    own, other = (1e3 * statistics.median(times) for times in (here, there))
    print(f"an empty cell: {own:.1f} ms here, {other:.1f} ms on a worker")


def scaling(seconds: int, repeats: int, folder: Path) -> None:
    titles = [f"seconds={seconds}"] * 8

    def local(workers: int, repeat: int) -> float:
        out = folder / f"local-{workers}-{repeat}"
        return engine.run(fake.scenario(*titles), out, method="sim", workers=workers).wall_s

    with dask(1) as one, dask(2) as two:
        for address in (one, two):
            far(address, ["seconds=1"] * 2, folder / f"warm-{address[-5:]}", "sim")
        single, double, own, both = pairs(
            repeats,
            lambda repeat: far(one, titles, folder / f"one-{repeat}", "sim"),
            lambda repeat: far(two, titles, folder / f"two-{repeat}", "sim"),
            lambda repeat: local(1, repeat),
            lambda repeat: local(2, repeat),
        )
    for what, first, second in (("worker", single, double), ("process without a cluster", own, both)):
        ratios = [a / b for a, b in zip(first, second, strict=True)]
        words = ", ".join(f"{a:.1f} s / {b:.1f} s = {a / b:.2f}" for a, b in zip(first, second, strict=True))
        print(
            f"one {what} / two, 8 cells each: {words}; median {statistics.median(ratios):.2f}, best {max(ratios):.2f}"
        )


def limit(workers: int, cells: int, folder: Path) -> None:
    """Empty cells, whose folder the worker copies from one that was executed."""
    pattern = folder / "pattern"
    engine.run(fake.scenario("rows=1"), pattern, method=fake.METHOD, workers=1)
    empty(pattern / "cells/c0")
    with dask(workers, _PROCESSES) as address:
        begin = time.monotonic()
        wall_s = far(address, ["rows=1"] * cells, folder / "limit", fake.METHOD)
        print(
            f"{workers} workers in {_PROCESSES} processes: {cells} empty cells in {wall_s:.1f} s, {cells / wall_s:.0f} "
            f"a second, with {time.monotonic() - begin - wall_s:.1f} s before and after"
        )


def empty(cell: Path) -> None:
    """Makes agents that this process sends answer at once with the files of ``cell``, under the job's manifest."""
    from weir.engine._cell import CellWriter  # noqa: F401

    held = {path.name: path.read_bytes() for path in cell.iterdir() if path.name not in ("manifest.json", "plan.json")}

    class Instant(_far.Agent):
        """Executes nothing."""

        def facts(self) -> dict[str, object]:
            return told

        def execute(self, job: object, objects: object, key: str) -> dict[str, object]:
            import json
            from pathlib import Path
            from tempfile import TemporaryDirectory

            from weir.run.checksums import FORMAT, seal

            found = {"warnings": [], "stats": {}, "wall_s": 0.0}
            with TemporaryDirectory() as name:
                files = {**held, "plan.json": job["plan"].encode()}  # type: ignore[index]
                for file, content in files.items():
                    (Path(name) / file).write_bytes(content)
                manifest = seal({"format": FORMAT, **job["manifest"], **found}, Path(name), sorted(files))  # type: ignore[index]
            files["manifest.json"] = (json.dumps(manifest, indent=2) + "\n").encode()
            message = {"type": "done", "id": job["id"], **found}  # type: ignore[index]
            sizes = {file: len(content) for file, content in files.items()}
            return {"message": message, "folder": "", "files": sizes, "content": files}

    from weir.cluster import node

    told = node.facts(fake.METHOD)
    _far.Agent = Instant  # type: ignore[misc]


def main() -> None:
    if sys.argv[1:2] == ["--many"]:
        many(int(sys.argv[2]), sys.argv[3], sys.argv[4])
        return
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--cells", type=int, default=100)
    options.add_argument("--workers", type=int, default=100)
    options.add_argument("--seconds", type=int, default=3000, help="simulated seconds of a cell that computes")
    options.add_argument("--only", choices=("cost", "scaling", "limit"))
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if asked.only in (None, "cost"):
            cost(asked.cells, asked.repeats, folder)
        if asked.only in (None, "scaling"):
            scaling(asked.seconds, asked.repeats, folder)
        if asked.only in (None, "limit"):
            limit(asked.workers, 10 * asked.workers, folder)


if __name__ == "__main__":
    main()
