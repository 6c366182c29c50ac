"""Dask clusters on this machine: a scheduler and workers as programs, as people start them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import fake
import pytest
from engine_support import HERE as ENGINE
from engine_support import PACKAGE

from weir import cluster, engine

pytest.importorskip("distributed", reason="needs the extra weir[cluster]")

OWN = Path(__file__).parent
HANG_S = 120.0
"""Only against a hang: no result depends on the machine's speed."""


@dataclass
class Cluster:
    """A scheduler and its workers."""

    folder: Path
    address: str
    environment: Mapping[str, str]
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start_worker(self, **environment: str) -> subprocess.Popen[bytes]:
        """One more worker, of one thread and without a nanny."""
        command = [sys.executable, "-m", "distributed.cli.dask_worker", self.address]
        command += ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(self.folder)]
        with (self.folder / f"worker-{len(self.workers)}.log").open("wb") as log:
            made = subprocess.Popen(command, env={**self.environment, **environment}, stdout=log, stderr=log)
        self.workers.append(made)
        return made

    def run(self, out: Path, *titles: str, method: str = fake.METHOD, **options: object) -> engine.Result:
        """Executes a cell for each title."""
        return self.execute(fake.scenario(*titles), out, method=method, **options)

    def execute(
        self, scenario: engine.Scenario, out: Path, *, limit: int | None = None, **options: object
    ) -> engine.Result:
        with cluster.connect(cluster.parse(f"dask:{self.address}"), limit) as place:
            return engine.run(scenario, out, place=place, **options)  # type: ignore[arg-type]

    def living(self) -> int:
        return sum(worker.poll() is None for worker in self.workers)

    def remains(self) -> list[str]:
        """What weir has at the workers: processes and folders."""
        below = [pid for worker in self.workers if worker.poll() is None for pid in descendants(worker.pid)]
        return [f"process {pid}: {words(pid)}" for pid in below if "weir." in words(pid)] + [
            str(path) for path in self.folder.glob("dask-scratch-space/*/weir-*")
        ]


@contextlib.contextmanager
def started(folder: Path, workers: int, **environment: str) -> Iterator[Cluster]:
    """A cluster; all of it ends with the context."""
    file = folder / "scheduler.json"
    path = {"PYTHONPATH": f"{PACKAGE}{os.pathsep}{ENGINE}", "XDG_CACHE_HOME": str(folder / "cache")}
    every = {**os.environ, **path, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    command += ["--no-dashboard", "--no-show", "--scheduler-file", str(file)]
    with (folder / "scheduler.log").open("wb") as log:
        scheduler = subprocess.Popen(command, env=every, stdout=log, stderr=log)
    made = Cluster(folder, "", every, scheduler)
    try:
        wait_for(file.exists, "the scheduler")
        made.address = address_in(file)
        for _ in range(workers):
            made.start_worker()
        if workers:
            wait_until_there(made, workers)
        yield made
    finally:
        for process in [*made.workers, scheduler]:
            process.terminate()
        for process in [*made.workers, scheduler]:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def address_in(file: Path) -> str:
    import json

    deadline = time.monotonic() + HANG_S
    while True:
        with contextlib.suppress(ValueError):
            return str(json.loads(file.read_text())["address"])
        assert time.monotonic() < deadline
        time.sleep(0.05)


def wait_until_there(made: Cluster, workers: int) -> None:
    from distributed import Client

    with Client(made.address, set_as_default=False, timeout=HANG_S) as client:
        client.wait_for_workers(workers, timeout=HANG_S)


def wait_for(condition: Callable[[], object], what: str, seconds: float = HANG_S) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s in vain for {what}"
        time.sleep(0.02)


def words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def descendants(pid: int) -> list[int]:
    """All processes below ``pid``."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


def executing(worker: subprocess.Popen[bytes], cell: str = "") -> bool:
    """Whether a worker executes ``cell``, or any: a process below it has unfinished tables open."""
    return any(f"/.partial/{cell}" in file for pid in descendants(worker.pid) for file in _open_files(pid))


def _open_files(pid: int) -> list[str]:
    try:
        return [str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return []
