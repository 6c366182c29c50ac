"""The cache of what was built: damage is built anew, and what others may write is not used."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cc_support import EXAMPLE

from weir import _cache, cc
from weir.cc import _build
from weir.cc._source import built_from, content_hash, source_hash
from weir.lab import LabError, _files


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of caches, which is this test's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _empty(shared: Path) -> None:
    shared.write_bytes(b"")


def _cut(shared: Path) -> None:
    shared.write_bytes(shared.read_bytes()[:3000])


def _flip(shared: Path) -> None:
    content = bytearray(shared.read_bytes())
    content[len(content) // 2] ^= 1
    shared.write_bytes(content)


def _pipe(shared: Path) -> None:
    shared.unlink()
    os.mkfifo(shared)


def _link(shared: Path) -> None:
    shared.unlink()
    shared.symlink_to("/dev/zero")


def _file(shared: Path) -> None:
    shutil.rmtree(shared.parent)
    shared.parent.write_text("not a folder")


def _dangling(shared: Path) -> None:
    shutil.rmtree(shared.parent)
    shared.parent.symlink_to("/nowhere")


@pytest.mark.parametrize("damage", [_empty, _cut, _flip, _pipe, _link, _file, _dangling])
def test_what_is_damaged_is_built_anew(folder: Path, tmp_path: Path, damage: Callable[[Path], None]) -> None:
    source = tmp_path / "mine.c"
    shutil.copy(EXAMPLE, source)
    shared = _build.object_of(source)
    damage(shared)
    assert _build.object_of(source) == shared
    assert built_from(shared) == source_hash(source)
    assert content_hash(shared) == (shared.parent / "checksum").read_text(encoding="ascii")
    assert sorted(path.name for path in shared.parent.parent.iterdir()) == [shared.parent.name]


def test_what_is_whole_is_not_built_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "mine.c"
    shutil.copy(EXAMPLE, source)
    shared = _build.object_of(source)
    monkeypatch.setattr(_build, "compiled", None)
    assert _build.object_of(source) == shared


@pytest.mark.parametrize("name", ["", "weir", "weir/cc"])
def test_a_cache_that_everybody_may_write_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    source = tmp_path / "mine.c"
    shutil.copy(EXAMPLE, source)
    (folder / "weir" / "cc").mkdir(parents=True)
    (folder / name).chmod(0o777)
    with pytest.raises(cc.ControlError, match=rf"everybody may write to {folder / name}; set XDG_CACHE_HOME"):
        _build.object_of(source)
    if name != "weir/cc":
        with pytest.raises(LabError, match="everybody may write"):
            _files.require_own_cache()


def test_a_folder_for_all_is_good_enough_for_a_cache_in_it(folder: Path) -> None:
    (folder / "weir" / "lab").mkdir(parents=True)
    folder.chmod(0o1777)
    assert _cache.foreign(folder / "weir" / "lab") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
@pytest.mark.parametrize("name", ["weir", "weir/lab"])
def test_a_cache_of_another_user_is_refused(folder: Path, name: str) -> None:
    (folder / "weir" / "lab").mkdir(parents=True)
    os.chown(folder / name, 65534, 65534)
    with pytest.raises(LabError, match=f"{folder / name} belongs to the user 65534"):
        _files.require_own_cache()
