"""The side of a Dask worker, which need not have weir: this module travels to it by value.

It imports the standard library and Dask only. weir itself runs in processes of its own (:mod:`weir.cluster.node`), from
the worker's installation if that is the controller's, else from a copy that the controller sent into a cache. So one
Dask worker serves controllers with different versions of weir, and its own process never loads any.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from distributed import WorkerPlugin, get_worker

__all__ = [
    "Agent",
    "clear",
    "contents",
    "digest",
    "execute",
    "forget",
    "install",
    "piece",
    "receive",
    "survey",
    "unpack",
]

INLINE_BYTES = 1 << 20
"""Cells up to this size travel with the answer of their task; larger ones in pieces."""
_TELL_S = 1.0
"""Shortest time between two reports of a cell's progress."""
_LOOK_S = 1.0


def contents(package: Path) -> dict[str, Path]:
    """The files of an installation of weir by their names in a copy of it; ``package`` is its folder ``weir``.

    Sources that stand beside the package in a checkout have the places that they have in an installation.
    """
    found: dict[str, Path] = {}
    beside = {"cc": ("cc", "include/weir_cc.h"), "lab/sources": ("lab", "kernel.config")}
    for inside, (outside, has) in beside.items():
        source = package.parent.parent / outside
        if not (package / inside / has).is_file() and (source / has).is_file():
            found.update({f"weir/{inside}/{name}": path for name, path in _files(source)})
    # A package may have a Python package of the same name as a folder of sources: both are kept.
    found.update({f"weir/{name}": path for name, path in _files(package)})
    return dict(sorted(found.items()))


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            path = Path(place) / name
            if path.is_file() and not name.endswith((".pyc", ".tmp")):
                yield path.relative_to(folder).as_posix(), path


def digest(files: Mapping[str, Path]) -> str:
    """A hash of names, permissions to execute, and contents."""
    total = hashlib.sha256()
    for name, path in sorted(files.items()):
        content = path.read_bytes()
        kind = b"x" if os.access(path, os.X_OK) else b"-"
        for part in (name.encode(), kind, content):
            total.update(len(part).to_bytes(8, "little") + part)
    return total.hexdigest()[:32]


def _cache() -> Path:
    """The folder of what was sent; made for this user alone."""
    named = os.environ.get("XDG_CACHE_HOME")
    base = Path(named) if named and Path(named).is_absolute() else Path.home() / ".cache"
    folder = base / "weir" / "cluster"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    about = folder.stat()
    if about.st_uid != os.geteuid() or about.st_mode & 0o022:
        raise PermissionError(f"{folder} is writable for others; set XDG_CACHE_HOME to a folder of yours")
    return folder


def _whole(folder: Path, name: str, own: tuple[str, ...]) -> bool:
    """Whether ``folder`` holds the cargo; of one whose files are named, it may hold others, too."""
    files = {file: folder / file for file in own} if own else dict(_files(folder))
    try:
        return bool(files) and digest(files) == name
    except OSError:  # incomplete, or another worker removes it because it is damaged
        return False


async def survey(wanted: Mapping[str, str], own: Mapping[str, tuple[str, ...]], dask_worker: Any) -> dict[str, Any]:
    """What this worker has of ``wanted``, the digests of cargoes by their names.

    ``own`` names, for cargoes that are no installation, the files that the user's own cache may hold already.
    """

    def look() -> dict[str, Any]:
        cache = _cache()
        found = {cargo: _place(cache, cargo, name, own.get(cargo, ())) for cargo, name in wanted.items()}
        limit = getattr(dask_worker.memory_manager, "memory_limit", None)
        return {
            "host": socket.gethostname(),
            "places": found,
            "memory_limit": limit,
            "available": _available_bytes(),
        }

    return await asyncio.to_thread(look)


def _place(cache: Path, cargo: str, name: str, own: tuple[str, ...]) -> str | None:
    """Where the cargo is here; ``None`` if it has to be sent."""
    if own:
        if _whole(cache.parent.parent, name, own):
            return str(cache.parent.parent)
    elif (spec := importlib.util.find_spec("weir")) is not None and spec.origin is not None:
        package = Path(spec.origin).parent
        if digest(contents(package)) == name:
            return str(package.parent)
    folder = cache / name
    if _whole(folder, name, own):
        return str(folder)
    if folder.exists():  # damaged: a machine lost its power, say
        shutil.rmtree(folder, ignore_errors=True)
    return None


def _available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) * 1024
    return 0


