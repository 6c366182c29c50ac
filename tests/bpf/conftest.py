"""Fixtures for the kernel's congestion controls; skip with a reason if the kernel does not accept them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from bpf_support import ip

from weir.bpf import Status, status
from weir.methods import MethodError

RATE = ("rate", "60mbit", "burst", "20kb", "limit", "40kb")
"""Bottleneck with a short queue, so that packets are lost often."""


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


@pytest.fixture
def ends(kernel: Status, clang: None) -> Iterator[tuple[str, str]]:
    """Two network namespaces with a slow link between them."""
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool} (iproute2)")
    near, far = (f"bpf-test-{os.getpid():x}{end}" for end in "ab")
    with contextlib.ExitStack() as stack:
        for name in (near, far):
            ip("netns", "add", name)
            stack.callback(ip, "netns", "del", name)
        ip("-n", near, "link", "add", "veth0", "type", "veth", "peer", "name", "veth0", "netns", far)
        for name, address in ((near, "10.99.0.1/24"), (far, "10.99.0.2/24")):
            ip("-n", name, "address", "add", address, "dev", "veth0")
            ip("-n", name, "link", "set", "veth0", "up")
        shaped = subprocess.run(
            ["tc", "-n", near, "qdisc", "add", "dev", "veth0", "root", "tbf", *RATE], capture_output=True, text=True
        )
        if shaped.returncode:
            pytest.skip(f"this kernel cannot slow a link down with tbf: {shaped.stderr.strip()}")
        yield near, far
