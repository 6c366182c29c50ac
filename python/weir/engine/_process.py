"""One worker process: start, communication and end.

A worker that loads users' congestion controls executes untrusted programs. It is confined for its whole life: it writes
only to a folder of its own, starts no process, and reaches neither the network nor other processes. A watchdog ends it
if a call of a control does not return. Its messages are validated like any other input.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from weir import _group, _memory, cc, confine
from weir._inside import FOLDER, expect
from weir._remove import remove_quietly
from weir.engine._deliver import DeliveryError, deliver
from weir.engine._folder import PARTIAL

__all__ = ["Job", "Message", "Process"]

Job = Mapping[str, Any]
"""A message to a worker: see :mod:`weir.engine.worker`."""
Message = dict[str, Any]
"""``progress`` (id, now_ns, live), ``done`` (id, warnings, stats, wall_s) or ``failed`` (id, kind, error, trace)."""

_COMMAND = [sys.executable, "-m", "weir.engine.worker"]
_LINE_BYTES = 1 << 22
_LOOK_S = 0.25
_THREADS = 256
_OPEN_FILES = 1024
_MIN_BYTES = 8 << 30
_RESERVE_BYTES = 1 << 30
"""What a confined worker leaves free of the disk, unless others took it."""


class Process:
    """A worker process, for jobs with the same users' controls."""

    def __init__(self, job: Job) -> None:
        """Starts a worker for ``job``.

        Raises:
            weir.confine.ConfineError: it has to be confined, and this host cannot.
            weir.cc.ControlError: a file of a user's control cannot be read any more.
            OSError: it cannot be started.
        """
        self._objects: Mapping[str, str] = job.get("objects", {})
        self._inside: Path | None = None
        self._watch: cc.Watch | None = None
        self._ended = threading.Event()
        self._why: str | None = None
        self._groups: tuple[Path, ...] = ()
        command = list(_COMMAND)
        descriptors: tuple[int, ...] = ()
        if self._objects:
            self._inside = _folder_for(Path(job["run"]))
            self._watch = cc.Watch({path: name for name, path in self._objects.items()})
            self._groups = _group.make(_THREADS, _most_memory())
            descriptors = (self._watch.fd,)
            command = confine.command([*_COMMAND, str(self._watch.fd)], self._policy())
        path = os.pathsep.join(p for p in sys.path if p)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C goes only to this process, which ends the workers
            pass_fds=descriptors,
            env={**(confine.environment() if self._objects else os.environ), "PYTHONPATH": path},
        )
        if self._watch is not None:
            threading.Thread(target=self._guard, args=(self._watch,), daemon=True).start()

    def suits(self, job: Job) -> bool:
        """Whether it is alive and may execute ``job``: a job must not run in memory that other controls could have
        changed.
        """
        return self._process.poll() is None and self._objects == job.get("objects", {})

    def execute(self, job: Job) -> Iterator[Message]:
        """Lets the process execute ``job``; yields its messages, of which the last is ``done`` or ``failed``."""
        try:
            yield from self._said(job)
        except (BrokenPipeError, _Garbage) as error:
            self._process.kill()
            self.stop()
            said = str(error) if isinstance(error, _Garbage) else None
            yield {"type": "failed", "id": job["id"], "kind": "died", "error": said or self._death(), "trace": ""}

    def kill(self) -> None:
        """Kills it."""
        self._process.kill()

    def stop(self) -> None:
        """Ends it, waits for it, and removes its files."""
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()
        if self._objects and self._process.poll() is None:
            self._process.kill()  # a control may ignore the end of its standard input
        self._process.wait()
        self._ended.set()
        if self._why is None and self._watch is not None and self._watch.fd >= 0:
            self._why = self._watch.death(self._process.returncode)
        if self._watch is not None:
            self._watch.close()
        if self._inside is not None:
            remove_quietly(self._inside)
        _group.remove(self._groups)

    def _policy(self) -> confine.Policy:
        assert self._inside is not None
        assert self._watch is not None
        own = {Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[1]}
        read = [*own, *(file for path in self._objects.values() for file in cc.files_of(Path(path)))]
        return confine.Policy(
            files=[self._inside],
            read=[path for path in read if path.exists()],
            keep=[self._watch.fd],
            memory_bytes=max(_MIN_BYTES, _most_memory()),
            open_files=_OPEN_FILES,
            processes=_THREADS,
            groups=self._groups,
            alone=True,
        )

    def _said(self, job: Job) -> Iterator[Message]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        told = job
        if self._inside is not None:
            told = {**job, "inside": str(self._inside), "caveat": confine.state().warning}
        self._process.stdin.write(json.dumps(told).encode() + b"\n")
        self._process.stdin.flush()
        while line := self._process.stdout.readline(_LINE_BYTES):
            message = _message(line, job) if self._objects else json.loads(line)
            if message["type"] == "done" and self._inside is not None:
                _take(self._inside / job["id"], job)
            yield message
            if message["type"] != "progress":
                return
        raise BrokenPipeError

    def _guard(self, watch: cc.Watch) -> None:
        """Ends the process if a call does not return, or if it fills the disk."""
        while not self._ended.wait(_LOOK_S):
            try:
                self._why = watch.stuck(self._process.pid) or self._too_much()
            except OSError:  # the record is closed
                return
            if self._why is not None:
                self._process.kill()
                return

    def _too_much(self) -> str | None:
        """What to say of a process that leaves others no room on the disk."""
        if self._inside is None or (free := shutil.disk_usage(self._inside).free) >= _RESERVE_BYTES:
            return None
        if (taken := _size(self._inside)) < _RESERVE_BYTES:
            return None
        return f"it was ended: it has written {taken} bytes, and the disk has {free} left"

    def _death(self) -> str:
        if self._why is not None:
            return self._why
        code = self._process.returncode
        if self._objects and code == confine.FAILED:
            return "its process could not be confined"
        if code == -signal.SIGKILL:
            return "its process was killed (signal 9); the usual reason is too little memory: try fewer --workers"
        if code < 0:
            return f"its process died of {signal.Signals(-code).name}"
        return f"its process ended with status {code}"


