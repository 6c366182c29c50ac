"""Archives: what goes in comes out, and nothing else gets out."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from weir.archive import ArchiveError, pack, unpack

CONTENT = {
    "scenario.yaml": b"title: x\n",
    "manifest.json": b"{}",
    "cells/0000-r0/manifest.json": b"{}",
    "cells/0000-r0/plan.json": b"{}",
    "cells/0000-r0/environment/a1.json": b"[1]",
    "cells/0000-r0/empty": b"",
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for name, content in CONTENT.items():
        path = tmp_path / "my-run" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (tmp_path / "my-run" / ".partial").mkdir()
    (tmp_path / "my-run" / ".partial" / "half").write_text("no")
    return tmp_path / "my-run"


def found(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def made(path: Path, held: dict[str, bytes], listed: dict[str, bytes] | None = None, **about: object) -> Path:
    """An archive by hand: ``held`` in it, ``listed`` in its list."""
    entries = {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in (held if listed is None else listed).items()
    }
    with tarfile.open(path, "w:gz") as tar:
        for name, content in {
            "ARCHIVE.json": json.dumps({"format": 1, "run": "r", "files": entries, **about}).encode(),
            **held,
        }.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return path


def test_a_run_comes_back_as_it_was(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "my-run.weir.tar.gz"
    assert pack(run, archive) == len(CONTENT)
    assert found(unpack(archive, tmp_path / "again")) == CONTENT
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert unpack(archive) == Path("my-run")
    with pytest.raises(FileExistsError):
        unpack(archive)
    with tarfile.open(archive) as tar:
        told = tar.extractfile("READ-ME.txt")
        assert told is not None
        assert "delivered_bytes (uint64): Payload handed" in told.read().decode()


def test_what_is_no_run_is_not_archived(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with pytest.raises(ArchiveError, match=r"no scenario\.yaml"):
        pack(tmp_path / "x", tmp_path / "a.tar.gz")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("left", [{"scenario.yaml"}, {"scenario.yaml", "cells/0000-r0/plan.json"}])
def test_a_run_without_a_complete_cell_is_not_archived(run: Path, tmp_path: Path, left: set[str]) -> None:
    for name in CONTENT.keys() - left:
        (run / name).unlink()
    with pytest.raises(ArchiveError, match="my-run has no cell that is complete"):
        pack(run, tmp_path / "a.tar.gz")
    assert [path.name for path in tmp_path.iterdir()] == ["my-run"]


def test_a_link_in_a_run_is_refused(run: Path, tmp_path: Path) -> None:
    (run / "cells" / "secret").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="expected"):
        pack(run, tmp_path / "a.tar.gz")
    assert not (tmp_path / "a.tar.gz").exists()


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "a/../../out", "a//b", "./a", ".", "", "a\nb"])
def test_no_name_leads_outside(tmp_path: Path, name: str) -> None:
    bad = made(tmp_path / "bad.tar.gz", {name: b"x"} if name else {}, {name: b"x"})
    with pytest.raises(ArchiveError, match="outside of it"):
        unpack(bad, tmp_path / "to")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.tar.gz"]


def test_only_what_is_listed_comes_out(tmp_path: Path) -> None:
    for files, listed in (
        ({"a": b"x", "more": b"x"}, {"a": b"x"}),
        ({"a": b"x"}, {"a": b"y"}),
        ({"a": b"xx"}, {"a": b"x"}),
        ({}, {"a": b"x"}),
    ):
        with pytest.raises(ArchiveError):
            unpack(made(tmp_path / "bad.tar.gz", files, listed), tmp_path / "to")
        assert [path.name for path in tmp_path.iterdir()] == ["bad.tar.gz"]


def test_links_and_devices_are_refused(tmp_path: Path) -> None:
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE):
        path = made(tmp_path / "bad.tar.gz", {}, {"a": b""})
        content = gzip.decompress(path.read_bytes())
        entry = tarfile.TarInfo("a")
        entry.type, entry.linkname = kind, "/etc/passwd"
        end = content.rstrip(b"\0")
        padded = end + bytes(-len(end) % 512)
        path.write_bytes(gzip.compress(padded + entry.tobuf() + bytes(1024)))
        with pytest.raises(ArchiveError, match="not what its list says"):
            unpack(path, tmp_path / "to")


@pytest.mark.parametrize("content", [b"", b"nothing", gzip.compress(b"x" * 2000)])
def test_other_files_are_no_archives(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(ArchiveError, match="is no archive"):
        unpack(tmp_path / "a", tmp_path / "to")


def test_other_lists_are_refused(tmp_path: Path) -> None:
    for about in ({"format": 2}, {"run": "../r"}, {"run": "a/b"}, {"files": {"a": {"bytes": -1, "sha256": ""}}}):
        with pytest.raises(ArchiveError):
            unpack(made(tmp_path / "bad.tar.gz", {}, **about), tmp_path / "to")


def test_a_cut_archive_leaves_nothing(run: Path, tmp_path: Path) -> None:
    archive = tmp_path / "a.tar.gz"
    pack(run, archive)
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    with pytest.raises(ArchiveError):
        unpack(archive, tmp_path / "to")
    assert {path.name for path in tmp_path.iterdir()} == {"a.tar.gz", "my-run"}
