"""Run folders made by others, with links, pipes and devices in them: nothing outside of them is touched."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fake
import pytest

from shared import argv, environment
from weir import engine
from weir._inside import FILE, Folder, InsideError, expect, open_plain, read_plain
from weir.engine._cell import CellWriter, place
from weir.engine._folder import RunFolder
from weir.engine._lock import is_locked

pytestmark = pytest.mark.usefixtures("own_seal")

_HANG_S = 60.0
_SCENARIO = ("rows=7", "rows=8")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete run."""
    folder = tmp_path_factory.mktemp("strange") / "r"
    engine.run(fake.scenario(*_SCENARIO), folder, method=fake.METHOD, workers=1)
    return folder


@pytest.fixture
def given(made: Path, tmp_path: Path) -> Iterator[Path]:
    """Another user's run, without its last cell, with unfinished ones. The files beside it must stay unchanged."""
    run = Path(shutil.copytree(made, tmp_path / "given"))
    (run / "manifest.json").unlink()
    shutil.rmtree(run / "cells" / "c1")
    (run / ".partial").mkdir()
    (run / ".partial" / "left").write_text("half")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    (outside / ".token").write_text("0" * 24)
    (outside / "c0").mkdir()
    (outside / "c0" / "precious").write_text("precious")
    before = content(outside)
    yield run
    assert content(outside) == before


def content(folder: Path) -> dict[str, Any]:
    """Everything below ``folder``: kind, time of change, and content of plain files."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            path.is_file() and path.read_bytes(),
        )
        for path in sorted(folder.rglob("*"))
        if not path.is_symlink()
    } | {str(path.relative_to(folder)): str(path.readlink()) for path in folder.rglob("*") if path.is_symlink()}


def _continue(run: Path, **options: Any) -> engine.Result:
    return engine.run(fake.scenario(*_SCENARIO), run, method=fake.METHOD, workers=1, **options)


def _clean(*arguments: str) -> list[str]:
    done = subprocess.run(
        argv("clean", "--json", *arguments),
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=_HANG_S,
    )
    return [item["name"] for item in json.loads(done.stdout)["removed"] if item["kind"] == "unfinished cells"]


FILES = (".lock", ".run.json", "scenario.yaml", "manifest.json", "report.html", ".partial/.token")
FOLDERS = (".partial", "cells", "cells/c0", "figures")


def _replace(path: Path, kind: str, outside: Path) -> str:
    """Puts something else in the place of ``path``; returns the word for it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    match kind:
        case "link":
            path.symlink_to(outside)
            return "a symbolic link"
        case "zero":
            path.symlink_to("/dev/zero")
            return "a symbolic link"
        case "dangling":
            path.symlink_to(outside / "nowhere")
            return "a symbolic link"
        case _:
            os.mkfifo(path)
            return "a pipe"


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("kind", ["link", "zero", "dangling", "pipe"])
@pytest.mark.parametrize("name", [*FILES, *FOLDERS])
def test_what_is_no_file_or_folder_is_refused_before_anything_is_changed(
    given: Path, name: str, kind: str, fresh: bool
) -> None:
    outside = given.parent / "outside"
    said = _replace(given / name, kind, outside / "precious" if name in FILES else outside)
    before = content(given)
    with pytest.raises(engine.FolderError) as caught:
        _continue(given, fresh=fresh)
    if name != ".run.json":  # the check of the run's identity meets it first
        assert str(caught.value).startswith(f"{given / name} is {said}; expected ")
    assert content(given) == before
    assert engine.unfinished([given]) == []
    assert content(given) == before


def test_cleaning_neither_writes_through_a_lock_that_is_a_link_nor_waits_for_a_pipe(given: Path) -> None:
    victim = given.parent / "outside" / "precious"
    (given / ".lock").unlink()
    (given / ".lock").symlink_to(victim)
    os.mkfifo(given / ".partial" / ".token")
    before = content(given)
    for arguments in ((), ("--dry-run",)):
        assert _clean(*arguments, str(given.parent)) == []
    assert content(given) == before


def test_a_dry_run_of_cleaning_writes_nothing(given: Path) -> None:
    """Not even in the user's own run with unfinished cells."""
    run = RunFolder(given)
    _continue(given)
    with run.locked():
        run.reopen()
    (given / ".partial" / "left").write_text("half")
    before = content(given.parent)
    assert _clean("--dry-run", str(given.parent)) == [str(given)]
    assert content(given.parent) == before
    assert _clean(str(given.parent)) == [str(given)]
    assert not (given / ".partial").exists()


def test_a_copy_is_continued_by_who_names_it(given: Path, made: Path) -> None:
    kept = (given / "cells" / "c0" / "manifest.json").stat().st_ino
    assert not RunFolder(given).is_own()
    assert RunFolder(made).is_own()
    assert engine.unfinished([given]) == []
    assert _continue(given).executed == 1
    assert (given / "cells" / "c0" / "manifest.json").stat().st_ino == kept
    assert not (given / ".partial").exists()
    assert RunFolder(given).is_own()


