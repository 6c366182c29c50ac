"""The folder of a run: whose it is, what it holds already, and a lock against two writers."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir._files import made_folder, remove_leftovers
from weir._remove import remove_quietly, remove_tree
from weir.engine._errors import FolderError, LockedError
from weir.engine._files import write_atomic, write_json
from weir.engine._lock import LOCK, held_lock
from weir.run import ReadError, open_cell
from weir.run.checksums import FORMAT, checksums_in, seal
from weir.run.documents import Fields, read_document
from weir.run.manifest import MANIFEST, read_cell_manifest, read_run_manifest
from weir.run.printable import printable

__all__ = [
    "PARTIAL",
    "Identity",
    "Origin",
    "RunFolder",
    "discard",
    "identity_of",
    "method_of",
    "now",
    "origin_of",
    "remove_unfinished",
    "unfinished",
]

Identity = Mapping[str, Any]
"""What makes two runs the same run: scenario text, method and settings."""

PARTIAL = ".partial"
"""Holds the unfinished cells; whoever holds the lock may empty it."""

_STATE = ".run.json"
_TOKEN = ".token"
"""In ``PARTIAL``: the token of the run's ``.run.json``. Together they prove that the folder is weir's to remove."""
_TOKEN_TEXT = re.compile(r"[0-9a-f]{32}")
_SCENARIO = "scenario.yaml"
_IDENTITY = 1
"""The format of identities."""
_OURS = ("manifest.json", "scenario.yaml", "report.html", "figures", "cells", PARTIAL, _STATE)


class RunFolder:
    """A folder that one run is written to, by one process at a time."""

    def __init__(self, path: Path) -> None:
        """Names the folder; nothing is touched before :meth:`locked`."""
        self.path = path
        self.cells = path / "cells"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the lock of the folder, which is made if need be. Nothing stays unless a run was claimed meanwhile.

        Raises:
            LockedError: another process holds it.
            FolderError: the path is no folder, holds something that is not a run, or cannot be made.
        """
        self._refuse_strangers()
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(made_folder(self.path))
                stack.enter_context(held_lock(self.path / LOCK, keep=(self.path / _STATE).is_file))
            except (FileExistsError, NotADirectoryError) as error:
                raise FolderError(f"{self.path} is not a folder") from error
            except PermissionError as error:
                raise FolderError(f"{self.path}: no permission to write there") from error
            except ValueError as error:
                raise FolderError(f"{str(self.path)!r} is not a path: {error}") from error
            yield

    @contextlib.contextmanager
    def claimed(self, identity: Identity, text: str, *, fresh: bool) -> Iterator[None]:
        """Makes the folder that of ``identity``; a run of the same identity is continued.

        If it is a new one, and an error or an interrupt comes before the first cell is complete, it never was.

        Raises:
            FolderError: it holds another run.
            OSError: it cannot be written.
        """
        held = self._state()
        if fresh and held is not None:
            _remove(self.path, _OURS)
            held = None
        if held is not None and held["identity"] != json.loads(json.dumps(identity)):
            raise FolderError(
                f"{printable(self.path)} holds another run: {_difference(held['identity'], identity)}. "
                "Give another folder with --out, or replace that run with --fresh"
            )
        try:
            self._settle(identity, text, held)
            yield
        except BaseException:
            if held is None and not any(self.finished(cell.name) for cell in _entries(self.cells)):
                _remove(self.path, _OURS)
            raise

    def _settle(self, identity: Identity, text: str, held: dict[str, Any] | None) -> None:
        """Writes what makes the folder this run's, as far as it is missing or damaged."""
        if _token_in(held) is None:
            # The state first: from then on the folder is a run, whatever is missing of it.
            start = now() if held is None else held.get("start", now())
            state = {"format": FORMAT, "identity": identity, "start": start, "token": secrets.token_hex(16)}
            write_json(self.path / _STATE, seal(state, self.path, ()))
        if self._text() != text.encode():
            write_atomic(self.path / _SCENARIO, text)
        self.cells.mkdir(exist_ok=True)
        remove_leftovers(self.path)
        self.remove_partial()

    def owns_partial(self) -> bool:
        """Whether there are unfinished cells that this very run wrote."""
        partial = self.path / PARTIAL
        if partial.is_symlink() or not partial.is_dir() or (partial / _TOKEN).is_symlink():
            return False
        try:
            written = (partial / _TOKEN).read_text(encoding="ascii", errors="replace")
        except OSError:
            return False
        try:
            return written == _token_in(self._state())
        except FolderError:
            return False

    @property
    def start(self) -> str:
        """When the run was begun, also if that was before an interruption."""
        return str((self._state() or {}).get("start", now()))

    def remove_partial(self) -> None:
        """Removes what is left of unfinished cells. Only for who holds the lock."""
        remove_quietly(self.path / PARTIAL)

    def reopen(self) -> None:
        """Removes what says that the run is complete, and what was derived from it; cells can be written then."""
        _remove(self.path, ("manifest.json", "report.html", "figures"))
        (self.path / PARTIAL).mkdir(exist_ok=True)
        (self.path / PARTIAL / _TOKEN).write_text(_token_in(self._state()) or "", encoding="ascii")

    def finished(self, cell_id: str) -> dict[str, Any] | None:
        """The manifest of a complete cell, or ``None``; whether its files are what was written, :meth:`cell` tells."""
        try:
            return dict(read_cell_manifest(self.cells / cell_id, verify=True).raw)
        except ReadError:
            return None

    def damage(self, cell_id: str) -> list[str]:
        """What is wrong with the files of a cell: missing, or not what was written."""
        try:
            return open_cell(self.cells / cell_id).damaged()
        except ReadError as error:
            return [f"{printable(error.path.name)}: {error.problem}"]

    def holds(self, cell_id: str) -> bool:
        """Whether there is anything of that cell."""
        return os.path.lexists(self.cells / cell_id)

    def discard(self, cell_id: str) -> None:
        """Removes a cell of another version of weir or of what the plan names."""
        _remove(self.cells, (cell_id,))

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """Writes the manifest of the run, which says that it is complete.

        Raises:
            OSError: it cannot be written.
        """
        write_json(self.path / MANIFEST, seal(manifest, self.path, [_SCENARIO]))

    def manifest(self) -> dict[str, Any] | None:
        """The manifest of the run if it is complete and what was written, or ``None``."""
        try:
            return dict(read_run_manifest(self.path, verify=True).raw)
        except ReadError:
            return None

    def _state(self) -> dict[str, Any] | None:
        """What the folder says of its run; ``None`` if it holds none of weir. If it is damaged, the manifest says it.

        Raises:
            FolderError: it is damaged, and there is no manifest.
        """
        try:
            held = _state_in(self.path)
        except ReadError as error:
            held, damaged = None, error.problem
        else:
            damaged = ""
        if held is None and (manifest := self.manifest()) is not None:
            held = _state_from(manifest)
        if held is None and damaged:
            raise FolderError(
                f"{printable(self.path / _STATE)} {damaged}. It says which run this is, and there is no manifest.json "
                "to say it instead. Give another folder with --out, or remove that one"
            )
        return held

    def _text(self) -> bytes | None:
        try:
            return (self.path / _SCENARIO).read_bytes()
        except OSError:
            return None

    def _refuse_strangers(self) -> None:
        if self._state() is not None:
            return
        try:
            names = {path.name for path in self.path.iterdir()}
        except FileNotFoundError:
            return
        except NotADirectoryError as error:
            raise FolderError(f"{self.path} is not a folder") from error
        except PermissionError as error:
            raise FolderError(f"{self.path}: no permission to look there") from error
        except (OSError, ValueError) as error:
            raise FolderError(f"{str(self.path)!r} cannot be a folder: {error}") from error
        # What a process leaves that is killed before its folder is a run.
        strangers = sorted(name for name in names if name != LOCK and not name.startswith(f".{_STATE}."))
        if strangers:
            raise FolderError(
                f"{self.path} is not empty and holds no run of weir (there is {strangers[0]!r}). "
                "Give another folder with --out"
            )


