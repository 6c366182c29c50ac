"""The folder of a run: whose it is, what it holds already, and a lock against two writers."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir import _seal
from weir._files import made_folder, remove_leftovers
from weir._inside import FILE, FOLDER, Folder, InsideError, exists
from weir.engine._errors import FolderError
from weir.engine._files import json_bytes
from weir.engine._lock import LOCK, held_lock, is_locked
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
    "unproven",
]

Identity = Mapping[str, Any]
"""What makes two runs the same run: scenario text, method and settings."""

PARTIAL = ".partial"
"""Holds the unfinished cells; whoever holds the lock may empty it."""

_STATE = ".run.json"
_TOKEN = ".token"
"""In ``PARTIAL``: the seal of the token of the run's ``.run.json`` and of both folders, so that a copy has another."""
_MOST_TOKEN = 256
_MOST_TEXT = 1 << 26
_TOKEN_TEXT = re.compile(r"[0-9a-f]{32}")
_SCENARIO = "scenario.yaml"
_IDENTITY = 1
"""The format of identities."""
_REPORT = "report.html"
_FIGURES = "figures"
_CELLS = "cells"
_OURS = (MANIFEST, _SCENARIO, _REPORT, _FIGURES, _CELLS, PARTIAL, _STATE)
_FILES = (LOCK, _STATE, _SCENARIO, MANIFEST, _REPORT)
_FOLDERS = (_CELLS, _FIGURES, PARTIAL)


class RunFolder:
    """A folder that one run is written to, by one process at a time."""

    def __init__(self, path: Path) -> None:
        """Names the folder; nothing is touched before :meth:`locked`."""
        self.path = path
        self.cells = path / _CELLS
        self._held: Folder | None = None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the lock of the folder, which is made if need be. Nothing stays unless a run was claimed meanwhile.

        Raises:
            LockedError: another process holds it.
            FolderError: the path is no folder, holds something that is not a run, or cannot be made; or a link, a pipe
                or a device is where a run has a file or a folder.
        """
        self._refuse_strangers()
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(made_folder(self.path))
                folder = stack.enter_context(Folder(self.path))
                _refuse_other_kinds(folder)
                stack.enter_context(held_lock(folder, keep=lambda: folder.kind(_STATE) == FILE))
            except InsideError as error:
                raise FolderError(f"{printable(str(error))}. Nothing was changed") from error
            except (FileExistsError, NotADirectoryError) as error:
                raise FolderError(f"{self.path} is not a folder") from error
            except PermissionError as error:
                raise FolderError(f"{self.path}: no permission to write there") from error
            except ValueError as error:
                raise FolderError(f"{str(self.path)!r} is not a path: {error}") from error
            self._held = folder
            stack.callback(setattr, self, "_held", None)
            yield

    @contextlib.contextmanager
    def _inside(self) -> Iterator[Folder]:
        """The folder by its descriptor: while it is locked, the one that was."""
        if self._held is not None:
            yield self._held
            return
        with Folder(self.path) as folder:
            yield folder

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
            self._remove(_OURS)
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
                self._remove(_OURS)
            raise

    def _settle(self, identity: Identity, text: str, held: dict[str, Any] | None) -> None:
        """Writes what makes the folder this run's, as far as it is missing or damaged."""
        with self._inside() as folder:
            if not self._proves(folder, held):
                # The state first: from then on the folder is a run, whatever is missing of it.
                start = now() if held is None else held.get("start", now())
                token = secrets.token_hex(16)
                proof = _seal.seal(_run_facts(folder, token, identity))
                state = {"format": FORMAT, "identity": identity, "start": start, "token": token, "seal": proof}
                folder.write(_STATE, json_bytes(seal(state, self.path, ())))
            if self._text() != text.encode():
                folder.write(_SCENARIO, text.encode())
            with folder.inner(_CELLS, make=True):
                pass
        remove_leftovers(self.path)
        self.remove_partial()

    def is_own(self) -> bool:
        """Whether weir of this user made the run, here: its seal holds for what the run says and for this very folder.

        Raises:
            FolderError: what says which run it is is damaged.
        """
        held = self._state()
        try:
            with self._inside() as folder:
                return self._proves(folder, held)
        except OSError:
            return False

    def _proves(self, folder: Folder, state: Mapping[str, Any] | None) -> bool:
        token, proof = _token_in(state), (state or {}).get("seal")
        if state is None or token is None or not isinstance(proof, str):
            return False
        return _seal.is_sealed(_run_facts(folder, token, state["identity"]), proof)

    def owns_partial(self) -> bool:
        """Whether there are unfinished cells that this very run wrote, by weir of this user, here."""
        try:
            with self._inside() as folder, folder.inner(PARTIAL) as partial:
                token = _token_in(self._state())
                written = partial.read(_TOKEN, _MOST_TOKEN).decode("ascii", "replace")
                return token is not None and _seal.is_sealed(_partial_facts(folder, partial, token), written)
        except (OSError, FolderError):
            return False

    @property
    def start(self) -> str:
        """When the run was begun, also if that was before an interruption."""
        return str((self._state() or {}).get("start", now()))

    def remove_partial(self) -> None:
        """Removes what is left of unfinished cells. Only for who holds the lock.

        Whose they are is no matter: who locks a run to write to it has named it, and it is a folder inside of it.
        """
        with contextlib.suppress(OSError), self._inside() as folder:
            folder.remove(PARTIAL)

    def reopen(self) -> None:
        """Removes what says that the run is complete, and what was derived from it; cells can be written then."""
        self._remove((MANIFEST, _REPORT, _FIGURES, PARTIAL))
        with self._inside() as folder, folder.inner(PARTIAL, make=True) as partial:
            token = _token_in(self._state()) or ""
            partial.write(_TOKEN, _seal.seal(_partial_facts(folder, partial, token)).encode(), durable=False)

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
        return exists(self.cells / cell_id)

    def discard(self, cell_id: str) -> None:
        """Removes a cell of another version of weir or of what the plan names."""
        with contextlib.suppress(FileNotFoundError), self._inside() as folder, folder.inner(_CELLS) as cells:
            cells.remove(cell_id)

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """Writes the manifest of the run, which says that it is complete.

        Raises:
            OSError: it cannot be written.
        """
        with self._inside() as folder:
            folder.write(MANIFEST, json_bytes(seal(manifest, self.path, [_SCENARIO])))

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
            with self._inside() as folder:
                return folder.read(_SCENARIO, _MOST_TEXT)
        except OSError:
            return None

    def _remove(self, names: Iterable[str]) -> None:
        with self._inside() as folder:
            for name in names:
                folder.remove(name)

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


