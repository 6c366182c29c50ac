"""What runs left on this host, and its removal.

A run removes what it made however it ends; what is here is for the case that the process which does that was killed as
well. Everything is known by the tag in its name or environment (:mod:`weir.methods._owner`), so that nothing else is
touched, and what a live run owns is left to it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from weir.lab import left_behind
from weir.methods import MethodError, _owner

__all__ = ["Remain", "find", "remove"]

_NAMESPACES = Path("/run/netns")
_PINS = Path("/sys/fs/bpf/weir")
_PATIENCE_S = 2.0


@dataclass(frozen=True)
class Remain:
    """Something that a run made on this host."""

    kind: Literal["process", "namespace", "congestion control", "folder"]
    name: str
    """Its number, its name, or its path."""
    alive: bool
    """Whether the run that it belongs to still goes."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def find() -> list[Remain]:
    """Everything of any run, in the order in which it has to be removed."""
    return [*_processes(), *_namespaces(), *_pins(), *_folders()]


def remove(remain: Remain) -> None:
    """Removes ``remain``; it may be gone already.

    Raises:
        MethodError: it cannot be removed.
    """
    match remain.kind:
        case "process":
            _end(int(remain.name))
        case "namespace":
            _delete(remain.name)
        case "congestion control":
            with contextlib.suppress(FileNotFoundError):
                (_PINS / remain.name).unlink()
            with contextlib.suppress(OSError):  # another's pin keeps the folder
                _PINS.rmdir()
        case "folder":
            shutil.rmtree(remain.name, ignore_errors=True)


def _processes() -> Iterator[Remain]:
    for pid, tag in sorted(_owner.processes().items()):
        if pid != tag.pid:  # a run that was started from within a run has its tag in the environment, too
            yield Remain("process", str(pid), tag.alive)


def _namespaces() -> Iterator[Remain]:
    names = sorted(path.name for path in _NAMESPACES.glob("weir-*")) if _NAMESPACES.is_dir() else []
    for name in names:
        tag = _owner.find(name)
        yield Remain("namespace", name, _inhabited(name) if tag is None else tag.alive)


def _inhabited(namespace: str) -> bool:
    """Whether a process lives in ``namespace``: the only sign of life of one that has no tag."""
    listed = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False)
    return bool(listed.stdout.strip())


def _pins() -> Iterator[Remain]:
    """What ``weir cc load`` keeps: nobody's while no program uses it, which the kernel minds by itself."""
    try:
        names = sorted(path.name for path in _PINS.iterdir())
    except OSError:
        return
    yield from (Remain("congestion control", name, alive=False) for name in names)


def _folders() -> Iterator[Remain]:
    """Of labs, and of builds of their kernel, that were killed."""
    yield from (Remain("folder", str(path), alive=False) for path in left_behind())


def _end(pid: int) -> None:
    """Ends a process: by a signal that it can heed, then by force."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        except PermissionError as error:
            raise MethodError(f"process {pid}: no permission to end it; try as root") from error
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            if not _runs(pid):
                return
            time.sleep(0.01)


def _runs(pid: int) -> bool:
    """Whether ``pid`` is there and more than what is left of an ended process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def _delete(namespace: str) -> None:
    if not (_NAMESPACES / namespace).exists():
        return
    done = subprocess.run(["ip", "netns", "del", namespace], capture_output=True, text=True, check=False)
    if done.returncode != 0 and (_NAMESPACES / namespace).exists():
        raise MethodError(f"namespace {namespace}: {done.stderr.strip()}")
