"""The folder of a run: its owner, its contents, and a lock against concurrent writers."""

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
from weir.engine import _before
from weir.engine._errors import FolderError
from weir.engine._files import json_bytes
from weir.engine._lock import LOCK, held_lock, is_locked
from weir.run.checksums import FORMAT, checksums_in, seal
from weir.run.documents import Fields, read_document
from weir.run.errors import ReadError
from weir.run.manifest import INTENDED, MANIFEST, STATE, read_cell_manifest, read_run_manifest
from weir.run.printable import printable

__all__ = [
    "PARTIAL",
    "Identity",
    "Origin",
    "RunFolder",
    "discard",
    "identity_of",
    "in_use",
    "method_of",
    "now",
    "origin_of",
    "remove_unfinished",
    "unfinished",
    "unproven",
]

Identity = Mapping[str, Any]
"""Identity of a run: scenario text, method and settings."""

PARTIAL = ".partial"
"""Folder of the unfinished cells; the holder of the lock may empty it."""

_STATE = STATE
_TOKEN = ".token"
"""In ``PARTIAL``: the seal over the token of the run's ``.run.json`` and both folders. A copy has another seal."""
_MAX_TOKEN = 256
_MAX_TEXT = 1 << 26
_TOKEN_TEXT = re.compile(r"[0-9a-f]{32}")
_SCENARIO = "scenario.yaml"
_IDENTITY = 1
"""The format of identities."""
_REPORT = "report.html"
_FIGURES = "figures"
_CELLS = "cells"
_TASKS = "tasks.json"
_HOOKS = "hooks"
"""What executables of an inventory have answered."""
_LOGS = "logs"
"""Messages of the kernels of machines."""
_OURS = (MANIFEST, _SCENARIO, _REPORT, _FIGURES, _CELLS, PARTIAL, _TASKS, _HOOKS, _LOGS, _STATE)
_FILES = (LOCK, _STATE, _SCENARIO, MANIFEST, _REPORT, _TASKS)
_FOLDERS = (_CELLS, _FIGURES, PARTIAL, _HOOKS, _LOGS, *_before.NAMES)


