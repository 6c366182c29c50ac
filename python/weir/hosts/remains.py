"""Finds and removes remains of runs on this host.

A run removes everything it made however it ends; this module is for the case that the cleaning process was killed as
well. Everything is recognised by the tag in its name or environment (:mod:`weir._owner`), which is sealed and matched
whole, so that nothing else is touched. Objects of a live run are left to it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from weir import _owner, _seal
from weir._errors import MethodError
from weir._group import group_places
from weir._remove import remove_tree
from weir.bpf import ours, unpin
from weir.hosts import _cgroup
from weir.hosts.local import PREFIX
from weir.lab import left_behind

__all__ = ["Remain", "find", "remove"]

_NAMESPACES = Path("/run/netns")
_PATIENCE_S = 2.0


@dataclass(frozen=True)
class Remain:
    """An object that a run made on this host."""

    kind: Literal["process", "control group", "namespace", "interface", "congestion control", "folder"]
    name: str
    """Its process id, name, or path."""
    alive: bool
    """Whether its run is still active."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def find() -> list[Remain]:
    """All objects of any run, in the order of removal."""
    return [*_processes(), *_cgroups(), *_namespaces(), *_interfaces(), *_pins(), *_folders()]


def remove(remain: Remain) -> None:
    """Removes ``remain``; it may be gone already.

    Raises:
        MethodError: it cannot be removed.
    """
    match remain.kind:
        case "process":
            _end(int(remain.name))
        case "control group":
            _end_group(Path(remain.name))
        case "namespace":
            _delete(remain.name)
        case "interface":
            _delete_interface(remain.name)
        case "congestion control":
            unpin(remain.name)
        case "folder":
            remove_tree(Path(remain.name))


def _processes() -> Iterator[Remain]:
    for pid, tag in sorted(_owner.processes().items()):
        if pid != tag.pid:  # a run started from within a run has that run's tag in its environment, too
            yield Remain("process", str(pid), tag.alive)


def _namespaces() -> Iterator[Remain]:
    names = sorted(path.name for path in _NAMESPACES.glob("weir-*")) if _NAMESPACES.is_dir() else []
    for name in names:
        tag = _owner.find(name)
        if tag is not None:
            yield Remain("namespace", name, tag.alive)


def _interfaces() -> Iterator[Remain]:
    """Interfaces of test beds; their names are too short for a tag, so it is in their aliases (ip-link(8))."""
    for alias in sorted(Path("/sys/class/net").glob("*/ifalias")):
        with contextlib.suppress(OSError):
            tag = _owner.find(alias.read_text(encoding="utf-8", errors="replace").strip(), suffix="-bed")
            if tag is not None:
                yield Remain("interface", alias.parent.name, tag.alive)


def _cgroups() -> Iterator[Remain]:
    places = {place for place in (_cgroup.root(), *group_places()) if place is not None}
    for path in sorted({path for place in places for path in place.rglob("weir-*-run")}):
        tag = _owner.find(path.name, suffix="-run")
        if tag is not None and path.is_dir():
            yield Remain("control group", str(path), tag.alive)


def _pins() -> Iterator[Remain]:
    """Pins of ``weir cc load``: unused unless a program uses them, which the kernel itself tracks."""
    yield from (Remain("congestion control", name, alive=False) for name in ours())


def _folders() -> Iterator[Remain]:
    """Folders of killed labs, of killed builds of their kernel, of places on this machine, and of test beds."""
    yield from (Remain("folder", str(path), alive=False) for path in left_behind())
    for path in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")):
        tag = _owner.find(path.name, PREFIX, suffix="")
        if tag is not None and path.is_dir() and not path.is_symlink():
            yield Remain("folder", str(path), tag.alive)
    for owner in sorted((_seal.folder() / "testbed").glob("*/owner")):  # :mod:`weir.testbed`
        with contextlib.suppress(OSError):
            tag = _owner.parse(owner.read_text(encoding="utf-8").strip())
            if tag is not None and not owner.parent.is_symlink():
                yield Remain("folder", str(owner.parent), tag.alive)


def _end(pid: int) -> None:
    """Ends a process: by a signal that it can handle, then by force."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if _owner.of_process(pid) is None:  # the id belongs to another process by now
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            signal.pidfd_send_signal(process, number)
            if select.select([process], [], [], _PATIENCE_S)[0]:
                return
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise MethodError(f"process {pid}: no permission to end it; try as root") from error
    finally:
        os.close(process)


def _end_group(group: Path) -> None:
    """Ends all processes in a control group of weir's, and removes it."""
    with contextlib.suppress(OSError):  # before Linux 5.14, one by one
        (group / "cgroup.kill").write_text("1")
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            for pid in (group / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:  # busy while killed processes are still leaving
            if time.monotonic() > deadline:
                raise MethodError(f"control group {group}: {error.strerror}") from error
            time.sleep(0.01)
        else:
            return


def _end_members(namespace: Path) -> None:
    """Ends the processes in a network namespace of weir's; they would keep it after its name is gone."""
    number = namespace.stat().st_ino
    if number == Path("/proc/self/ns/net").stat().st_ino:
        return
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdigit() and (process / "ns" / "net").stat().st_ino == number:
                os.kill(int(process.name), signal.SIGKILL)


def _delete(namespace: str) -> None:
    if not (_NAMESPACES / namespace).exists():
        return
    _end_members(_NAMESPACES / namespace)
    done = subprocess.run(["ip", "netns", "del", namespace], capture_output=True, text=True, check=False)
    if done.returncode != 0 and (_NAMESPACES / namespace).exists():
        raise MethodError(f"namespace {namespace}: {done.stderr.strip()}")


def _delete_interface(name: str) -> None:
    done = subprocess.run(["ip", "link", "delete", name], capture_output=True, text=True, check=False)
    if done.returncode != 0 and Path("/sys/class/net", name).exists():
        raise MethodError(f"interface {name}: {done.stderr.strip()}")
