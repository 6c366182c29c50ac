"""Makes ``nodes_support`` importable, and gives tests nodes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from bed_support import Bed, made_bed
from nodes_support import Nodes, unavailable


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """Four nodes, two on each side of a link."""
    if (why := unavailable()) is not None:
        pytest.skip(why)
    with Nodes(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """Four nodes with servers of OpenSSH."""
    with made_bed(tmp_path_factory) as made:
        yield made