class RunFolder:
    """A folder for one run, written by one process at a time."""

    def __init__(self, path: Path) -> None:
        """Names the folder; :meth:`locked` is the first to touch it."""
        self.path = path
        self.cells = path / _CELLS
        self.replaces = False
        """Whether a run is set aside that this one is to replace."""
        self._held: Folder | None = None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Locks the folder, creating it if necessary. Nothing stays unless a run was claimed meanwhile.

        Raises:
            LockedError: another process holds the lock.
            FolderError: the path is no folder, holds something that is not a run, or cannot be created; or a link, a
                pipe or a device is in the place of a run's file or folder.
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
            _before.put_back(folder, _OURS)  # the process that was to replace it was killed before it could begin
            yield

    @contextlib.contextmanager
    def _inside(self) -> Iterator[Folder]:
        """The folder by its descriptor; while locked, always the same folder."""
        if self._held is not None:
            yield self._held
            return
        with Folder(self.path) as folder:
            yield folder

    @contextlib.contextmanager
    def claimed(
        self, identity: Identity, text: str, *, fresh: bool, intended: Mapping[str, Any] | None = None
    ) -> Iterator[None]:
        """Makes the folder that of ``identity``, or continues a run with the same identity.

        A new run is removed if an error or an interrupt comes before its first cell is complete. With ``fresh``, the
        run that is there is set aside until :meth:`begun`, and comes back if the new one ends before that. ``intended``
        is what a reader of an interrupted run is to know: ``summary`` and ``cells`` as in a manifest.

        Raises:
            FolderError: it holds another run.
            OSError: it cannot be written.
        """
        held = self._state()
        if fresh and held is not None:
            with self._inside() as folder:
                _before.put_aside(folder, _OURS)
            held, self.replaces = None, True
        if held is not None and held["identity"] != json.loads(json.dumps(identity)):
            raise FolderError(
                f"{printable(self.path)} holds another run: {_difference(held['identity'], identity)}. "
                "Give another folder with --out, or replace that run with --fresh"
            )
        try:
            self._settle(identity, text, held, intended or {})
            yield
        except BaseException:
            if self.replaces:
                with self._inside() as folder:
                    _before.put_back(folder, _OURS)
            elif held is None and not any(self.finished(cell.name) for cell in _entries(self.cells)):
                self._remove(_OURS)
            raise

    def begun(self) -> None:
        """A cell is being executed: the run that this one replaces is removed."""
        if self.replaces:
            self.replaces = False
            with self._inside() as folder:
                _before.drop(folder)

    def _settle(self, identity: Identity, text: str, held: dict[str, Any] | None, intended: Mapping[str, Any]) -> None:
        """Writes the missing or damaged files that identify the folder as this run's."""
        with self._inside() as folder:
            if not self._proves(folder, held):
                # The state first: from then on the folder is a run, even if other files are missing.
                start = now() if held is None else held.get("start", now())
                token = secrets.token_hex(16)
                proof = _seal.seal(_run_facts(folder, token, identity))
                state = {"format": FORMAT, "identity": identity, "start": start, "token": token, "seal": proof}
                state |= {INTENDED: dict(intended)}
                folder.write(_STATE, json_bytes(seal(state, self.path, ())))
            if self._text() != text.encode():
                folder.write(_SCENARIO, text.encode())
            with folder.inner(_CELLS, make=True):
                pass
        remove_leftovers(self.path)
        self.remove_partial()

    def is_own(self) -> bool:
        """Whether this user's weir made the run in this folder: its seal covers the run's facts and the folder itself.

        Raises:
            FolderError: the file that identifies the run is damaged.
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
        """Whether this run, made by this user's weir in this folder, wrote the unfinished cells."""
        try:
            with self._inside() as folder, folder.inner(PARTIAL) as partial:
                token = _token_in(self._state())
                written = partial.read(_TOKEN, _MAX_TOKEN).decode("ascii", "replace")
                return token is not None and _seal.is_sealed(_partial_facts(folder, partial, token), written)
        except (OSError, FolderError):
            return False

    @property
    def start(self) -> str:
        """Time at which the run began, before any interruption."""
        return str((self._state() or {}).get("start", now()))

    def remove_partial(self) -> None:
        """Removes the rest of unfinished cells. Only for the holder of the lock.

        Their owner does not matter: a user who locks a run for writing has named it, and they are inside it.
        """
        with contextlib.suppress(OSError), self._inside() as folder:
            folder.remove(PARTIAL)

    def reopen(self) -> None:
        """Removes the run's completion mark and everything derived from it, so that cells can be written."""
        self._remove((MANIFEST, _REPORT, _FIGURES, PARTIAL))
        with self._inside() as folder, folder.inner(PARTIAL, make=True) as partial:
            token = _token_in(self._state()) or ""
            partial.write(_TOKEN, _seal.seal(_partial_facts(folder, partial, token)).encode(), durable=False)

    def finished(self, cell_id: str) -> dict[str, Any] | None:
        """The manifest of a complete cell, or ``None``; :meth:`damage` verifies its files."""
        try:
            return dict(read_cell_manifest(self.cells / cell_id, verify=True).raw)
        except ReadError:
            return None

    def damage(self, cell_id: str) -> list[str]:
        """The damage of a cell's files: missing, or different from their checksums."""
        from weir.run.reader import open_cell  # imports Polars, which a worker does not need

        try:
            return open_cell(self.cells / cell_id).damaged()
        except ReadError as error:
            return [f"{printable(error.path.name)}: {error.problem}"]

    def holds(self, cell_id: str) -> bool:
        """Whether anything of that cell exists."""
        return exists(self.cells / cell_id)

    def discard(self, cell_id: str) -> None:
        """Removes a cell of another version of weir, or with other versions of the plan's files."""
        with contextlib.suppress(FileNotFoundError), self._inside() as folder, folder.inner(_CELLS) as cells:
            cells.remove(cell_id)

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """Writes the manifest of the run, which marks it as complete.

        Raises:
            OSError: it cannot be written.
        """
        with self._inside() as folder:
            folder.write(MANIFEST, json_bytes(seal(manifest, self.path, [_SCENARIO])))

    def manifest(self) -> dict[str, Any] | None:
        """The manifest of the run if it is complete and intact, or ``None``."""
        try:
            return dict(read_run_manifest(self.path, verify=True).raw)
        except ReadError:
            return None

    def _state(self) -> dict[str, Any] | None:
        """The folder's state of its run; ``None`` if it holds none of weir. The manifest replaces a damaged state.

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
                return folder.read(_SCENARIO, _MAX_TEXT)
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
        # Files left by a process that was killed before its folder became a run.
        strangers = sorted(
            name for name in names if name not in (LOCK, *_before.NAMES) and not name.startswith(f".{_STATE}.")
        )
        if strangers:
            raise FolderError(
                f"{self.path} is not empty and holds no run of weir (there is {strangers[0]!r}). "
                "Give another folder with --out"
            )


def _refuse_other_kinds(folder: Folder) -> None:
    """Raises InsideError if a link or anything else is in the place of a run's file or folder."""
    for name in _FILES:
        folder.expect(name, FILE)
    for name in _FOLDERS:
        folder.expect(name, FOLDER)
    if folder.kind(_CELLS) == FOLDER:
        with folder.inner(_CELLS) as cells:
            for name in cells.names():
                if cells.kind(name) != FILE:  # a plain file there does no harm
                    cells.expect(name, FOLDER)
    if folder.kind(PARTIAL) == FOLDER:
        with folder.inner(PARTIAL) as partial:
            partial.expect(_TOKEN, FILE)


