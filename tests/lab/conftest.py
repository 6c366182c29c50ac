"""Makes ``lab_support`` importable; the lab of this machine, if there is one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from weir.lab import Kernel, find, unavailable

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def kernel() -> Kernel:
    """The lab kernel; without one, the tests that need it say that they were skipped."""
    if (why := unavailable()) is not None:
        pytest.skip(f"no lab: {why}")
    found = find()
    assert found is not None
    return found
