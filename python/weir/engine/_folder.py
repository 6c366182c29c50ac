"""The folder of a run: whose it is, what it holds already, and a lock against two writers."""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import hashlib
import json
import os
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from weir.engine._errors import FolderError, LockedError
from weir.engine._files import read_json, write_atomic, write_json

__all__ = ["PARTIAL", "Identity", "RunFolder", "identity_of", "method_of", "now", "remove_unfinished", "unfinished"]

Identity = Mapping[str, Any]
"""What makes two runs the same run: scenario text, method and settings."""

PARTIAL = ".partial"
"""Holds the unfinished cells; whoever holds the lock may empty it."""

_STATE = ".run.json"
_LOCK = ".lock"
_OURS = ("manifest.json", "scenario.yaml", "report.html", "figures", "cells", PARTIAL, _STATE)


class RunFolder:
    """A folder that one run is written to, by one process at a time."""

    def __init__(self, path: Path) -> None:
        """Names the folder; nothing is touched before :meth:`locked`."""
        self.path = path
        self.cells = path / "cells"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the lock of the folder, which is created if need be.

        The lock is the kernel's, so that it goes with the process that held it, however that ended.

        Raises:
            LockedError: another process holds it.
            FolderError: the path is no folder, or cannot be created.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            file = (self.path / _LOCK).open("a+", encoding="utf-8")
        except (FileExistsError, NotADirectoryError) as error:
            raise FolderError(f"{self.path} is not a folder") from error
        except PermissionError as error:
            raise FolderError(f"{self.path}: no permission to write there") from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                file.seek(0)
                raise LockedError(f"{self.path} is being written by {file.read().strip() or 'another run'}") from error
            except OSError as error:
                if error.errno not in {errno.ENOTSUP, errno.ENOLCK, errno.ENOSYS}:
                    raise
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
            file.flush()
            yield

    def claim(self, identity: Identity, text: str, *, fresh: bool) -> None:
        """Makes the folder that of ``identity``; a run of the same identity is continued.

        Raises:
            FolderError: it holds another run, or something that is not a run.
            OSError: it cannot be written.
        """
        if fresh and (self.path / _STATE).is_file():
            _remove(self.path, _OURS)
        held = read_json(self.path / _STATE)
        if held is None:
            self._refuse_strangers()
            write_atomic(self.path / "scenario.yaml", text)
            write_json(self.path / _STATE, {"identity": identity, "start": now()})
        elif held.get("identity") != json.loads(json.dumps(identity)):
            raise FolderError(
                f"{self.path} holds another run: {_difference(held.get('identity', {}), identity)}. "
                "Give another folder with --out, or replace that run with --fresh"
            )
        self.cells.mkdir(exist_ok=True)
        self.remove_partial()

    @property
    def start(self) -> str:
        """When the run was begun, also if that was before an interruption."""
        return str((read_json(self.path / _STATE) or {}).get("start", now()))

    def remove_partial(self) -> None:
        """Removes what is left of unfinished cells. Only for who holds the lock."""
        shutil.rmtree(self.path / PARTIAL, ignore_errors=True)

    def reopen(self) -> None:
        """Removes what says that the run is complete, and what was derived from it."""
        _remove(self.path, ("manifest.json", "report.html", "figures"))

    def finished(self, cell_id: str) -> dict[str, Any] | None:
        """The manifest of a complete cell, or ``None``."""
        return read_json(self.cells / cell_id / "manifest.json")

    def discard(self, cell_id: str) -> None:
        """Removes a cell of another version of weir or of what the plan names."""
        _remove(self.cells, (cell_id,))

    def manifest(self) -> dict[str, Any] | None:
        """The manifest of the run if it is complete, or ``None``."""
        return read_json(self.path / "manifest.json")

    def _refuse_strangers(self) -> None:
        # What a crash between the first two files of a run leaves behind is no stranger.
        ours = {_LOCK, "scenario.yaml"}
        strangers = sorted(p.name for p in self.path.iterdir() if p.name not in ours and not p.name.endswith(".tmp"))
        if strangers:
            raise FolderError(
                f"{self.path} is not empty and holds no run of weir (there is {strangers[0]!r}). "
                "Give another folder with --out"
            )


def _remove(folder: Path, names: tuple[str, ...]) -> None:
    for name in names:
        entry = folder / name
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink(missing_ok=True)


def now() -> str:
    """This instant, in UTC."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def identity_of(text: str, title: str, method: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The identity of a run of the scenario ``text``."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"format": 1, "title": title, "scenario_sha256": digest, "method": method, "settings": dict(settings)}


def _difference(held: Identity, wanted: Identity) -> str:
    if held.get("format") != wanted["format"]:
        return "it was written by another version of weir"
    if held.get("scenario_sha256") != wanted["scenario_sha256"]:
        if held.get("title") == wanted["title"]:
            return f"the scenario ({wanted['title']!r}) was edited since"
        return f"of the scenario {held.get('title')!r}"
    if held.get("method") != wanted["method"]:
        return f"by method {held.get('method')!r}"
    return f"with other settings ({_settings(held)} instead of {_settings(wanted)})"


def _settings(identity: Identity) -> str:
    settings = identity.get("settings") or {}
    words = [str(name) if value is True else f"{name}={value}" for name, value in settings.items() if value]
    return " ".join(words) or "none"


def method_of(run: Path) -> str | None:
    """The method of the run that the folder ``run`` holds, complete or not; ``None`` if it holds none."""
    held = (read_json(run / _STATE) or {}).get("identity", {}).get("method")
    return held if isinstance(held, str) else None


def unfinished(folders: Iterable[Path]) -> list[Path]:
    """The runs in ``folders``, each a run or a folder of runs, that hold unfinished cells and that nobody writes to."""
    candidates = (run for folder in folders for run in (folder, *sorted(folder.glob("*/"))))
    return [run for run in candidates if (run / PARTIAL).is_dir() and not _in_use(run)]


def remove_unfinished(run: Path) -> None:
    """Removes the unfinished cells of ``run``.

    Raises:
        LockedError: somebody writes to it after all.
        OSError: they cannot be removed.
    """
    folder = RunFolder(run)
    with folder.locked():
        folder.remove_partial()


def _in_use(run: Path) -> bool:
    try:
        with RunFolder(run).locked():
            return False
    except (LockedError, FolderError):
        return True
