"""A real OAR, if ``WEIR_OAR`` is set: installs Debian's packages in memory; needs their mirror, and root."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_support import until
from weir import reserve
from weir.reserve import Phase, Request, ReserveError

UP = Path(__file__).with_name("oar") / "up.sh"
_START_S = 300.0
_WRAPPER = """\
#!/bin/sh
exec nsenter --target {pid} --mount --pid --net --uts --root -- env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    runuser -u joe -- sh -c 'cd /home/joe; exec "$@"' sh {name} "$@"
"""


@pytest.fixture(scope="module")
def frontal() -> Iterator[Path]:
    """A folder with the commands of an OAR that has nodes n1, n2 and n3."""
    if not os.environ.get("WEIR_OAR"):
        pytest.skip("it installs packages: WEIR_OAR=1 asks for it")
    if os.geteuid() != 0:
        pytest.skip("it needs root")
    folder = Path(tempfile.mkdtemp(prefix="oar-"))
    (folder / "chroot").mkdir()
    own = ["setpriv", "--pdeathsig", "KILL", "unshare", "--fork", "--pid", "--mount", "--kill-child=KILL"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*own, "sh", str(UP), str(folder / "chroot")], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        _await(folder, process)
        (pid,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        (folder / "bin").mkdir()
        for name in ("oarsub", "oarstat", "oardel"):
            (folder / "bin" / name).write_text(_WRAPPER.format(pid=pid, name=name))
            (folder / "bin" / name).chmod(0o755)
        yield folder / "bin"
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _await(folder: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_S
    while "ready" not in (log := (folder / "log").read_text(errors="replace")).splitlines():
        assert process.poll() is None, log[-4000:]
        assert time.monotonic() < deadline, log[-4000:]
        time.sleep(0.2)


@pytest.fixture
def oar(frontal: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PATH", str(frontal), prepend=os.pathsep)
    yield
    assert names() == []
    assert not [*state.glob("*")]


def names() -> list[str]:
    """Names of jobs that wait or run."""
    listed = subprocess.run(["oarstat"], capture_output=True, text=True, check=True).stdout.splitlines()[2:]
    return [line.partition("N=")[2].split(" ")[0].split(",")[0] for line in listed]


def request(nodes: int = 2) -> Request:
    return reserve.parse({"by": "oar", "nodes": nodes, "time": "5min"})


@pytest.mark.usefixtures("oar")
def test_two_nodes_are_reserved_and_released(state: Path) -> None:
    with reserve.reserved({"A": request()}, patience_s=60) as nodes:
        assert [node.name for node in nodes["A"]] == ["n1", "n2"]
        assert names() == [path.stem for path in state.glob("*.json")]


@pytest.mark.usefixtures("oar")
def test_a_full_cluster_has_others_wait() -> None:
    with reserve.reserved({"A": request()}, patience_s=60):
        waiting = pytest.raises(ReserveError, match=r"no nodes after 12 s: B: oar .*expected to start at 20")
        with waiting, reserve.reserved({"B": request()}, patience_s=12):
            pytest.fail("one node is free")
        assert len(names()) == 1


@pytest.mark.usefixtures("oar")
def test_its_refusal_is_shown() -> None:
    with pytest.raises(ReserveError, match=r"OAR refuses: .*not enough resources"):
        reserve.reserve(request(9))


@pytest.mark.usefixtures("oar")
def test_a_job_is_found_by_its_name_and_its_end_is_seen() -> None:
    one = reserve.reserve(request(1))
    provider = reserve.get("oar")
    assert provider.find(one.request, one.record.name) == one.identity
    subprocess.run(["oardel", one.identity], capture_output=True, check=True)
    until(lambda: reserve.state(one).phase is Phase.ENDED, "OAR deletes it", 60)
    assert provider.find(one.request, one.record.name) is None
    reserve.release(one)
