"""Nothing of a guest stays on the host, neither files nor processes, whatever it creates."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared import argv, environment
from weir import _group, _owner
from weir.lab import Kernel, Lab, Script
from weir.lab._kernel import _Module
from weir.lab._lab import PREFIX
from weir.lab._left import _OLD_S

pytestmark = pytest.mark.usefixtures("own_seal")

_DEEP = """
import os
os.chdir("/run/weir")
try:
    for _ in range(3000):
        os.mkdir("a")
        os.chdir("a")
except OSError:
    pass
"""
_CLOSED = "mkdir -p /run/weir/closed; echo x > /run/weir/closed/file; umask 0477; mkdir /run/weir/closed/folder"


def remains(lab: Lab) -> list[Path]:
    return [folder for folder in (lab.folder, lab._memory) if folder.exists()]


@pytest.mark.parametrize("command", [("python3", "-c", _DEEP), ("sh", "-c", _CLOSED)], ids=["deep", "closed"])
def test_the_folders_of_a_lab_go(kernel: Kernel, command: tuple[str, ...]) -> None:
    script = Script()
    script.add("exec", *command)
    with Lab(kernel, script) as lab:
        lab.wait()
        assert lab.exit_code() == 0
        made = len(list(lab.folder.iterdir()))
    assert made > 5  # it created them there
    assert remains(lab) == []


def test_the_guard_alone_removes_them(kernel: Kernel) -> None:
    script = Script()
    script.add("exec", "python3", "-c", _DEEP)
    lab = Lab(kernel, script)
    with lab:
        lab.wait()
        assert lab._guard is not None
        os.close(lab._lifeline)
        lab._lifeline = -1
        assert lab._guard.wait() == 0
        assert remains(lab) == []


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """A folder of a lab whose process was killed, long ago."""
    name = subprocess.run(
        [sys.executable, "-c", "from weir import _owner; print(_owner.new())"],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    ).stdout.strip()
    folder = tmp_path / f"{PREFIX}{name}"
    (folder / "mount").mkdir(parents=True)
    (folder / "file").write_text("x", encoding="utf-8")
    os.utime(folder, (time.time() - 2 * _OLD_S,) * 2)
    assert _owner.find(folder.name, PREFIX, suffix="") is not None
    return folder


def clean(tmp_path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv("clean", str(tmp_path / "runs")),
        capture_output=True,
        text=True,
        check=False,
        env=environment(TMPDIR=str(tmp_path)),
    )


def test_clean_says_removed_of_what_is_gone(left: Path, tmp_path: Path) -> None:
    done = clean(tmp_path)
    assert f"removed folder {left}" in done.stdout, done.stderr
    assert not left.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to mount")
def test_clean_says_what_stays_and_why(left: Path, tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "none", left / "mount"], check=True)
    try:
        os.utime(left, (time.time() - 2 * _OLD_S,) * 2)
        done = clean(tmp_path)
        assert done.returncode == 1
        assert f"could not remove folder {left}: {left}/mount: something is mounted there" in done.stdout
        assert f"removed folder {left}" not in done.stdout.replace("could not remove", "")
        assert left.is_dir()
    finally:
        subprocess.run(["umount", left / "mount"], check=True)


# Processes -----------------------------------------------------------------------------------------------------------

_BOMB = r"""
#include <linux/module.h>

static long host(long number)
{
	long result;

	asm volatile("syscall" : "=a"(result) : "a"(number), "D"(0), "S"(0), "d"(0) : "rcx", "r11", "memory");
	return result;
}

/* fork; in the child, sessions of its own, and more of them, until no more can be: then sched_yield, and again. */
static int __init begin(void)
{
	if (host(57))
		return 0;
	for (;;) {
		long child = host(57);

		if (!child)
			host(112);
		else if (child < 0)
			host(24);
	}
}

static void __exit end(void) {}
module_init(begin);
module_exit(end);
MODULE_LICENSE("GPL");
"""

_HOLD = """
import os, sys, time
from pathlib import Path
from weir import _group
from weir.lab import Lab, LabError, Script, Settings, find
Path(sys.argv[2], "cgroup.procs").write_text(str(os.getpid()))
if sys.argv[3] == "counted":
    _group.make = lambda processes, memory_bytes=None: ()
script = Script()
script.add("insmod", sys.argv[1], "")
script.add("exec", "sleep", "1")
held = lambda: len(Path(sys.argv[2], "cgroup.procs").read_text().split())
if sys.argv[3] == "counted":
    most = held
else:
    most = lambda: held() + sum(len(p.read_text().split()) for p in Path(sys.argv[2]).glob("weir-*/cgroup.procs"))
peak = 0
try:
    with Lab(find(), script, Settings(processes=200, patience_s=5.0)) as lab:
        while not lab.over():
            peak = max(peak, most())
            time.sleep(0.01)
        lab.exit_code()
except LabError as error:
    print(str(error).splitlines()[0])
print(peak, held())
"""


@pytest.fixture
def fence() -> Iterator[Path]:
    """A control group around a test that creates processes without end."""
    groups = _group.make(300)
    if not groups:
        pytest.skip("no control group can be made here that bounds the number of processes")
    (group,) = groups
    yield group
    deadline = time.monotonic() + 10.0
    while (group / "cgroup.procs").read_text(encoding="ascii") and time.monotonic() < deadline:
        time.sleep(0.1)
    _group.remove(groups)


@pytest.mark.parametrize("bound", ["group", "counted"])
def test_a_kernel_that_forks_without_end_is_bounded_and_ended(
    kernel: Kernel, tmp_path: Path, fence: Path, bound: str
) -> None:
    source = tmp_path / "bomb.c"
    source.write_text(_BOMB, encoding="utf-8")
    module = _Module("bomb", (source,), tmp_path / "built")
    kernel._build([module], ())
    command = [sys.executable, "-c", _HOLD, str(module.file), str(fence), bound]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment())
    assert done.returncode == 0, done.stderr
    *told, counts = done.stdout.splitlines()
    # A lab that starts nothing after the limit was reached ends as usual: the group refuses silently.
    assert told or bound == "group"
    assert all(
        line.startswith(
            (
                "the lab was ended: it had more than 200 processes",
                "the lab could not do its work: cannot start a process: Cannot allocate memory.",
                "the lab hangs: ",  # they leave no processor to the guest
            )
        )
        for line in told
    ), told
    peak, after = map(int, counts.split())
    assert 100 < peak <= (206 if bound == "group" else 300)
    assert after == 1  # only the calling process
