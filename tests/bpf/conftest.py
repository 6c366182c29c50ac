"""What the tests of the kernel's congestion controls share; without a kernel that takes them, they skip and say why."""

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
    """What this kernel can do; skips if it takes no congestion control from us."""
    try:
        found = status()
    except MethodError as error:
        pytest.skip(str(error))
    if found.why_not is not None:
        pytest.skip(found.why_not)
    return found


@pytest.fixture
def clang() -> None:
    """What is not embedded is compiled; skips if it cannot be."""
    if shutil.which(tried := os.environ.get("WEIR_CLANG", "clang")) is None:
        pytest.skip(f"no {tried} to compile for BPF with")


@pytest.fixture
def bpffs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: Status) -> Iterator[Path]:
    """A BPF file system of this test; what it keeps is gone with it."""
    folder = tmp_path / "bpf"
    folder.mkdir()
    monkeypatch.setenv("WEIR_BPFFS", str(folder))
    yield folder
    if os.path.ismount(folder):
        subprocess.run(["umount", str(folder)], check=True)
