"""Runs the command line in this process, as a user would see it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cli_support import Ran, Weir

from weir.cli import _common
from weir.cli import main as entry


@pytest.fixture
def weir(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Weir:
    """``weir("schema", "plan")`` runs ``weir schema plan``."""

    def run(*arguments: str) -> Ran:
        _common.console.cache_clear()
        _common.error_console.cache_clear()
        monkeypatch.setattr(sys, "argv", ["weir", *arguments])
        with pytest.raises(SystemExit) as ended:
            entry()
        captured = capsys.readouterr()
        code = ended.value.code
        return Ran(code if isinstance(code, int) else 0, captured.out, captured.err)

    return run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, and methods of the engine's tests to work with."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "engine"))
    return tmp_path
