"""Interrupted builds: nothing of them is left, and the next one starts afresh."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from weir import _owner, lab
from weir.lab import _build, _left, _source

_LOST_S = 60.0
"""Maximum wait of a test for an immediate event."""

_SLOW = "linux modules:\n\t@echo '  CC      first.o'\n\t@sleep 1000\n"
_FAILING = "linux modules:\n\t@echo 'first.c:1: no such luck'; exit 1\n"

_PROGRAM = """
from weir.lab import _build, _source
_build._prepare = lambda *arguments: None
_build._NEED_BYTES = 0
_build.measure = lambda: 512
_source.missing_tools = lambda: []
_build.build(lambda text, share: print(text, flush=True))
"""
"""A build that runs the makefile's recipe instead of compiling a kernel."""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Kernel sources that consist of a makefile, and an empty cache."""
    if shutil.which("make") is None or shutil.which("gcc") is None:
        pytest.skip("no make, no gcc")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("WEIR_KERNEL_SOURCE", str(tmp_path / "linux"))
    (tmp_path / "linux").mkdir()
    return tmp_path / "linux"


@pytest.fixture
def no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a build begin at once with the makefile's recipe."""
    monkeypatch.setattr(_build, "_prepare", lambda *_: None)
    monkeypatch.setattr(_build, "_NEED_BYTES", 0)
    monkeypatch.setattr(_build, "measure", lambda: 512)
    monkeypatch.setattr(_source, "missing_tools", list)


def cache(tree: Path) -> Path:
    return tree.parent / "cache" / "weir" / "lab"


def processes_in(folder: Path) -> list[int]:
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and folder in (process / "cwd").readlink().parents:
                found.append(int(process.name))
        except OSError:
            continue
    return found


def kill_a_build(tree: Path) -> None:
    (tree / "Makefile").write_text(_SLOW, encoding="utf-8")
    with subprocess.Popen([sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("compiling" in line for line in process.stdout)
        assert processes_in(cache(tree))
        process.kill()


def test_one_that_fails_says_what_was_said_and_leaves_nothing(tree: Path, no_kernel: None) -> None:
    (tree / "Makefile").write_text(_FAILING, encoding="utf-8")
    with pytest.raises(lab.LabError, match="no such luck"):
        lab.build(lambda *_: None)
    assert "no such luck" in (cache(tree) / "build.log").read_text(encoding="utf-8")
    assert sorted(path.name for path in cache(tree).iterdir()) == ["build.log", "lock"]


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv, which ties compilers to the build")
def test_one_that_is_killed_leaves_no_process(tree: Path) -> None:
    kill_a_build(tree)
    deadline = time.monotonic() + _LOST_S
    while processes_in(cache(tree)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_in(cache(tree)) == []


def test_the_next_one_removes_what_one_that_was_killed_left(tree: Path, no_kernel: None) -> None:
    kill_a_build(tree)
    assert list(cache(tree).glob("build-*"))
    (tree / "Makefile").write_text(_FAILING, encoding="utf-8")
    with pytest.raises(lab.LabError):
        lab.build(lambda *_: None)
    assert not list(cache(tree).glob("build-*"))


def dead(count: int = 0) -> _owner.Tag:
    """The tag of a process that has ended."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    return _owner.Tag(ended.pid, 1, count)


def age(folder: Path) -> None:
    hours_ago = time.time() - 7200
    os.utime(folder, (hours_ago, hours_ago))


def test_what_is_left_behind_is_found(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tree.parent))
    monkeypatch.setattr(_left, "_SHARED", tree.parent)
    stale, young, working = (tree.parent / f"weir-lab-{dead(count)}" for count in range(3))
    workshop = cache(tree) / f"build-{dead()}"
    mine = tree.parent / f"weir-lab-{_owner.new()}"
    others = [
        *(tree.parent / f"weir-lab-{name}" for name in ("results", str(dead())[:-1], f"{dead()}0", f"{dead()}-mine")),
        *(cache(tree) / name for name in ("build-mine", "0123/modules-mine", "programs/program-mine")),
    ]
    for folder in (stale, young, working, workshop, mine, *others):
        folder.mkdir(parents=True)
    for folder in (stale, working, workshop, mine, *others):
        age(folder)
    (tree.parent / f"weir-lab-{dead(9)}").symlink_to(mine)
    with subprocess.Popen(["sleep", "100"], cwd=working) as process:
        try:
            assert set(_left.left_behind()) == {stale, workshop}
        finally:
            process.kill()


def test_the_workshop_of_a_build_that_goes_on_is_left_alone(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tree.parent))
    monkeypatch.setattr(_left, "_SHARED", tree.parent)
    workshop = cache(tree) / f"build-{dead()}"
    workshop.mkdir(parents=True)
    age(workshop)
    assert _left.left_behind() == [workshop]
    with _build._locked(lambda *_: None):
        workshop.mkdir()
        age(workshop)
        assert _left.left_behind() == []


def test_another_compiler_or_processor_is_another_kernel(
    tree: Path, no_kernel: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cached kernel for one is not used for the other."""
    finals: list[Path] = []
    monkeypatch.setattr(lab.Kernel, "at", finals.append)
    (tree / "Makefile").write_text(_FAILING, encoding="utf-8")
    for state, compiler in ((512, "gcc 12"), (11_008, "gcc 12"), (11_008, "gcc 13")):
        monkeypatch.setattr(_build, "measure", lambda state=state: state)
        monkeypatch.setattr(_build, "_compiler", lambda compiler=compiler: compiler)
        with pytest.raises(lab.LabError):
            lab.build(lambda *_: None)
    assert len(set(finals)) == 3
