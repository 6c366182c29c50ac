"""A few of the damages of ``fuzz/fuzz_run.py``, with a seed of their own: no other figures, no internal error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from shared import ROOT, environment


def test_damaged_runs_are_told_or_executed_anew_or_give_the_same_figures(tmp_path: Path) -> None:
    counts = ("--folders", "17", "--fields", "24", "--bits", "8", "--seed", "6034")
    done = subprocess.run(
        [sys.executable, str(ROOT / "fuzz" / "fuzz_run.py"), *counts],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("49 damaged runs, seed 6034")
    assert "told" in done.stdout
    assert "executed anew" in done.stdout
