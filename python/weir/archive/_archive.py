"""Packing and unpacking."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import shutil
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

import weir
from weir._inside import FILE, FOLDER, Folder
from weir.run import TABLES

__all__ = ["ArchiveError", "pack", "unpack"]

FORMAT = 1
_LIST = "ARCHIVE.json"
_README = "READ-ME.txt"
_SKIPPED = frozenset({".partial", ".lock", ".aside", ".before", ".replaced"})
_MAX_LIST = 1 << 28
_BLOCK = 1 << 20
_MAX_FILES = 10_000_000


class ArchiveError(Exception):
    """A file is no archive of weir's, or was damaged; or a run cannot be archived. The message says which file."""


def pack(run: Path, archive: Path) -> int:
    """Writes the run in the folder ``run`` to the file ``archive``; returns the number of its files.

    Raises:
        ArchiveError: the folder holds no run, or one without a cell.
        weir._inside.InsideError: something in it is neither a plain file nor a folder.
        OSError: a file cannot be read, or the archive not be written.
    """
    temporary = archive.with_name(f".{archive.name}.tmp")
    with Folder(run) as folder:
        if not folder.expect("scenario.yaml", FILE):
            raise ArchiveError(f"{run} holds no run: it has no scenario.yaml")
        if not _has_cell(folder):
            raise ArchiveError(
                f"{run} has no cell that is complete, so there is nothing to archive; the command that made the run "
                "continues it"
            )
        about: dict[str, Any] = {
            "format": FORMAT,
            "weir": weir.__version__,
            "run": run.absolute().name,
            "packed": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "files": {name: _about(file) for name, file in _files(folder)},
        }
        try:
            with tarfile.open(temporary, "w:gz", compresslevel=6, format=tarfile.PAX_FORMAT) as tar:
                _add(tar, _LIST, (json.dumps(about, indent=1) + "\n").encode())
                _add(tar, _README, _readme(about).encode())
                for name, file in _files(folder):
                    size = about["files"][name]["bytes"]
                    tar.addfile(_entry(name, size), _Whole(file, size, run / name))
            temporary.replace(archive)
        finally:
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()
    return len(about["files"])


def _has_cell(run: Folder) -> bool:
    """Whether a cell has its manifest, without which no run can be opened."""
    if run.kind("cells") != FOLDER:
        return False
    with run.inner("cells") as cells:
        for name in cells.names():
            if cells.kind(name) == FOLDER:
                with cells.inner(name) as cell:
                    if cell.kind("manifest.json") == FILE:
                        return True
    return False


def unpack(archive: Path, to: Path | None = None) -> Path:
    """Unpacks ``archive`` into the folder ``to``, by default one named after its run; returns that folder.

    The folder must not exist. It appears when everything is there and has the checksums of the list.

    Raises:
        ArchiveError: it is no archive, damaged, or has anything that its list does not name.
        FileExistsError: the folder exists.
        OSError: it cannot be written.
    """
    try:
        with tarfile.open(archive, "r|gz") as tar:
            members = iter(tar)
            about = _list(tar, members, archive)
            final = Path(about["run"]) if to is None else to
            if final.exists():
                raise FileExistsError(17, "it exists already", str(final))
            return _unpack(tar, members, about, archive, final)
    except (tarfile.TarError, EOFError, ValueError, KeyError, TypeError) as error:
        raise ArchiveError(f"{archive} is no archive of a run, or damaged: {error}") from error


def _unpack(tar: tarfile.TarFile, members: Iterator[Any], about: dict[str, Any], archive: Path, final: Path) -> Path:
    total = sum(one["bytes"] for one in about["files"].values())
    final.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(final.parent).free
    if total > free:
        raise ArchiveError(f"{archive} has {total} bytes unpacked, and {final.parent.absolute()} has {free} left")
    temporary = final.with_name(f".{final.name}.unpacked")
    temporary.mkdir()
    try:
        missing = dict(about["files"])
        with Folder(temporary) as folder:
            for member in members:
                if member.name == _README:
                    continue
                one = missing.pop(member.name, None)
                if one is None or not member.isreg() or member.size != one["bytes"]:
                    raise ArchiveError(f"{archive}: {member.name[:200]!r} is not what its list says")
                source = tar.extractfile(member)
                assert source is not None
                with _created(folder, member.name) as file:
                    digest = _copied(source, file)
                if digest != one["sha256"]:
                    raise ArchiveError(f"{archive}: {member.name} is damaged")
        if missing:
            raise ArchiveError(f"{archive} ends without {next(iter(missing))}")
        temporary.rename(final)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return final


