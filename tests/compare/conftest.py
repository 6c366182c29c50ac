"""Runs compared, and the command line in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from compare_support import Cell, write_run

from weir.cli import _common
from weir.cli import main as entry


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str


@pytest.fixture
def weir_cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """``weir_cli("compare", "a", "b")`` runs ``weir compare a b``."""

    def run(*arguments: object) -> Ran:
        _common.console.cache_clear()
        _common.error_console.cache_clear()
        monkeypatch.setattr(sys, "argv", ["weir", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            entry()
        captured = capsys.readouterr()
        return Ran(ended.value.code if isinstance(ended.value.code, int) else 0, captured.out, captured.err)

    return run


CLAIM = {"claim": "fast", "check": "goodput.aggregate.mean >= 33Mbps", "source": "me"}


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two runs of two cells and two repeats; the second has 10 % more goodput in one cell."""
    runs = []
    for method, more in (("sim", 0.0), ("emul", 2.0)):
        cells = [
            Cell(goodput=[[20, 20], [10 + k, 10 + k]], factors={"cc": "reno"}, repeat=k, seed=k) for k in range(2)
        ] + [
            Cell(goodput=[[20, 20], [10 + more, 10 + more]], factors={"cc": "bic"}, repeat=k, seed=k) for k in range(2)
        ]
        warned = ["the machine was busy"] if method == "emul" else []
        runs.append(write_run(tmp_path / method, cells, method=method, expect=[CLAIM], warnings=warned))
    return runs[0], runs[1]
