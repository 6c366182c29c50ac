"""Clusters that weir starts itself, on nodes of an inventory and by Slurm: they end with the run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import dask
import fake
import pytest
from cluster_support import words
from engine_support import PACKAGE, results

import slurm_support
from slurm_support import Slurm
from weir import cluster, engine

sys.path.insert(0, str(Path(__file__).parent.parent / "hosts"))

import ssh_support

TITLES = ("seconds=2", "seconds=1", "seconds=1")


@pytest.fixture
def local(tmp_path: Path) -> dict[str, str]:
    """The results of this machine."""
    engine.run(fake.scenario(*TITLES), tmp_path / "local", method="sim", workers=2)
    return results(tmp_path / "local")


def workers_of_dask() -> list[str]:
    """Workers of Dask that anybody has on this machine."""
    pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())
    return [text for pid in pids if "distributed.cli.dask_worker" in (text := words(pid)) and "tls://" in text]


def execute(where: str, out: Path, workers: int | None = None) -> engine.Result:
    with cluster.connect(cluster.parse(where), workers) as place:
        return engine.run(fake.scenario(*TITLES), out, method="sim", place=place)


@pytest.fixture
def inventory(tmp_path: Path) -> Iterator[Path]:
    """Two nodes, both served by one SSH server of this machine."""
    with ssh_support.server(tmp_path / "sshd") as server:
        about = f"port: {server.port}, key: {tmp_path}/sshd/client, known_hosts: {server.known_hosts}"
        nodes = "nodes: [{name: a1, address: 127.0.0.1}, {name: a2, address: localhost}]"
        file = tmp_path / "nodes.yaml"
        file.write_text(f"sets:\n  A: {{{about}, {nodes}}}\n")
        known = server.known_hosts.read_text()
        server.known_hosts.write_text(known + known.replace("127.0.0.1", "localhost"))
        yield file


def test_nodes_of_an_inventory(inventory: Path, tmp_path: Path, local: dict[str, str]) -> None:
    before = workers_of_dask()
    assert execute(f"ssh:{inventory}", tmp_path / "far").failures == ()
    assert results(tmp_path / "far") == local
    assert workers_of_dask() == before


def test_a_node_that_cannot_be_reached_is_named(inventory: Path, tmp_path: Path) -> None:
    inventory.write_text("sets:\n  A: {nodes: [{name: a1, address: 127.0.0.1, port: 1}]}\n")
    with pytest.raises(cluster.ClusterError, match=r"a1: .*cannot be reached: nothing listens at its port 1"):
        execute(f"ssh:{inventory}", tmp_path / "far")


def test_an_inventory_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "nodes.yaml").write_text("sets: 3\n")
    with pytest.raises(cluster.ClusterError, match=r"nodes\.yaml:1"):
        execute(f"ssh:{tmp_path}/nodes.yaml", tmp_path / "far")
    with pytest.raises(cluster.ClusterError, match=r"missing\.yaml"):
        execute("ssh:missing.yaml", tmp_path / "far")


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    """A Slurm of two nodes, whose jobs find this package; it knows nothing of memory."""
    if why := slurm_support.lacking():
        pytest.skip(why)
    pytest.importorskip("dask_jobqueue", reason="needs the extra weir[cluster]")
    monkeypatch.setenv("PYTHONPATH", str(PACKAGE))
    with slurm_support.slurm(2) as made:
        monkeypatch.setenv("SLURM_CONF", str(made.conf))
        monkeypatch.setenv("PATH", made.environment["PATH"])
        with dask.config.set({"jobqueue.slurm.job-directives-skip": ["--mem"]}):
            yield made
        assert made.jobs() == []


def test_jobs_of_slurm(slurm: Slurm, tmp_path: Path, local: dict[str, str]) -> None:
    assert execute("slurm:main", tmp_path / "far", 2).failures == ()
    assert results(tmp_path / "far") == local
    assert slurm.jobs() == []


def test_slurm_refuses(slurm: Slurm, tmp_path: Path) -> None:
    with pytest.raises(cluster.ClusterError, match=r"Slurm refuses the jobs: .*invalid partition"):
        execute("slurm:nowhere", tmp_path / "far", 1)


def test_without_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    with pytest.raises(cluster.ClusterError, match="there is no `sbatch` here"):
        execute("slurm", tmp_path / "far")