def _refuse_other_kinds(folder: Folder) -> None:
    """Raises InsideError where a run has a file or a folder and ``folder`` has a link or anything else."""
    for name in _FILES:
        folder.expect(name, FILE)
    for name in _FOLDERS:
        folder.expect(name, FOLDER)
    if folder.kind(_CELLS) == FOLDER:
        with folder.inner(_CELLS) as cells:
            for name in cells.names():
                if cells.kind(name) != FILE:  # a plain file there is in nobody's way
                    cells.expect(name, FOLDER)
    if folder.kind(PARTIAL) == FOLDER:
        with folder.inner(PARTIAL) as partial:
            partial.expect(_TOKEN, FILE)


def _run_facts(folder: Folder, token: str, identity: Identity) -> str:
    """What the seal of a run is about: this folder, and which run it is."""
    return f"run {folder.identity} {token} {json.dumps(identity, sort_keys=True)}"


def _partial_facts(folder: Folder, partial: Folder, token: str) -> str:
    """What the seal of unfinished cells is about: this folder, the one inside, and the run's token."""
    return f"unfinished {folder.identity} {partial.identity} {token}"


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
    """The method of the run that the folder ``run`` holds, complete or not; ``None`` if it holds none.

    Raises:
        FolderError: it has no seal of this user's, so that its method is not to be trusted.
    """
    folder = RunFolder(run)
    try:
        held = folder._state()
        own = held is None or folder.is_own()
    except FolderError:  # damaged: who writes to it is told
        return None
    found = None if held is None else held["identity"].get("method")
    if not own:
        raise FolderError(unproven(run, str(found)))
    return found if isinstance(found, str) else None


def unproven(run: Path, method: str) -> str:
    """What is said of a run whose method is taken from nobody's word."""
    return (
        f"{printable(run)} holds a run by method {method!r}, and no seal proves that you made it there: it was copied, "
        "or made by another user or an older version. A method may execute the programs of a scenario as root; "
        "name the one that you want with --method"
    )


@dataclass(frozen=True)
class Origin:
    """What a run was executed from."""

    text: str
    """Of the scenario."""
    file: str
    """Where the scenario was read; the copy in the run if nobody knows any more."""
    method: str
    settings: Mapping[str, Any]
    own: bool
    """Whether weir of this user made the run, in this folder."""


def origin_of(run: Path) -> Origin | None:
    """What the run that the folder ``run`` holds was executed from, complete or not; ``None`` if it holds none.

    Raises:
        FolderError: what says it is damaged.
    """
    folder = RunFolder(run)
    held = folder._state()
    if held is None:
        return None
    try:
        with Folder(run) as inside:
            inside.expect(_SCENARIO, FILE)
    except InsideError as error:
        raise FolderError(printable(str(error))) from error
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
        folder.is_own(),
    )


def _state_in(run: Path) -> dict[str, Any] | None:
    """What the folder ``run`` says of itself; ``None`` if nothing, or if it is not weir that says it.

    Raises:
        weir.run.ReadError: it is damaged.
    """
    file = run / _STATE
    if not exists(file):
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
            folder._remove((PARTIAL,))


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
    """Whether a process writes to it. Nothing is made or written to find out."""
    try:
        with Folder(run) as folder:
            return is_locked(folder)
    except OSError:
        return True
