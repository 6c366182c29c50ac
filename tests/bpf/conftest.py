"""Fixtures for the kernel's congestion controls; skip with a reason if the kernel does not accept them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from weir.bpf import Status, status
from weir.methods import MethodError


@pytest.fixture(scope="session")
def kernel() -> Status:
    """The kernel's capabilities; skips if it accepts no congestion control from this process."""
    try:
        found = status()
    except MethodError as error:
        pytest.skip(str(error))
    if found.why_not is not None:
        pytest.skip(found.why_not)
    return found


@pytest.fixture
def clang() -> None:
    """Skips without a clang to compile for BPF: only weir's own controls are embedded."""
    if shutil.which(tried := os.environ.get("WEIR_CLANG", "clang")) is None:
        pytest.skip(f"no {tried} to compile for BPF with")


@pytest.fixture
def bpffs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: Status) -> Iterator[Path]:
    """A BPF file system for one test; removed with its pins at the end."""
    folder = tmp_path / "bpf"
    folder.mkdir()
    monkeypatch.setenv("WEIR_BPFFS", str(folder))
    yield folder
    if os.path.ismount(folder):
        subprocess.run(["umount", str(folder)], check=True)
