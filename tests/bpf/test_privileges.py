"""Privileges: who may choose a loaded control, in which network namespace; who may load."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from weir._programs import find
from weir.bpf import Loader, Status

NOBODY = 65534
CHOOSE = (
    "import socket, sys\n"
    "s = socket.socket()\n"
    "try: s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[1].encode()); print('chosen')\n"
    "except OSError as error: print(type(error).__name__)\n"
)


def choose(name: str, *prefix: str, user: int | None = None) -> str:
    command = [*prefix, "/usr/bin/python3", "-c", CHOOSE, name]
    return subprocess.run(command, user=user, capture_output=True, text=True, check=True, cwd="/").stdout.strip()


@pytest.fixture(autouse=True)
def system_python() -> None:
    """A Python that every user can execute; the folder of the tests' own may be closed to others."""
    if not Path("/usr/bin/python3").exists():
        pytest.skip("no /usr/bin/python3 that other users can execute")


def test_only_what_is_unrestricted_is_for_everyone(kernel: Status) -> None:
    with Loader() as loader:
        closed, open_ = loader.load("cubic"), loader.load("cubic", unrestricted=True)
        assert (choose(closed), choose(open_)) == ("chosen", "chosen")
        assert (choose(closed, user=NOBODY), choose(open_, user=NOBODY)) == ("PermissionError", "chosen")


def test_reno_is_for_everyone_as_the_kernels_is(kernel: Status) -> None:
    with Loader() as loader:
        assert choose(loader.load("reno"), user=NOBODY) == "chosen"


def test_it_can_be_chosen_in_every_network_namespace(kernel: Status) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("no unshare (util-linux)")
    with Loader() as loader:
        closed, open_ = loader.load("cubic"), loader.load("cubic", unrestricted=True)
        assert choose(closed, "unshare", "--net") == "chosen"
        drop = ("unshare", "--net", "setpriv", f"--reuid={NOBODY}", "--clear-groups", "--inh-caps=-all")
        if shutil.which("setpriv") is not None:
            assert (choose(closed, *drop), choose(open_, *drop)) == ("PermissionError", "chosen")


def test_without_privileges_the_missing_ones_are_named(kernel: Status, tmp_path: Path) -> None:
    # The program's folder may be closed to others as well.
    program = shutil.copy(find("weir-bpf"), tmp_path)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o001 == 0 and folder.owner() == "root" and str(folder).startswith("/tmp/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    ran = subprocess.run([program, "load", "cubic"], user=NOBODY, capture_output=True, text=True, check=False, cwd="/")
    assert ran.returncode == 1
    assert "CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN" in ran.stderr
    assert "as root" in ran.stderr
    assert sys.executable not in ran.stderr