def test_a_run_that_is_moved_stays_ones_own_and_one_of_another_user_is_not(
    given: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from weir import _seal

    _continue(given)
    moved = given.rename(given.with_name("moved"))
    assert RunFolder(moved).is_own()
    monkeypatch.setenv("XDG_STATE_HOME", str(given.parent / "state"))
    assert not RunFolder(moved).is_own()
    with pytest.raises(engine.FolderError, match="no seal proves that you made it there"):
        engine.method_of(moved)
    _seal._kept_key.cache_clear()


def test_the_folder_itself_may_be_reached_by_a_link(given: Path) -> None:
    link = given.with_name("link")
    link.symlink_to(given)
    assert _continue(link).executed == 1
    assert (given / "manifest.json").is_file()


# The lock ------------------------------------------------------------------------------------------------------------


def test_a_lock_that_weir_did_not_write_is_locked_and_left_as_it_is(given: Path) -> None:
    (given / ".lock").write_text("precious")
    with RunFolder(given).locked(), pytest.raises(engine.LockedError, match="by another run"):
        _continue(given)
    _continue(given)
    assert (given / ".lock").read_text() == "precious"


def test_who_looks_whether_a_run_is_locked_changes_nothing(tmp_path: Path) -> None:
    with Folder(tmp_path) as folder:
        assert not is_locked(folder)
        assert list(tmp_path.iterdir()) == []
        (tmp_path / ".lock").write_text("")
        assert not is_locked(folder)
        with (tmp_path / ".lock").open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            assert is_locked(folder)


# Cells ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["manifest.json", "plan.json", "plan.json/x", "flows.parquet", "manifest.json/x"])
def test_a_method_opens_no_file_that_the_sink_writes(tmp_path: Path, name: str) -> None:
    with CellWriter(tmp_path, "c0") as cell, pytest.raises(ValueError, match="not the name of a further file"):
        cell.open(name)


def test_what_a_cell_does_not_name_is_not_taken_along(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    with CellWriter(tmp_path, "c0", tmp_path / "inside") as cell:
        cell.open("logs/a.txt").write(b"named")
        cell.complete("{}", {"id": "c0"})
    left = tmp_path / "inside" / "c0"
    (left / "env.txt").write_text("stolen")
    (left / "logs" / "b.txt").write_text("stolen")
    (left / "more" / "deep").mkdir(parents=True)
    (left / "link").symlink_to(outside)
    place(left, tmp_path / "cells" / "c0")
    found = {str(path.relative_to(tmp_path / "cells" / "c0")) for path in (tmp_path / "cells" / "c0").rglob("*")}
    assert {name for name in found if not name.endswith(".parquet")} == {
        *("manifest.json", "plan.json", "logs", "logs/a.txt"),
    }
    assert (outside / "precious").read_text() == "precious"
    assert not left.exists()


def test_a_cell_with_a_link_for_a_file_that_it_names_is_refused(tmp_path: Path) -> None:
    with CellWriter(tmp_path, "c0", tmp_path / "inside") as cell:
        cell.complete("{}", {"id": "c0"})
    left = tmp_path / "inside" / "c0"
    (left / "plan.json").unlink()
    (left / "plan.json").symlink_to("/etc/passwd")
    with pytest.raises(InsideError, match=r"plan\.json is a symbolic link"):
        place(left, tmp_path / "cells" / "c0")
    assert not (tmp_path / "cells" / "c0").exists()


# Files within a folder -----------------------------------------------------------------------------------------------


def test_nothing_but_a_plain_file_is_opened_and_none_beyond_its_bound(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("in/file")
    (tmp_path / "folder").symlink_to("in")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    assert read_plain(tmp_path / "in" / "file", 5) == b"12345"
    with open_plain(tmp_path, "in/file") as opened:
        assert opened.read() == b"12345"
    with pytest.raises(InsideError, match="has 5 bytes; expected at most 4"):
        read_plain(tmp_path / "in" / "file", 4)
    for name in ("link", "loop", "pipe", "in", "folder/file"):
        with pytest.raises(InsideError):
            open_plain(tmp_path, name)
    with pytest.raises(InsideError, match="is a device"):
        read_plain(Path("/dev/zero"), 5)
    with pytest.raises(FileNotFoundError):
        open_plain(tmp_path, "in/none")
    assert not expect(tmp_path / "none" / "none", FILE)


def test_a_file_is_written_beside_a_link_that_waits_for_it(tmp_path: Path) -> None:
    """Names of temporary files can be guessed."""
    (tmp_path / "victim").write_text("precious")
    (tmp_path / f".page.{os.getpid()}.tmp").symlink_to("victim")
    with Folder(tmp_path) as folder:
        folder.write("page", b"new")
    from weir._files import write_atomic

    (tmp_path / f".other.{os.getpid()}.tmp").symlink_to("victim")
    write_atomic(tmp_path / "other", "new")
    assert (tmp_path / "victim").read_text() == "precious"
    assert (tmp_path / "page").read_text() == (tmp_path / "other").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "page", "victim"]
