"""Fixtures: a real Slurm, and a folder of state that is not the user's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import slurm_support
from slurm_support import Slurm


@pytest.fixture(scope="session")
def cluster() -> Iterator[Slurm]:
    """A Slurm with three nodes, for all tests; each leaves its queue empty."""
    if why := slurm_support.lacking():
        pytest.skip(why)
    with slurm_support.slurm(3) as bed:
        yield bed


@pytest.fixture
def slurm(cluster: Slurm, monkeypatch: pytest.MonkeyPatch, state: Path) -> Iterator[Slurm]:
    """Slurm, whose commands this process finds."""
    monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
    yield cluster
    left = cluster.jobs()
    if left:
        cluster.said("scancel", "--user=root")
    assert not left, "jobs are left"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of records."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "weir" / "reservations"
