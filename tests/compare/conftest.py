"""Runs to compare."""

from __future__ import annotations

from pathlib import Path

import pytest
from compare_support import Cell, write_run

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
