"""Control groups that bound how many processes and how much memory a program of somebody else's has (cgroups(7)).

Limits of a process count neither: root may start as many as it likes, and neither the kernel's memory nor files in
memory are part of an address space. The controllers are ``pids`` and ``memory``: each in its hierarchy of version 1, or
both in a group of version 2, where one above this process' hands them on. Making a group takes root, or a delegation.
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from weir import _owner

__all__ = ["group_places", "make", "remove"]

_FILES = {1: {"pids": "pids.max", "memory": "memory.limit_in_bytes"}, 2: {"pids": "pids.max", "memory": "memory.max"}}
"""By version and controller: the file of its bound."""
_ALSO = {"memory.max": {"memory.swap.max": "0", "memory.oom.group": "1"}}
"""What else makes a bound one, where the kernel has it: of the disk there is no more either, and all end together."""
_PATIENCE_S = 2.0


def make(processes: int, memory_bytes: int | None = None, name: str | None = None) -> tuple[Path, ...]:
    """New groups of at most ``processes`` processes and threads, and of ``memory_bytes``; none where none can be made.

    A program has to join each. The group that bounds processes comes first. ``name`` holds a tag; by default one of
    this process.
    """
    wanted = {"pids": processes} | ({} if memory_bytes is None else {"memory": memory_bytes})
    name = name or f"weir-{_owner.new()}-run"
    groups = []
    for place, version, controllers in _own(wanted):
        bounded = controllers & set(wanted)
        _sweep(place)
        if bounded and _bounded(place / name, {_FILES[version][one]: wanted[one] for one in sorted(bounded)}):
            groups.append((place / name, "pids" in bounded))
            wanted = {controller: most for controller, most in wanted.items() if controller not in bounded}
    return tuple(group for group, _ in sorted(groups, key=lambda made: not made[1]))


def _bounded(group: Path, bounds: dict[str, int]) -> bool:
    """Makes ``group`` with ``bounds`` by file; whether that could be done."""
    try:
        group.mkdir()
    except OSError:
        return False
    try:
        for file, most in bounds.items():
            (group / file).write_text(str(most), encoding="ascii")
            for more, value in _ALSO.get(file, {}).items():
                with contextlib.suppress(OSError):
                    (group / more).write_text(value, encoding="ascii")
    except OSError:
        group.rmdir()
        return False
    return True


def remove(groups: Sequence[Path]) -> None:
    """Removes groups; waits a moment for killed processes to leave them. A group in which one stays, stays."""
    deadline = time.monotonic() + _PATIENCE_S
    for group in groups:
        while not _removed(group) and time.monotonic() < deadline:
            time.sleep(0.005)


def _removed(group: Path) -> bool:
    """Tries to remove ``group``; whether there is nothing to wait for."""
    try:
        group.rmdir()
    except OSError as error:
        return error.errno != errno.EBUSY
    return True


def _sweep(place: Path) -> None:
    """Removes the empty groups in ``place`` whose owners were killed before they could."""
    with contextlib.suppress(OSError):
        for group in place.glob("weir-*-run"):
            tag = _owner.find(group.name, suffix="-run")
            if tag is not None and not tag.alive:
                _removed(group)


def group_places() -> list[Path]:
    """Where control groups with the controllers are mounted."""
    return [place for place, _, _ in _mounts()]


def _own(wanted: Iterable[str]) -> Iterator[tuple[Path, int, set[str]]]:
    """Groups in which one can be, with their versions and controllers.

    This process' own, or the nearest above that hands on the most of ``wanted``.
    """
    for place, version, controllers in _mounts():
        path = _path(version, controllers)
        if path is None:
            continue
        own = place / path.lstrip("/")
        if version == 1:
            yield own, 1, controllers
            continue
        above = (group for group in (own, *own.parents) if group.is_relative_to(place))
        offers = [(group, _words(group / "cgroup.subtree_control") & set(wanted)) for group in above]
        if offers:
            group, handed = max(offers, key=lambda offer: len(offer[1]))
            yield group, 2, handed


def _mounts() -> Iterator[tuple[Path, int, set[str]]]:
    for line in _lines(Path("/proc/self/mounts")):
        words = line.split()
        if len(words) > 3 and words[2] == "cgroup" and (found := _FILES[1].keys() & set(words[3].split(","))):
            yield Path(words[1]), 1, found
        elif len(words) > 3 and words[2] == "cgroup2":
            yield Path(words[1]), 2, set(_FILES[2])


def _path(version: int, controllers: set[str]) -> str | None:
    """This process' group, from the root of its hierarchy."""
    for line in _lines(Path("/proc/self/cgroup")):
        number, names, path = line.split(":", 2)
        if (version == 1 and controllers <= set(names.split(","))) or (version == 2 and number == "0"):
            return path
    return None


def _words(path: Path) -> set[str]:
    return {word for line in _lines(path) for word in line.split()}


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
