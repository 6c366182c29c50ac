"""A control group for the processes of a run: none leaves it by becoming a daemon or clearing its environment.

Version 2 (cgroups(7)), which can be killed as a whole. It limits the number of processes, or another group does, if the
controller ``pids`` can be used; nothing else is limited. If none can be made, processes are recognised by their
environment and by their network namespaces.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from weir import _group

__all__ = ["Cgroup", "root"]


_PROCESSES = 4096
"""Maximum number of processes and threads of a run: limits a program that forks without end."""


class Cgroup:
    """The group ``name`` below that of this process, or none if it cannot be made; and groups that limit it."""

    def __init__(self, name: str) -> None:
        """Creates them."""
        self.path: Path | None = None
        bounds = _group.make(_PROCESSES, name=name)
        mounted = root()
        for group in bounds:
            if mounted is not None and group.is_relative_to(mounted):
                self.path = group  # a process is in one group of version 2
        self.bounds = tuple(str(group) for group in bounds if group != self.path)
        own = _own() if self.path is None else None
        if own is not None:
            with contextlib.suppress(OSError):
                (own / name).mkdir()
                self.path = own / name

    @property
    def _all(self) -> tuple[Path, ...]:
        return (*(() if self.path is None else (self.path,)), *map(Path, self.bounds))

    def join(self) -> None:
        """Adds this process, a child that is about to execute a program."""
        self.take(0)

    def take(self, pid: int) -> None:
        """Adds process ``pid`` and its future children; 0 is this process."""
        for group in self._all:
            with contextlib.suppress(OSError):  # other signs identify it, too
                file = os.open(group / "cgroup.procs", os.O_WRONLY)
                try:
                    os.write(file, str(pid).encode())
                finally:
                    os.close(file)

    def remove(self) -> None:
        """Removes them, if they are empty."""
        _group.remove(self._all)


def root() -> Path | None:
    """The mount point of the groups; ``None`` if this host has none of version 2."""
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    found = (line.split() for line in lines)
    return next((Path(words[1]) for words in found if len(words) > 2 and words[2] == "cgroup2"), None)


def _own() -> Path | None:
    place = root()
    if place is None:
        return None
    for line in _lines(Path("/proc/self/cgroup")):
        number, _, path = line.partition("::")
        if number == "0":
            return place / path.lstrip("/")
    return None


def _lines(path: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        yield from path.read_text(encoding="utf-8").splitlines()
