"""Makes ``testbed_support`` importable, and skips what needs root or a server of OpenSSH where these lack."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked ``bed`` make test beds."""
    reason = _lacking()
    for item in items:
        if reason and item.get_closest_marker("bed"):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_configure(config: pytest.Config) -> None:
    """Registers the mark."""
    config.addinivalue_line("markers", "bed: makes test beds")


def _lacking() -> str | None:
    from weir.methods import UnavailableError
    from weir.testbed._up import _require

    try:
        _require()
    except UnavailableError as error:
        return str(error)
    return None


@pytest.fixture(scope="module", autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A state folder of the module's own, so that a user's test beds are not touched; what is left in it is removed."""
    from weir import testbed

    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        yield folder
        for name in testbed.names():
            testbed.down(name)