async def receive(file: str, offset: int, content: bytes) -> None:
    """Writes a piece of an archive into the cache."""

    def write() -> None:
        path = _cache() / f"{file}.part"
        with path.open("r+b" if offset else "wb") as target:
            target.seek(offset)
            target.write(content)

    await asyncio.to_thread(write)


async def unpack(file: str, name: str) -> str:
    """Unpacks an archive that was received; returns its place.

    Raises:
        ValueError: it is not what was sent.
    """

    def extract() -> str:
        cache = _cache()
        part = cache / f"{file}.part"
        try:
            with tempfile.TemporaryDirectory(dir=cache, prefix="unpack-") as folder:
                whole = Path(folder) / "whole"
                with tarfile.open(part) as archive:
                    archive.extractall(whole, filter="data")
                if digest(dict(_files(whole))) != name:
                    raise ValueError("what arrived is not what was sent")
                with contextlib.suppress(OSError):  # another was faster
                    whole.rename(cache / name)
        finally:
            part.unlink(missing_ok=True)
        return str(cache / name)

    return await asyncio.to_thread(extract)


async def install(agent: Agent, dask_worker: Any) -> dict[str, Any]:
    """Makes ``agent`` serve the worker, after a look whether weir runs here; returns the facts, or what failed."""
    facts = await asyncio.to_thread(agent.facts)
    if "error" not in facts:
        await dask_worker.plugin_add(plugin=agent, name=agent.name)
    return facts


async def forget(name: str, dask_worker: Any) -> None:
    """Removes the agent and all that it started."""
    if name in dask_worker.plugins:
        await dask_worker.plugin_remove(name=name)


async def piece(name: str, folder: str, file: str, offset: int, most: int, dask_worker: Any) -> bytes:
    """At most ``most`` bytes of a file of a complete cell."""
    agent: Agent = dask_worker.plugins[name]
    return await asyncio.to_thread(agent.piece, folder, file, offset, most)


async def clear(name: str, folder: str, dask_worker: Any) -> None:
    """Removes a cell that was fetched."""
    agent: Agent = dask_worker.plugins[name]
    await asyncio.to_thread(agent.clear, folder)


def execute(name: str, job: Mapping[str, Any], objects: Mapping[str, bytes], key: str) -> dict[str, Any]:
    """The task of one cell: see :meth:`Agent.execute`."""
    agent: Any = get_worker().plugins.get(name)
    if agent is None:
        return {"lacking": True}
    done: dict[str, Any] = agent.execute(job, objects, key)
    return done


