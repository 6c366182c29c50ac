"""A control group for the processes of a run: none of them leaves it by becoming a daemon or clearing its environment.

Version 2 only (cgroups(7)), without a controller, so that nothing is limited. Where none can be made, processes are
known by their environment and by the network namespaces that they are in.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["Cgroup", "root"]


class Cgroup:
    """The group ``name`` below that of this process, or none where that cannot be."""

    def __init__(self, name: str) -> None:
        """Makes it."""
        self.path: Path | None = None
        own = _own()
        if own is not None:
            with contextlib.suppress(OSError):
                (own / name).mkdir()
                self.path = own / name

    def join(self) -> None:
        """Takes this process in; for a child that is about to execute a program."""
        self.take(0)

    def take(self, pid: int) -> None:
        """Takes process ``pid`` in, and with it what it will start; 0 is this process."""
        if self.path is None:
            return
        with contextlib.suppress(OSError):  # it is known by other signs, too
            file = os.open(self.path / "cgroup.procs", os.O_WRONLY)
            try:
                os.write(file, str(pid).encode())
            finally:
                os.close(file)

    def remove(self) -> None:
        """Removes it, when nothing is in it."""
        if self.path is not None:
            with contextlib.suppress(OSError):
                self.path.rmdir()


def root() -> Path | None:
    """Where the groups are mounted; ``None`` if this host has none of version 2."""
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
