"""A control group that bounds how many processes a lab has (cgroups(7), controller ``pids``), where one can be made.

Version 1, or version 2 where a group above this process' has the controller; making one takes root, or a delegation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from weir import _owner

__all__ = ["group_places", "make", "remove"]


def make(most: int) -> Path | None:
    """A new group of at most ``most`` processes and threads; ``None`` if none can be made here."""
    for place in _own():
        group = place / f"weir-{_owner.new()}-run"
        with contextlib.suppress(OSError):
            group.mkdir()
            try:
                (group / "pids.max").write_text(str(most), encoding="ascii")
            except OSError:
                group.rmdir()
                continue
            return group
    return None


def remove(group: Path) -> None:
    """Removes a group, if nothing is in it."""
    with contextlib.suppress(OSError):
        group.rmdir()


def group_places() -> list[Path]:
    """Where control groups with the controller are mounted."""
    return [place for place, _ in _mounts()]


def _own() -> Iterator[Path]:
    """Groups in which one for a lab can be: this process' own, or the nearest above that hands the controller on."""
    for place, version in _mounts():
        path = _path(version)
        if path is None:
            continue
        own = place / path.lstrip("/")
        if version == 1:
            yield own
            continue
        for group in (own, *own.parents):
            if "pids" in _words(group / "cgroup.subtree_control"):
                yield group
                break
            if group == place:
                break


def _mounts() -> Iterator[tuple[Path, int]]:
    for line in _lines(Path("/proc/self/mounts")):
        words = line.split()
        if len(words) > 3 and words[2] == "cgroup" and "pids" in words[3].split(","):
            yield Path(words[1]), 1
        elif len(words) > 3 and words[2] == "cgroup2":
            yield Path(words[1]), 2


def _path(version: int) -> str | None:
    """This process' group, from the root of its hierarchy."""
    for line in _lines(Path("/proc/self/cgroup")):
        number, controllers, path = line.split(":", 2)
        if (version == 1 and "pids" in controllers.split(",")) or (version == 2 and number == "0"):
            return path
    return None


def _words(path: Path) -> list[str]:
    return [word for line in _lines(path) for word in line.split()]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
