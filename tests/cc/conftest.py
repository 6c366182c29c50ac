"""Users' congestion controls, in a folder of their own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build cache for these tests."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses the tests' own build cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_folder))
