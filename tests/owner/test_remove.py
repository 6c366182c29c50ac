"""Remains of others are removed, however they are made, and the report of it is true."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from weir._remove import NotRemovedError, remove_quietly, remove_tree

_DEEP = 2000


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder with content, for processes of any user."""
    folder = tmp_path / "left"
    folder.mkdir()
    (folder / "file").write_text("x", encoding="utf-8")
    yield folder
    remove_quietly(folder)  # what pytest could not


def test_folders_too_deep_to_name_go(place: Path) -> None:
    here = os.open(place, os.O_RDONLY)
    for _ in range(_DEEP):
        os.mkdir("deeper", dir_fd=here)
        below = os.open("deeper", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    os.close(here)
    remove_tree(place)
    assert not place.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to become somebody else")
def test_folders_that_their_owner_may_not_read_go(place: Path) -> None:
    (place / "closed" / "folder").mkdir(parents=True)
    (place / "closed" / "folder" / "file").write_text("x", encoding="utf-8")
    os.chown(place, 54321, 54321)
    for path in (place / "closed", *(place / "closed").rglob("*")):
        os.chown(path, 54321, 54321)
    for path in (place / "closed" / "folder", place / "closed"):
        path.chmod(0o300)
    for path in place.parents:
        if path.stat().st_mode & 0o001 == 0 and path.stat().st_uid == 0:
            path.chmod(path.stat().st_mode | 0o011)
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(54321)
        os.setuid(54321)
        try:
            list((place / "closed").iterdir())
        except PermissionError:
            from weir import _remove

            try:
                _remove.remove_tree(place)
            except NotRemovedError as error:  # the folder above is not the child's
                os._exit(0 if not list(place.iterdir()) and str(place) in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert place.is_dir()


def test_links_are_not_followed(place: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("kept", encoding="utf-8")
    (place / "link").symlink_to(kept)
    remove_tree(place)
    assert (kept / "file").read_text(encoding="utf-8") == "kept"
    link = tmp_path / "link"
    link.symlink_to(kept)
    remove_tree(link)
    assert not link.is_symlink()
    assert (kept / "file").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to mount")
def test_a_mount_is_not_entered_and_what_stays_is_told(place: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("kept", encoding="utf-8")
    (place / "deep" / "mount").mkdir(parents=True)
    subprocess.run(["mount", "--bind", kept, place / "deep" / "mount"], check=True)
    try:
        with pytest.raises(NotRemovedError, match=r"left/deep/mount: something is mounted there$"):
            remove_tree(place)
        assert (kept / "file").read_text(encoding="utf-8") == "kept"
        assert not (place / "file").exists()  # the rest went
    finally:
        subprocess.run(["umount", place / "deep" / "mount"], check=True)
    remove_tree(place)
    assert not place.exists()


def test_what_is_not_there_is_gone(tmp_path: Path) -> None:
    remove_tree(tmp_path / "never")
