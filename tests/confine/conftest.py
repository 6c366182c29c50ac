"""Makes the modules of this folder importable; skips where nothing can be confined, with the reason."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from weir import confine

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def able() -> None:
    """Skips the test where this host cannot confine."""
    if (state := confine.state()).kind in {"none", "off"}:
        pytest.skip(f"programs cannot be confined here: {state.why or 'WEIR_UNCONFINED is set'}")
