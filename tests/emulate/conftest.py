"""Makes ``emulate_support`` importable, and skips what needs root where there is none."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked ``root`` make devices and namespaces."""
    reason = _lacking()
    for item in items:
        if reason and item.get_closest_marker("root"):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_configure(config: pytest.Config) -> None:
    """Registers the mark."""
    config.addinivalue_line("markers", "root: makes devices and namespaces")


def _lacking() -> str | None:
    from weir.methods.emul import Emul

    if os.geteuid() != 0:
        return "it needs root, to make network namespaces"
    return Emul().available()
