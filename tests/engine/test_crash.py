"""However a run ends - kill -9, Ctrl-C, a full disk - complete cells are kept and the next call continues."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import fake
import pytest
from engine_support import drive, leftovers, results

from weir import engine

TITLES = (
    "rows=4000 batch=100 sleep=0.02",
    "rows=80000 batch=20000 sleep=0.2",
    "rows=500 batch=10 sleep=0.01",
    "rows=7",
)

HANG_S = 300.0
"""Only against a hang: no result depends on the machine's speed."""


def wait_for(condition: Callable[[], bool], what: str, seconds: float = HANG_S) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s in vain for {what}"
        time.sleep(0.01)


def executing(out: Path) -> bool:
    return (out / ".partial").exists() and any((out / ".partial").iterdir())


def descendants(process: subprocess.Popen[str]) -> list[int]:
    """Processes started by ``process``, by any of its threads."""
    tasks = Path(f"/proc/{process.pid}/task")
    return [int(word) for task in tasks.iterdir() for word in (task / "children").read_text().split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize(
    ("method", "titles"), [(fake.METHOD, TITLES), ("sim", ("seconds=60", "seconds=5", "seconds=30"))]
)
def test_killed_at_random_points_and_resumed_gives_what_an_uninterrupted_run_gives(
    tmp_path: Path, method: str, titles: tuple[str, ...]
) -> None:
    engine.run(fake.scenario(*titles), tmp_path / "whole", method=method, workers=2)
    wanted = results(tmp_path / "whole")
    dice = random.Random(6034)
    out = tmp_path / "killed"
    for _ in range(5):
        process = drive(out, 2, *titles, method=method)
        wait_for(lambda p=process: executing(out) or p.poll() is not None, "a first cell")  # type: ignore[misc]
        time.sleep(dice.uniform(0, 0.6))
        workers = descendants(process) if process.poll() is None else []
        process.kill()
        process.communicate()
        wait_for(lambda w=workers: not any(alive(pid) for pid in w), "workers to notice that they are alone")  # type: ignore[misc]
    process = drive(out, 2, *titles, method=method)
    printed, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, errors
    assert printed.startswith("executed ")
    assert results(out) == wanted
    assert leftovers(out) == []
    assert {c["status"] for c in json.loads((out / "manifest.json").read_text())["cells"]} == {"done"}


def test_a_killed_worker_costs_one_cell_and_the_next_call_repairs_it(tmp_path: Path) -> None:
    out = tmp_path / "r"
    process = drive(out, 1, "rows=1000 batch=1 sleep=0.01", "rows=7")
    wait_for(lambda: executing(out) and bool(descendants(process)), "the long cell")
    os.kill(descendants(process)[0], signal.SIGKILL)
    _, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 1
    assert "cell c0 (n = 0) failed: its process was killed (signal 9)" in errors
    assert "c1: done" in errors
    assert leftovers(out) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_workers_end_at_once_and_nothing_is_left_over(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "r"
    process = drive(out, 2, "rows=7", "rows=1000000 batch=1 sleep=1", "rows=1000000 batch=1 sleep=1")
    wait_for(lambda: executing(out), "a cell")
    wait_for(lambda: len(descendants(process)) == 2, "two workers")
    workers = descendants(process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 1
    assert "Interrupted: interrupted; " in errors
    kept = "1 of 3 cells were finished and are kept" if (out / "cells" / "c0").exists() else "nothing is kept"
    assert kept in errors
    assert not any(alive(pid) for pid in workers)
    assert leftovers(out) == []
    assert not (out / "manifest.json").exists()


def test_a_run_ends_when_its_method_has_given_back_what_it_holds(tmp_path: Path) -> None:
    held = tmp_path / "held"
    with drive(tmp_path / "run", 1, f"rows=7 hold={held}", method="fake:Holding") as process:
        out, err = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, out + err
    assert (tmp_path / "run" / "manifest.json").exists()
    assert not held.exists()


def test_a_run_locks_its_folder_and_a_dead_one_does_not(tmp_path: Path) -> None:
    out = tmp_path / "r"
    process = drive(out, 1, "rows=1000000 batch=1 sleep=1")
    wait_for(lambda: executing(out), "a cell")
    with pytest.raises(engine.LockedError, match=rf"is being written by process {process.pid} on "):
        engine.run(fake.scenario("rows=1000000 batch=1 sleep=1"), out, method=fake.METHOD)
    process.kill()
    process.communicate()
    with pytest.raises(
        engine.FolderError, match="holds another run"
    ):  # the lock is free, the identity is still checked
        engine.run(fake.FakeScenario((), text="other\n"), out, method=fake.METHOD)


def test_a_full_disk_said_by_a_worker_stops_the_run_and_is_explained(tmp_path: Path) -> None:
    out = tmp_path / "r"
    with pytest.raises(engine.DiskFullError, match=r"no space left on the disk of .*Free some, then run the same"):
        engine.run(fake.scenario("rows=7", "full"), out, method=fake.METHOD, workers=1)
    assert leftovers(out) == []
    assert not (out / "manifest.json").exists()


def _can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not _can_mount(), reason="needs a mount namespace of its own (unshare -rm) for a small file system")
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = 'mount -t tmpfs -o size=1m tmpfs "$0" && "$@"; code=$?; find "$0" -type f | sort >&2; exit $code'
    prefix = ("unshare", "-rm", "sh", "-c", mount, str(disk))
    process = drive(disk / "r", 1, "rows=2000000 batch=20000", prefix=prefix)
    _, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 1
    assert "DiskFullError: no space left on the disk of" in errors
    left = [line for line in errors.splitlines() if line.startswith(str(disk))]
    assert {Path(line).name for line in left} <= {".lock", ".run.json", "scenario.yaml"}
