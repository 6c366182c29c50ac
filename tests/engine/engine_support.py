"""Helpers for several test modules of the engine."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import fake

HERE = Path(__file__).parent
PACKAGE = HERE.parent.parent / "python"


def results(run: Path) -> dict[str, str]:
    """Hash of every file of every cell that must not depend on when and how it was executed."""
    files = sorted(p for p in (run / "cells").rglob("*") if p.is_file() and p.name != "manifest.json")
    return {str(p.relative_to(run)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def drive(
    out: Path, workers: int, *titles: str, method: str = fake.METHOD, prefix: tuple[str, ...] = ()
) -> subprocess.Popen[str]:
    """Starts ``drive.py``."""
    return subprocess.Popen(
        [*prefix, sys.executable, str(HERE / "drive.py"), str(out), str(workers), method, *titles],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{PACKAGE}{os.pathsep}{HERE}"},
    )


def leftovers(run: Path) -> list[str]:
    """Names of unfinished cells and temporary files in ``run``."""
    partial = [p.name for p in (run / ".partial").iterdir()] if (run / ".partial").exists() else []
    return partial + [p.name for p in run.rglob("*.tmp")]
