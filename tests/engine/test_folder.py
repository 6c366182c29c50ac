"""The files of a run's folder, the remains of a failed run, and those that ``weir clean`` may remove."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import fake
import pytest
from engine_support import drive, leftovers

from shared import argv, called, environment
from weir import _files, engine
from weir.engine._folder import RunFolder

pytestmark = pytest.mark.usefixtures("own_seal")

_HANG_S = 120.0


def tree(folder: Path) -> dict[str, Any]:
    """Everything below ``folder``."""
    return {str(path.relative_to(folder)): path.lstat().st_mode for path in sorted(folder.rglob("*"))}


# Folders that cannot hold a run --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [fake.METHOD, "sim"])
def test_a_folder_of_somebody_else_is_left_as_it_was(tmp_path: Path, method: str) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "scenario.yaml").write_text("mine")
    before = tree(tmp_path)
    with pytest.raises(engine.FolderError, match=r"is not empty and holds no run of weir \(there is 'scenario.yaml'\)"):
        engine.run(fake.scenario("seconds=1"), tmp_path / "home", method=method)
    assert tree(tmp_path) == before
    assert (tmp_path / "home" / "scenario.yaml").read_text() == "mine"


@pytest.mark.parametrize("name", ["a/file/r", "a\0b", "x" * 300, "new/" + "y" * 300, "a/file"])
def test_a_path_that_can_be_no_folder_leaves_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("")
    before = tree(tmp_path)
    with pytest.raises((engine.FolderError, OSError)) as caught:
        engine.run(fake.scenario("rows=7"), tmp_path / name, method=fake.METHOD)
    assert not isinstance(caught.value, OSError) or caught.value.errno == errno.ENAMETOOLONG
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", ["/proc/r", "/sys/r", "/dev/null/r", "", "/etc"])
def test_the_command_says_why_in_one_line(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    before = tree(tmp_path)
    ran = called("run", "E3/queue-size", "--quick", "--method", "sim", "--out", name)
    assert ran.code == 2, ran.err
    assert len(ran.err.strip().splitlines()) == 1, ran.err
    assert tree(tmp_path) == before
    assert not Path("/etc/.lock").exists()


def test_a_run_that_comes_to_nothing_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(engine.DiskFullError):
        engine.run(fake.scenario("full"), tmp_path / "new" / "r", method=fake.METHOD, workers=1)
    assert tree(tmp_path) == {}


def test_a_run_that_is_continued_stays_when_it_fails(tmp_path: Path) -> None:
    with pytest.raises(engine.DiskFullError):
        engine.run(fake.scenario("rows=7", "full"), tmp_path / "r", method=fake.METHOD, workers=1)
    assert (tmp_path / "r" / "cells" / "c0" / "manifest.json").is_file()
    with pytest.raises(engine.DiskFullError):
        engine.run(fake.scenario("rows=7", "full"), tmp_path / "r", method=fake.METHOD, workers=1)
    assert (tmp_path / "r" / "cells" / "c0" / "manifest.json").is_file()
    assert leftovers(tmp_path / "r") == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_interrupted_in_its_first_cell_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    process = drive(tmp_path / "new" / "r", 1, "rows=1000000 batch=1 sleep=1")
    deadline = time.monotonic() + _HANG_S
    while not list(tmp_path.glob("new/r/.partial/c0-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(number)
    _, errors = process.communicate(timeout=_HANG_S)
    assert "interrupted; no cell was finished, and nothing is kept. Run the same command again to start anew" in errors
    assert tree(tmp_path) == {}


# Atomic files ---------------------------------------------------------------------------------------------------------


def test_a_page_that_does_not_fit_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from weir.report.bundle import write_page

    (tmp_path / "report.html").write_text("old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for write in (write_page, _files.write_atomic):
        with pytest.raises(OSError, match="No space left"):
            write(tmp_path / "report.html", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_text() == "old"


def test_what_a_killed_writer_left_goes_with_the_next_run(tmp_path: Path) -> None:
    engine.run(fake.scenario("rows=7"), tmp_path / "r", method=fake.METHOD)
    ended = subprocess.Popen(["true"])
    ended.wait()
    (tmp_path / "r" / f".report.html.{ended.pid}.tmp").write_text("half")
    (tmp_path / "r" / f".report.html.{os.getpid()}.tmp").write_text("being written")
    engine.run(fake.scenario("rows=7"), tmp_path / "r", method=fake.METHOD)
    assert [path.name for path in (tmp_path / "r").glob("*.tmp")] == [f".report.html.{os.getpid()}.tmp"]


# Folders that weir may remove -----------------------------------------------------------------------------------------


def partial_of_killed(tmp_path: Path) -> Path:
    """The folder of a run that was killed in its second cell."""
    out = tmp_path / "r"
    process = drive(out, 1, "rows=7", "rows=1000000 batch=1 sleep=1")
    deadline = time.monotonic() + _HANG_S
    while not list(out.glob(".partial/c1-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.communicate()
    while RunFolder(out).owns_partial() and engine.unfinished([out]) == [] and time.monotonic() < deadline:
        time.sleep(0.01)
    return out


def clean(*folders: Path) -> list[str]:
    """Folders whose unfinished cells ``weir clean`` removed."""
    done = subprocess.run(
        argv("clean", "--json", *map(str, folders)), env=environment(), capture_output=True, text=True, check=True
    )
    removed = json.loads(done.stdout)["removed"]
    return [item["name"] for item in removed if item["kind"] == "unfinished cells"]


def test_unfinished_cells_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    out = partial_of_killed(tmp_path)
    assert clean(tmp_path) == [str(out)]
    assert not (out / ".partial").exists()
    assert (out / "cells" / "c0" / "manifest.json").is_file()
    assert clean(tmp_path) == []


def test_a_folder_of_that_name_is_nobodys_but_its_owners(tmp_path: Path) -> None:
    mine = tmp_path / "mine" / ".partial"
    mine.mkdir(parents=True)
    (mine / "precious").write_text("kept")
    before = tree(tmp_path)
    assert clean(tmp_path, tmp_path / "mine") == []
    assert tree(tmp_path) == before  # not even a lock was made


def test_a_token_is_matched_whole_and_no_link_is_followed(tmp_path: Path) -> None:
    out = partial_of_killed(tmp_path)
    state = json.loads((out / ".run.json").read_text())
    token = (out / ".partial" / ".token").read_text()
    assert token != state["token"]
    for forged in ("", token[:-1], token + "0", token.upper(), "0" * 24, token + "\n", state["token"]):
        (out / ".partial" / ".token").write_text(forged)
        assert clean(out) == [], forged
    (out / ".partial" / ".token").write_text(token)
    for stated in ("", "x", None, 7, [token], state["token"] + "\n", "0" * 32):
        (out / ".run.json").write_text(json.dumps({**state, "token": stated}))
        assert clean(out) == [], stated
        assert (out / ".partial").is_dir()
    (out / ".run.json").write_text(json.dumps(state))
    (out / ".partial").rename(tmp_path / "elsewhere")
    (out / ".partial").symlink_to(tmp_path / "elsewhere")
    assert clean(out) == []
    assert list((tmp_path / "elsewhere").iterdir())
    (out / ".partial").unlink()
    (tmp_path / "elsewhere").rename(out / ".partial")
    assert clean(out) == [str(out)]  # the forged part was what made it refused


def test_unfinished_cells_of_a_copy_are_not_taken_for_ones_own(tmp_path: Path) -> None:
    out = partial_of_killed(tmp_path)
    copied = tmp_path / "copied"
    subprocess.run(["cp", "-a", out, copied], check=True)
    assert clean(copied) == []
    assert list((copied / ".partial").iterdir())
    assert clean(out) == [str(out)]
