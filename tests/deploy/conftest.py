"""Makes the nodes of ``tests/real_hosts`` importable."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "real_hosts"))

from nodes_support import Nodes, unavailable


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """Four nodes, two on each side of a link."""
    if (why := unavailable()) is not None:
        pytest.skip(why)
    with Nodes(tmp_path) as made:
        yield made