def _list(tar: tarfile.TarFile, members: Iterator[tarfile.TarInfo], archive: Path) -> dict[str, Any]:
    """The list of an archive.

    Raises:
        ArchiveError: it has none, or one that no version of weir writes.
    """
    first = next(members, None)
    if first is None or first.name != _LIST or not first.isreg() or first.size > _MAX_LIST:
        raise ArchiveError(f"{archive} is no archive of a run: {_LIST} is not its first file")
    source = tar.extractfile(first)
    assert source is not None
    about: dict[str, Any] = json.loads(source.read(_MAX_LIST))
    if about["format"] != FORMAT:
        raise ArchiveError(f"{archive} has format {about['format']!r}; this version of weir reads {FORMAT}")
    names = [about["run"], *about["files"]]
    if len(names) > _MAX_FILES or not all(_is_inside(name) for name in names) or len(Path(about["run"]).parts) != 1:
        raise ArchiveError(f"{archive}: its list names a file outside of it")
    for one in about["files"].values():
        if type(one["bytes"]) is not int or one["bytes"] < 0 or not isinstance(one["sha256"], str):
            raise ArchiveError(f"{archive}: its list is malformed")
    return about


def _is_inside(name: object) -> bool:
    """Whether ``name`` is a relative path of plain names."""
    if not isinstance(name, str) or not name or not name.isprintable():
        return False
    parts = PurePosixPath(name).parts
    return bool(parts) and PurePosixPath(*parts).as_posix() == name and not {"/", ".."} & {*parts}


@contextlib.contextmanager
def _created(folder: Folder, name: str) -> Iterator[IO[bytes]]:
    *before, last = PurePosixPath(name).parts
    with contextlib.ExitStack() as stack:
        place = folder
        for part in before:
            place = stack.enter_context(place.inner(part, make=True))
        yield stack.enter_context(place.open_to_write(last))


def _copied(source: IO[bytes], target: IO[bytes]) -> str:
    """Copies ``source``; its SHA-256."""
    digest = hashlib.sha256()
    while block := source.read(_BLOCK):
        digest.update(block)
        view = memoryview(block)
        while view:
            view = view[target.write(view) :]
    return digest.hexdigest()


def _files(folder: Folder, above: str = "") -> Iterator[tuple[str, IO[bytes]]]:
    """Every plain file in ``folder`` with its path, sorted; each is open until the next."""
    for name in folder.names():
        if not above and name in _SKIPPED:
            continue
        if folder.kind(name) == FOLDER:
            with folder.inner(name) as inner:
                yield from _files(inner, f"{above}{name}/")
        else:
            with folder.open(name) as file:
                yield f"{above}{name}", file


def _about(file: IO[bytes]) -> dict[str, Any]:
    digest, size = hashlib.sha256(), 0
    while block := file.read(_BLOCK):
        digest.update(block)
        size += len(block)
    return {"bytes": size, "sha256": digest.hexdigest()}


class _Whole(io.RawIOBase):
    """A file of which exactly ``size`` bytes are read, or it changed meanwhile."""

    def __init__(self, file: IO[bytes], size: int, path: Path) -> None:
        super().__init__()
        self._file, self._left, self._path = file, size, path

    def read(self, count: int = -1) -> bytes:
        block = self._file.read(self._left if count < 0 else min(count, self._left))
        if not block and self._left and count:
            raise ArchiveError(f"{self._path} became shorter while it was archived")
        self._left -= len(block)
        return block


def _entry(name: str, size: int) -> tarfile.TarInfo:
    """The header of a file: without owner and time, so that equal runs give equal archives but for their list."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o644
    return entry


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    tar.addfile(_entry(name, len(content)), io.BytesIO(content))


def _readme(about: dict[str, Any]) -> str:
    lines = [
        f"A run of weir {about['weir']}, packed {about['packed']}.",
        "",
        "`weir open` unpacks it, verifies its checksums and builds its report. Without weir: scenario.yaml is what",
        "was executed; cells/ID/ is one cell of it, with plan.json (what weir made of the scenario), manifest.json",
        "(factors, seed, statistics, warnings) and tables as Parquet files. Files of runs on real machines: nodes.json",
        "(machines, addresses, changed parameters with the values before), clocks.json (their clocks),",
        "calibration.json (the network between them), environment/ (kernel, processor, parameters of each machine).",
        "",
        "ARCHIVE.json lists every file with its size and SHA-256. The columns of the tables:",
    ]
    for name, table in TABLES.items():
        lines += ["", f"{name}: {table.doc}"]
        lines += [f"  {column.name} ({column.type}): {column.doc}" for column in table.columns]
    return "\n".join(lines) + "\n"
