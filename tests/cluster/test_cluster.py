"""Cells on a Dask cluster: the bytes of a local run, and its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fake
import pytest
from cluster_support import Cluster, started, wait_until_there
from engine_support import leftovers, results

from weir import cluster, engine, methods
from weir.cluster._far import INLINE_BYTES

TITLES = ("rows=7", "rows=5000 warn", "rows=400000 batch=50000", "", "rows=70000")


def manifests(run: Path) -> list[dict[str, Any]]:
    """The manifests of all cells, without what depends on the clock."""
    found = [json.loads(path.read_text()) for path in sorted(run.glob("cells/*/manifest.json"))]
    for one in found:
        del one["wall_s"], one["checksums"]["manifest"]
    return found


def assert_same(one: Path, other: Path) -> None:
    assert results(one)
    assert results(one) == results(other)
    assert manifests(one) == manifests(other)


def test_a_cluster_writes_the_bytes_of_a_local_run(two: Cluster, tmp_path: Path) -> None:
    engine.run(fake.scenario(*TITLES), tmp_path / "local", method=fake.METHOD, workers=2)
    result = two.run(tmp_path / "far", *TITLES)
    assert (result.cells, result.executed, result.failures) == (5, 5, ())
    assert result.warnings == ("c1: a warning",)
    assert_same(tmp_path / "local", tmp_path / "far")
    large = sum(path.stat().st_size for path in (tmp_path / "far/cells/c2").iterdir())
    assert large > INLINE_BYTES, "one cell has to arrive in pieces"
    assert leftovers(tmp_path / "far") == []
    assert two.remains() == []
    assert json.loads((tmp_path / "far/manifest.json").read_text())["workers"] == 2
    assert two.run(tmp_path / "far", *TITLES).executed == 0


def test_the_simulator_too(two: Cluster, tmp_path: Path) -> None:
    titles = ("seconds=2", "seconds=1")
    engine.run(fake.scenario(*titles), tmp_path / "local", method="sim", workers=2)
    assert two.run(tmp_path / "far", *titles, method="sim").failures == ()
    assert_same(tmp_path / "local", tmp_path / "far")


def test_failures_are_those_of_a_local_run(two: Cluster, tmp_path: Path) -> None:
    titles = ("refuse", "bug", "die", "rows=7")
    local = engine.run(fake.scenario(*titles), tmp_path / "local", method=fake.METHOD, workers=1)
    far = two.run(tmp_path / "far", *titles)
    assert [(f.cell, f.error, f.factors) for f in far.failures] == [
        (f.cell, f.error, f.factors) for f in local.failures
    ]
    assert "ZeroDivisionError: a defect" in far.failures[1].trace
    assert results(tmp_path / "far") == results(tmp_path / "local")


def test_a_full_disk_of_a_worker_is_not_taken_for_one_here(two: Cluster, tmp_path: Path) -> None:
    result = two.run(tmp_path / "far", "full", "rows=7")
    assert [failure.cell for failure in result.failures] == ["c0"]
    assert result.failures[0].error.startswith("worker tcp://")
    assert "No space left" in result.failures[0].error


def test_a_limit_of_cells_at_once(two: Cluster, tmp_path: Path) -> None:
    assert two.run(tmp_path / "far", *TITLES, limit=1).failures == ()
    assert json.loads((tmp_path / "far/manifest.json").read_text())["workers"] == 1


def test_weir_is_sent_once_to_a_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other/weir"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text('__version__ = "0.0.1"\n')
    engine.run(fake.scenario("seconds=1"), tmp_path / "local", method="sim", workers=1)
    (tmp_path / "dask").mkdir()
    with started(tmp_path / "dask", 2, PYTHONPATH=str(other.parent)) as made:
        made.run(tmp_path / "far", "seconds=1", method="sim")
        assert_same(tmp_path / "local", tmp_path / "far")
        assert "of weir to dask:tcp://" in capsys.readouterr().err
        (copy,) = (tmp_path / "dask/cache/weir/cluster").iterdir()
        made.run(tmp_path / "again", "seconds=1", method="sim")
        assert "of weir to" not in capsys.readouterr().err
        module = copy / "weir/engine/worker.py"
        module.write_text(module.read_text().replace("def main", "def mian"))
        made.run(tmp_path / "third", "seconds=1", method="sim")
        assert "of weir to" in capsys.readouterr().err, "a damaged copy is replaced"
        assert_same(tmp_path / "local", tmp_path / "third")


def test_a_worker_whose_tables_would_have_other_bytes_is_named(two: Cluster, tmp_path: Path) -> None:
    stub = tmp_path / "other/pyarrow"
    stub.mkdir(parents=True)
    (stub / "__init__.py").write_text('__version__ = "1.0.0"\n')
    said = r"worker tcp://.*: on .*: it has pyarrow 1\.0\.0, this is"
    path = f"{stub.parent}:{two.environment['PYTHONPATH']}"
    with started(tmp_path, 1, PYTHONPATH=path) as made, pytest.raises(cluster.ClusterError, match=said):
        made.run(tmp_path / "far", "rows=7")
    assert not (tmp_path / "far").exists()


def test_a_worker_with_another_python_is_named(two: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weir.cluster._prepare._PYTHON", ("3", "99"))
    with pytest.raises(cluster.ClusterError, match=r"worker tcp://[^;]*: its Python is 3\.\d+, this is 3\.99"):
        two.run(tmp_path / "far", "rows=7")
    assert not (tmp_path / "far").exists()


def test_a_worker_that_lacks_the_method_is_named(two: Cluster, tmp_path: Path) -> None:
    said = r"worker tcp://.*'fake:Fake' cannot be loaded"
    path = two.environment["PYTHONPATH"].partition(":")[0]
    with started(tmp_path, 1, PYTHONPATH=path) as made, pytest.raises(cluster.ClusterError, match=said):
        made.run(tmp_path / "far", "rows=7")


def test_methods_with_a_real_clock_are_refused(two: Cluster, tmp_path: Path) -> None:
    with pytest.raises(
        methods.UnfitMethodError, match=r"cannot run on a cluster: its clock is real.*without --cluster"
    ):
        two.run(tmp_path / "far", "rows=7", method="fake:Real")
    assert not (tmp_path / "far").exists()


def test_controls_that_are_built_where_a_cell_runs_are_refused(two: Cluster, tmp_path: Path) -> None:
    class UserCell(fake.FakeCell):
        def plan(self) -> dict[str, object]:
            made = super().plan()
            made["flows"][0]["transport"]["cc"] = str(tmp_path / "my.c")
            return made

    (tmp_path / "my.c").write_text("")
    with pytest.raises(methods.UnfitMethodError, match=r"my\.c: it builds a kernel module from that file"):
        two.execute(fake.FakeScenario((UserCell("c0", "rows=10"),)), tmp_path / "far", method=fake.METHOD)


def test_a_scheduler_without_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weir.cluster._dask._WORKERS_S", 0.5)
    with started(tmp_path, 0) as made, pytest.raises(cluster.ClusterError, match="has no workers; start some"):
        made.run(tmp_path / "far", "rows=7")


def test_a_worker_that_comes_later_is_used(tmp_path: Path) -> None:
    with started(tmp_path, 1) as made:
        first, second = (tmp_path / name for name in ("first", "second"))
        made.start_worker()
        second.touch()
        first.touch()
        made.run(tmp_path / "far", f"rows=7 token={first}", f"rows=7 token={second}")
        wait_until_there(made, 2)
        made.run(tmp_path / "again", *["rows=9"] * 8)
        assert json.loads((tmp_path / "again/manifest.json").read_text())["workers"] == 2
