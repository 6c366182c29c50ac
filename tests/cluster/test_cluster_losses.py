"""However workers or the controller end: complete cells are kept, and nothing stays at the workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import fake
import pytest
from cluster_support import HANG_S, OWN, Cluster, descendants, executing, started, wait_for, words
from engine_support import leftovers, results

from weir import engine, methods
from weir.cluster._cargo import cargoes
from weir.cluster._dask import connected
from weir.cluster._prepare import prepare


def drive(out: Path, made: Cluster, *titles: str) -> subprocess.Popen[str]:
    """Starts ``drive_cluster.py``."""
    return subprocess.Popen(
        [sys.executable, str(OWN / "drive_cluster.py"), str(out), made.address, *titles],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": made.environment["PYTHONPATH"]},
    )


def executor_of(made: Cluster, cell: str) -> subprocess.Popen[bytes]:
    """The worker that executes ``cell``, as soon as one does."""
    found: list[subprocess.Popen[bytes]] = []

    def look() -> bool:
        found.extend(worker for worker in made.workers if worker.poll() is None and executing(worker, f"{cell}-"))
        return bool(found)

    wait_for(look, f"a worker to execute {cell}")
    return found[0]


def test_a_lost_worker_costs_one_execution_of_a_cell(tmp_path: Path) -> None:
    token = tmp_path / "token"
    titles = (f"rows=900 token={token}", "rows=7", "rows=8")
    plain = fake.scenario(*titles)
    with started(tmp_path, 2) as made:
        process = drive(tmp_path / "far", made, *titles)
        wait_for(lambda: (tmp_path / "far/cells/c2").exists(), "the short cells")
        victim = executor_of(made, "c0")
        below = descendants(victim.pid)
        victim.kill()
        made.start_worker()
        wait_for(lambda: not any(words(pid) for pid in below), "the processes of a dead worker to end")
        token.touch()
        printed, errors = process.communicate(timeout=HANG_S)
        assert process.returncode == 0, errors
        assert "was lost; cell c0 is executed elsewhere" in errors
        assert printed == "executed 3\n"
        token.touch()
        engine.run(plain, tmp_path / "local", method=fake.METHOD)
        assert results(tmp_path / "far") == results(tmp_path / "local")
        assert leftovers(tmp_path / "far") == []


def test_a_cell_that_loses_every_worker_fails(tmp_path: Path) -> None:
    token = tmp_path / "token"
    with started(tmp_path, 1) as made:
        process = drive(tmp_path / "far", made, f"rows=900 token={token}")
        for _ in range(3):
            victim = executor_of(made, "c0")
            made.start_worker()
            victim.kill()
            victim.wait()
            made.workers.remove(victim)
        _, errors = process.communicate(timeout=HANG_S)
        assert process.returncode == 1
        assert "cell c0 (n = 0) failed: worker tcp://" in errors
        assert "was lost, as 2 others before with this cell" in errors
        assert errors.count("is executed elsewhere") == 2


def test_a_run_continues_after_its_controller_was_killed(two: Cluster, tmp_path: Path) -> None:
    token = tmp_path / "token"
    titles = ("rows=900", f"rows=7 token={token}", f"rows=8 token={token}")
    process = drive(tmp_path / "far", two, *titles)
    wait_for(lambda: (tmp_path / "far/cells/c0").exists(), "the first cell")
    wait_for(lambda: sum(executing(worker) for worker in two.workers) == 2, "two cells")
    process.kill()
    process.communicate()
    kept = results(tmp_path / "far")
    wait_for(lambda: not any(executing(worker) for worker in two.workers), "the cells of nobody to end")
    assert two.living() == 2

    def tokens() -> None:
        for _ in range(2):
            token.touch()
            wait_for(lambda: not token.exists(), "a cell to take its token")

    giver = threading.Thread(target=tokens)
    giver.start()
    result = two.run(tmp_path / "far", *titles)
    giver.join()
    assert (result.executed, result.failures) == (2, ())
    assert kept.items() <= results(tmp_path / "far").items()
    assert leftovers(tmp_path / "far") == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_at_workers(two: Cluster, tmp_path: Path, number: signal.Signals) -> None:
    out, before = tmp_path / "far", two.remains()
    process = drive(out, two, "rows=7", *["rows=1000000 batch=1 sleep=1"] * 3)
    wait_for(lambda: (out / "cells/c0").exists(), "the short cell")
    wait_for(lambda: sum(executing(worker) for worker in two.workers) == 2, "two cells")
    process.send_signal(number)
    _, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 1
    assert "Interrupted: interrupted; 1 of 4 cells were finished and are kept" in errors
    assert leftovers(out) == []
    assert not (out / "manifest.json").exists()
    assert not any(executing(worker) for worker in two.workers)
    assert two.living() == 2, "the cluster is somebody else's"
    assert set(two.remains()) <= set(before), "an agent of a killed controller may still be there"


def test_an_agent_without_a_controller_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weir.cluster._prepare._IDLE_S", 2.0)
    method = methods.get("sim")
    with started(tmp_path, 1) as made:
        with connected("a test", address=made.address) as client:
            assert prepare(client, list(client.nthreads()), cargoes(method), "sim", "weir-0").memory
        assert len(made.remains()) == 1
        wait_for(lambda: not made.remains(), "the agent to end")
        assert made.run(tmp_path / "far", "rows=7").failures == ()


def test_a_run_ends_when_the_scheduler_does(tmp_path: Path) -> None:
    with started(tmp_path, 1) as made:
        process = drive(tmp_path / "far", made, "rows=7", "rows=1000000 batch=1 sleep=1")
        wait_for(lambda: (tmp_path / "far/cells/c0").exists(), "the short cell")
        made.scheduler.kill()
        _, errors = process.communicate(timeout=HANG_S)
        assert process.returncode == 1
        assert "EngineError: the connection to the scheduler of the cluster was lost; complete cells are kept" in errors
        assert leftovers(tmp_path / "far") == []