def _remove(folder: Path, names: tuple[str, ...]) -> None:
    for name in names:
        entry = folder / name
        remove_tree(entry)


def now() -> str:
    """This instant, in UTC."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def identity_of(text: str, title: str, method: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The identity of a run of the scenario ``text``."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {
        "format": _IDENTITY,
        "title": title,
        "scenario_sha256": digest,
        "method": method,
        "settings": dict(settings),
    }


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
    try:
        held = RunFolder(run)._state()
    except FolderError:
        return None
    found = None if held is None else held["identity"].get("method")
    return found if isinstance(found, str) else None


@dataclass(frozen=True)
class Origin:
    """What a run was executed from."""

    text: str
    """Of the scenario."""
    file: str
    """Where the scenario was read; the copy in the run if nobody knows any more."""
    method: str
    settings: Mapping[str, Any]


def origin_of(run: Path) -> Origin | None:
    """What the run that the folder ``run`` holds was executed from, complete or not; ``None`` if it holds none.

    Raises:
        FolderError: what says it is damaged.
    """
    folder = RunFolder(run)
    held = folder._state()
    if held is None:
        return None
    identity, text = held["identity"], folder._text() or b""
    if hashlib.sha256(text).hexdigest() != identity.get("scenario_sha256"):
        raise FolderError(f"{printable(run / _SCENARIO)} is not the scenario that was executed")
    scenario = (folder.manifest() or {}).get("scenario")
    file = scenario.get("path") if isinstance(scenario, dict) else None
    settings = identity.get("settings")
    return Origin(
        text.decode(),
        file if isinstance(file, str) else str(run / _SCENARIO),
        str(identity.get("method")),
        settings if isinstance(settings, dict) else {},
    )


def _state_in(run: Path) -> dict[str, Any] | None:
    """What the folder ``run`` says of itself; ``None`` if nothing, or if it is not weir that says it.

    Raises:
        weir.run.ReadError: it is damaged.
    """
    file = run / _STATE
    if not os.path.lexists(file):
        return None
    raw = read_document(file)[1]
    sealed = checksums_in(file, raw) is not None
    if sealed:
        Fields(file, raw).object("identity")
    return raw if isinstance(raw.get("identity"), dict) else None


def _state_from(manifest: Mapping[str, Any]) -> dict[str, Any] | None:
    """The same from the manifest of a complete run; ``None`` if it is of a version whose manifests say less."""
    scenario = manifest.get("scenario")
    if "checksums" not in manifest or not isinstance(scenario, dict):
        return None
    identity = {
        "format": _IDENTITY,
        "title": manifest.get("title"),
        "scenario_sha256": scenario.get("sha256"),
        "method": manifest.get("method"),
        "settings": manifest.get("settings"),
    }
    return {"identity": identity, "start": manifest.get("start")}


def _token_in(state: Mapping[str, Any] | None) -> str | None:
    token = (state or {}).get("token")
    return token if isinstance(token, str) and _TOKEN_TEXT.fullmatch(token) else None


def unfinished(folders: Iterable[Path]) -> list[Path]:
    """The runs in ``folders``, each a run or a folder of runs, that hold unfinished cells and that nobody writes to.

    Whatever weir did not write is none, and nothing is made there to find out.
    """
    candidates = (run for folder in folders for run in (folder, *_folders_in(folder)))
    return [run for run in candidates if RunFolder(run).owns_partial() and not _in_use(run)]


def _folders_in(folder: Path) -> list[Path]:
    return [path for path in _entries(folder) if path.is_dir() and not path.is_symlink()]


def _entries(folder: Path) -> list[Path]:
    """What is in ``folder``; nothing if it is none, or cannot be looked at."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def remove_unfinished(run: Path) -> None:
    """Removes the unfinished cells of ``run``.

    Raises:
        LockedError: somebody writes to it after all.
        OSError: they cannot be removed.
    """
    folder = RunFolder(run)
    with folder.locked():
        if folder.owns_partial():
            remove_tree(run / PARTIAL)


def discard(run: Path, cells: Iterable[str]) -> None:
    """Removes cells of ``run``, by their ids, so that they are executed anew.

    Raises:
        LockedError: another process writes to it.
        OSError: they cannot be removed.
    """
    folder = RunFolder(run)
    with folder.locked():
        folder.reopen()
        for cell in cells:
            folder.discard(cell)


def _in_use(run: Path) -> bool:
    try:
        with RunFolder(run).locked():
            return False
    except (LockedError, FolderError):
        return True
