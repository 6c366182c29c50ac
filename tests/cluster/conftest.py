"""Makes the engine's ``fake`` and the support of clusters importable, and starts a cluster of two workers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "engine")]

from cluster_support import Cluster, started  # noqa: E402  (found by the line above)


@pytest.fixture(scope="session")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers in processes of their own."""
    with started(tmp_path_factory.mktemp("dask"), workers=2) as cluster:
        yield cluster
