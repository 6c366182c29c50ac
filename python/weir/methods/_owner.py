"""Whose a thing on this host is: a tag in its name tells the process that made it, and whether that still lives.

Namespaces, pins and processes outlive a process that is killed. Everything that weir makes on a host carries a tag in
its name (``weir-TAG-...``) or in its environment (``WEIR_RUN=TAG``). The tag holds the number of the owning process and
the instant at which it started, so that a number that was given to another process since is not taken for it.
"""

from __future__ import annotations

import itertools
import os
import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ENVIRONMENT", "Tag", "find", "new", "processes"]

ENVIRONMENT = "WEIR_RUN"
"""The variable that tells a process whose it is; its children inherit it."""

_TEXT = re.compile(r"(?P<pid>[0-9a-f]+)-(?P<start>[0-9a-f]+)-(?P<count>[0-9a-f]+)")
_COUNT = itertools.count()


@dataclass(frozen=True)
class Tag:
    """The owner of a thing: process, its start in clock ticks since boot, and a number within the process."""

    pid: int
    start: int
    count: int

    def __str__(self) -> str:
        return f"{self.pid:x}-{self.start:x}-{self.count:x}"

    @property
    def alive(self) -> bool:
        """Whether the owner still runs."""
        return _start_of(self.pid) == self.start


def new() -> Tag:
    """A tag of this process that no other thing has."""
    pid = os.getpid()
    return Tag(pid, _start_of(pid) or 0, next(_COUNT))


def find(text: str) -> Tag | None:
    """The tag in ``text``, such as the name ``weir-1f-3c2a-0-h2``; ``None`` if there is none."""
    found = _TEXT.search(text)
    return Tag(*(int(part, 16) for part in found.groups())) if found else None


def processes() -> dict[int, Tag]:
    """Every process that was started for a tag, beside this one."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        tag = _tag_of(folder)
        if tag is not None:
            found[int(folder.name)] = tag
    return found


def _tag_of(folder: Path) -> Tag | None:
    try:
        variables = (folder / "environ").read_bytes().split(b"\0")
    except OSError:  # it ended meanwhile, or is not ours to see
        return None
    prefix = f"{ENVIRONMENT}=".encode()
    value = next((v[len(prefix) :] for v in variables if v.startswith(prefix)), None)
    return None if value is None else find(value.decode(errors="replace"))


def _start_of(pid: int) -> int | None:
    """Field 22 of ``/proc/PID/stat`` (proc(5)); ``None`` if there is no such process, or only what is left of one."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name of the program may hold spaces and parentheses
    return None if fields[0] == "Z" else int(fields[19])