def _run_facts(folder: Folder, token: str, identity: Identity) -> str:
    """The sealed facts of a run: its folder and its identity."""
    return f"run {folder.identity} {token} {json.dumps(identity, sort_keys=True)}"


def _partial_facts(folder: Folder, partial: Folder, token: str) -> str:
    """The sealed facts of unfinished cells: the run's folder, their folder, and the run's token."""
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
    words = []
    for name, value in settings.items():
        if name == "set" and isinstance(value, Mapping):
            words += [f"--set {path}={text}" for path, text in value.items()]
        elif value:
            words.append(f"--{name}" if value is True else f"--{name} {value}")
    return printable(" ".join(words)) or "none"


def method_of(run: Path) -> str | None:
    """The method of the run in the folder ``run``, complete or not; ``None`` if it holds none.

    Raises:
        FolderError: it has no seal of this user's, so that its method is not to be trusted.
    """
    folder = RunFolder(run)
    try:
        held = folder._state()
        own = held is None or folder.is_own()
    except FolderError:  # damaged: reported when the folder is written
        return None
    found = None if held is None else held["identity"].get("method")
    if not own:
        raise FolderError(unproven(run, str(found)))
    return found if isinstance(found, str) else None


def unproven(run: Path, method: str) -> str:
    """The message for a run whose method cannot be trusted."""
    return (
        f"{printable(run)} holds a run by method {method!r}, and no seal proves that you made it there: it was copied, "
        "or made by another user or an older version. A method may execute the programs of a scenario as root; "
        "name the one that you want with --method"
    )


@dataclass(frozen=True)
class Origin:
    """The origin of a run."""

    text: str
    """Text of the scenario."""
    file: str
    """Path of the scenario at execution; the copy in the run if unknown."""
    method: str
    settings: Mapping[str, Any]
    own: bool
    """Whether this user's weir made the run in this folder."""


def origin_of(run: Path) -> Origin | None:
    """The origin of the run in the folder ``run``, complete or not; ``None`` if it holds none.

    Raises:
        FolderError: the file that records it is damaged.
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
    """The state in the folder ``run``; ``None`` if there is none, or if it is not weir's.

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
    """The state from the manifest of a complete run; ``None`` if an older version wrote less into manifests."""
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
    """The runs in ``folders``, each a run or a folder of runs, that have unfinished cells and no writer.

    Folders that weir did not write are skipped. Creates nothing.
    """
    candidates = (run for folder in folders for run in (folder, *_folders_in(folder)))
    return [run for run in candidates if RunFolder(run).owns_partial() and not in_use(run)]


def _folders_in(folder: Path) -> list[Path]:
    return [path for path in _entries(folder) if path.is_dir() and not path.is_symlink()]


def _entries(folder: Path) -> list[Path]:
    """The entries of ``folder``; empty if it is not a folder, or cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def remove_unfinished(run: Path) -> None:
    """Removes the unfinished cells of ``run``.

    Raises:
        LockedError: another process writes to it after all.
        OSError: they cannot be removed.
    """
    folder = RunFolder(run)
    with folder.locked():
        if folder.owns_partial():
            folder._remove((PARTIAL,))


def discard(run: Path, cells: Iterable[str]) -> None:
    """Removes cells of ``run`` by id, so that they are executed again.

    Raises:
        LockedError: another process writes to it.
        OSError: they cannot be removed.
    """
    folder = RunFolder(run)
    with folder.locked():
        folder.reopen()
        for cell in cells:
            folder.discard(cell)


def in_use(run: Path) -> bool:
    """Whether a process writes to the run, or none can be told from one. Creates and writes nothing."""
    try:
        with Folder(run) as folder:
            return is_locked(folder)
    except OSError:
        return True