class Agent(WorkerPlugin):
    """Executes cells of one run in processes beside the Dask worker, one for each cell at a time."""

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        """``settings``: ``path`` and ``cache`` of the copies of weir and of the method's files, ``method``, the
        ``topic`` of its events, ``environment``, and ``idle_s``: without a cell for so long it ends, because its
        controller is gone.
        """
        self.name = name
        self._settings = settings

    def facts(self) -> dict[str, Any]:
        """What the program on this machine says of itself; ``error`` if it does not run."""
        command = [sys.executable, "-m", "weir.cluster.node", "--facts", self._settings["method"]]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=120, check=False, env=self._environment(), cwd="/"
            )
            told: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {"error": _last(done.stderr)}
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            told = {"error": f"{type(error).__name__}: {error}"}
        return told

    def setup(self, worker: Any) -> None:
        """See distributed.WorkerPlugin."""
        self._worker = worker
        self._lock = threading.Lock()
        self._idle: list[_Node] = []
        self._running: dict[str, _Node] = {}
        self._over: set[str] = set()
        self._closed = threading.Event()
        self._used = time.monotonic()
        self._folder = Path(tempfile.mkdtemp(prefix="weir-", dir=worker.local_directory))
        threading.Thread(target=self._watch, daemon=True).start()

    async def teardown(self, worker: Any) -> None:
        """See distributed.WorkerPlugin."""
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        self._closed.set()
        with self._lock:
            nodes = [*self._idle, *self._running.values()]
            self._idle.clear()
        for node in nodes:
            node.stop()
        for node in nodes:
            node.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """Kills the process of a cell that nobody waits for any more: it was cancelled, or its client is gone."""
        if start in ("executing", "long-running", "cancelled") and finish in ("cancelled", "released", "forgotten"):
            with self._lock:
                node = self._running.get(str(key))
                self._over.add(str(key))
            if node is not None:
                node.stop()

    def execute(self, job: Mapping[str, Any], objects: Mapping[str, bytes], key: str) -> dict[str, Any]:
        """Executes ``job``; returns its last ``message``, and of a complete cell the ``folder`` and its ``files``.

        ``content`` holds small cells whole.
        """
        self._used = time.monotonic()
        node = self._take(key)
        if node is None:
            return {"lacking": True}
        try:
            message = self._follow(node, self._told(job, objects))
        finally:
            with self._lock:
                self._running.pop(key, None)
                keep = node.alive and not self._closed.is_set() and key not in self._over
                self._over.discard(key)
                if keep:
                    self._idle.append(node)
            if not keep:
                node.kill()
            self._used = time.monotonic()
        return self._answer(message)

    def piece(self, folder: str, file: str, offset: int, most: int) -> bytes:
        """See :func:`piece`."""
        self._used = time.monotonic()
        with (self._folder / folder / file).open("rb") as source:
            source.seek(offset)
            return source.read(most)

    def clear(self, folder: str) -> None:
        """See :func:`clear`."""
        shutil.rmtree(self._folder / folder, ignore_errors=True)

    def _take(self, key: str) -> _Node | None:
        with self._lock:
            if self._closed.is_set() or key in self._over:
                self._over.discard(key)
                return None
            node = self._idle.pop() if self._idle else _Node(self._environment(), self._folder)
            self._running[key] = node
            return node

    def _told(self, job: Mapping[str, Any], objects: Mapping[str, bytes]) -> dict[str, Any]:
        """``job`` with places of this machine: one run for all cells, and the objects of users' controls."""
        told = {**job, "run": str(self._folder / "run")}
        if objects:
            told["objects"] = {name: str(self._object(job["objects"][name], held)) for name, held in objects.items()}
        return told

    def _object(self, called: str, content: bytes) -> Path:
        """The file of a congestion control; the same for all cells with the same content, so that a process serves
        them all.
        """
        place = self._folder / "objects" / hashlib.sha256(content).hexdigest()[:32] / Path(called).name
        with self._lock:
            if not place.is_file():
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)
        return place

    def _follow(self, node: _Node, job: Mapping[str, Any]) -> dict[str, Any]:
        told = 0.0
        for message in node.execute(job):
            if message["type"] != "progress":
                return message
            now = self._used = time.monotonic()
            if now - told >= _TELL_S:
                told = now
                self._worker.log_event(self._settings["topic"], {"id": message["id"], "now_ns": message["now_ns"]})
        why = "its process ended" if node.error is None else node.error
        return {"type": "failed", "id": job["id"], "kind": "died", "error": why, "trace": ""}

    def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
        run = self._folder / "run"
        if message["type"] != "done":
            for rest in (run / ".partial").glob(f"{message['id']}-*"):  # of a process that was killed
                shutil.rmtree(rest, ignore_errors=True)
            return {"message": message}
        cell = run / "cells" / message["id"]
        files = {name: path.stat().st_size for name, path in _files(cell)}
        answer = {"message": message, "folder": cell.relative_to(self._folder).as_posix(), "files": files}
        if sum(files.values()) <= INLINE_BYTES:
            answer["content"] = {name: (cell / name).read_bytes() for name in files}
            shutil.rmtree(cell, ignore_errors=True)
        return answer

    def _environment(self) -> dict[str, str]:
        more = dict(self._settings["environment"])
        paths = [self._settings["path"], os.environ.get("PYTHONPATH", "")]
        more["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        if self._settings["cache"]:
            more["XDG_CACHE_HOME"] = self._settings["cache"]
        return {**os.environ, **more}

    def _watch(self) -> None:
        """Ends the agent when its controller is gone."""
        while not self._closed.wait(_LOOK_S):
            if not self._running and time.monotonic() - self._used > self._settings["idle_s"]:
                self._worker.loop.add_callback(self._worker.plugin_remove, name=self.name)
                return


class _Node:
    """A process of weir that executes one cell at a time: :mod:`weir.cluster.node`."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._said = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "weir.cluster.node"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            process_group=0,
            env=dict(environment),
            cwd=folder,
        )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def error(self) -> str | None:
        """The last line of what it wrote on standard error."""
        self._process.wait()
        self._said.seek(0)
        return _last(self._said.read().decode(errors="replace")) or None

    def execute(self, job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields its messages about ``job``; fewer if it dies."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            self._process.stdin.flush()
            for line in self._process.stdout:
                message = json.loads(line)
                yield message
                if message["type"] != "progress":
                    return
        except (BrokenPipeError, ValueError):
            return

    def stop(self) -> None:
        """Lets it end with its processes, as it does when its standard input ends."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.close()

    def kill(self) -> None:
        """Ends it and waits for it."""
        self.stop()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it ended without a word"