def _folder_for(run: Path) -> Path:
    """A folder of one confined worker among the unfinished cells."""
    expect(run / PARTIAL, FOLDER)
    (run / PARTIAL).mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="worker-", dir=run / PARTIAL))


def _most_memory() -> int:
    """Half of this machine's memory, which a confined worker may take."""
    return _memory.machine_bytes() // 2


def _size(folder: Path) -> int:
    """The room that a confined worker's files take on the disk."""
    total = 0
    for *_, files, fd in os.fwalk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                total += os.stat(name, dir_fd=fd, follow_symlinks=False).st_blocks * 512
    return total


class _Garbage(Exception):  # noqa: N818 - never seen outside
    """A confined worker sent a message that no worker sends."""


def _take(folder: Path, job: Job) -> None:
    """Puts the cell of a confined worker in its place.

    Raises:
        _Garbage: it is malformed, or another cell than the worker was told to execute.
        OSError: it cannot be moved.
    """
    try:
        deliver(folder, job)
    except DeliveryError as error:
        names = ", ".join(job["objects"])
        raise _Garbage(f"its process left {error}; something in {names} writes to its files") from error


_FIELDS: Mapping[str, Mapping[str, type | tuple[type, ...]]] = {
    "progress": {"now_ns": int},
    "done": {"warnings": list, "stats": dict, "wall_s": (int, float)},
    "failed": {"kind": str, "error": str, "trace": str},
}


def _message(line: bytes, job: Job) -> Message:
    """Validates a message of a process that executes untrusted programs.

    Raises:
        _Garbage: no worker sends such a message.
    """
    try:
        message = json.loads(line)
        fields = _FIELDS[message["type"]]
        if message["id"] == job["id"] and all(isinstance(message[name], kind) for name, kind in fields.items()):
            texts = [*message.get("warnings", ()), *message.get("notes", ())]
            numbers = [*message.get("stats", {}).values()]
            if all(isinstance(t, str) for t in texts) and all(isinstance(n, int | float) for n in numbers):
                return {**message}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    names = ", ".join(job["objects"])
    raise _Garbage(f"its process sent a message that no worker sends: something in {names} writes to its descriptors")
