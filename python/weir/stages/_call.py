"""Runs one executable for one stage on this machine, with bounds on its time and on what it says.

It runs below a relay (:mod:`weir.hosts.relay`), which ends it and all that it has started when the call is over or this
process is gone, however that came.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import IO, Any

from weir.hosts.place import PlaceError, Running
from weir.hosts.relay import far_end, reach
from weir.inventory import Inventory
from weir.stages._contract import MAX_BYTES, Answer, parse
from weir.stages.errors import HookError

__all__ = ["Program", "call", "obstacle"]

_MAX_WORDS = 1000
_KEPT = 1 << 14
_CHUNK = 1 << 16
_POLL_S = 0.05
_DRAIN_S = 5.0
_IN_FOLDER = """\
import os, sys
try:
    os.chdir(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit(f"{error.filename or sys.argv[2]}: {error.strerror}")
"""


@dataclass(frozen=True)
class Program:
    """An executable."""

    command: tuple[str, ...]
    folder: str
    """In which it runs: that of the inventory."""
    limit_s: float

    def __str__(self) -> str:
        return shlex.join(self.command)


def obstacle(inventory: Inventory) -> str | None:
    """Which executable of an inventory's hooks is not there, or may not be executed; ``None``: all can be."""
    for stage, several in inventory.hooks.items():
        for hook in several:
            if shutil.which(hook.command[0]) is None:
                what = "is no executable file" if "/" in hook.command[0] else "is not found in PATH"
                return f"hook of stage {stage}: {hook.command[0]} {what}"
    return None


def call(program: Program, stage: str, question: Mapping[str, Any]) -> Answer:
    """Runs ``program`` with ``question`` and its stage as standard input; its answer.

    Nothing that it has started runs afterwards.

    Raises:
        HookError: it cannot be started, fails, takes too long, or answers nonsense. ``answer`` of the error has what
            it said nevertheless, if that can be understood.
    """
    name = f"hook of stage {stage}: `{program}`"
    given = json.dumps({**question, "stage": stage}).encode() + b"\n"
    try:
        with reach("this machine", far_end(tempfile.gettempdir())) as place:
            started = place.start((sys.executable, "-I", "-S", "-c", _IN_FOLDER, program.folder, *program.command))
            code, out, err = _exchanged(started, given, program.limit_s, name)
    except PlaceError as error:
        raise HookError(f"{name}: {error}") from error
    if code:
        said = _words([err, out])
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise HookError(f"{name} failed with {how}{f': {said}' if said else ''}", _understood(out))
    try:
        return parse(out)
    except ValueError as error:
        raise HookError(f"{name}: {error}") from error


def _exchanged(started: Running, given: bytes, limit_s: float, name: str) -> tuple[int, bytes, bytes]:
    """Its exit code and its output, all of what counts and the end of what is for people.

    Raises:
        HookError: it takes too long, or says too much.
    """
    assert started.stdout is not None
    assert started.stderr is not None
    said, told = _Ear(started.stdout, MAX_BYTES), _Ear(started.stderr, None)
    with contextlib.suppress(OSError):  # it has ended, and reads nothing
        assert started.stdin is not None
        started.stdin.write(given)
        started.stdin.close()
    deadline = time.monotonic() + limit_s
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = started.wait(_POLL_S)
            break
        if said.full:
            started.kill()
            raise HookError(f"{name} said more than {MAX_BYTES >> 20} MiB, and was ended")
        if time.monotonic() > deadline:
            started.kill()
            words = _words([bytes(told.heard)])
            more = f"; its last words: {words}" if words else ""
            raise HookError(f"{name} did not end in {limit_s:g} s, and was ended{more}")
    for ear in (said, told):
        ear.join(_DRAIN_S)
    if said.full:
        raise HookError(f"{name} said more than {MAX_BYTES >> 20} MiB")
    return code, bytes(said.heard), bytes(told.heard)


class _Ear(threading.Thread):
    """Reads a stream to its end: up to ``most`` bytes of it, or without such a limit its last ones."""

    def __init__(self, stream: IO[bytes], most: int | None) -> None:
        super().__init__(daemon=True)
        self.heard = bytearray()
        self.full = False
        self._stream = stream
        self._most = most
        self.start()

    def run(self) -> None:
        """Reads."""
        with contextlib.suppress(OSError, ValueError):
            while data := self._stream.read1(_CHUNK):  # type: ignore[attr-defined]  # a BufferedReader
                if self._most is None:
                    self.heard = (self.heard + data)[-_KEPT:]
                elif len(self.heard) + len(data) <= self._most:
                    self.heard += data
                else:
                    self.full = True


def _words(several: Iterable[bytes]) -> str:
    """The end of the first text that is not empty, in one line without control characters."""
    for said in several:
        text = " ".join(said.decode(errors="replace").split())
        if text:
            return "".join(letter if letter.isprintable() else "?" for letter in text)[-_MAX_WORDS:]
    return ""


def _understood(said: bytes) -> Answer | None:
    with contextlib.suppress(ValueError):
        return parse(said)
    return None
