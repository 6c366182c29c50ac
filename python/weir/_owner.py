"""Ownership of objects on this host: a tag in an object's name identifies the process that made it, dead or alive.

Namespaces, folders and processes outlive a killed process. Everything that weir makes on a host carries a tag in its
name (``weir-TAG-...``) or in its environment (``WEIR_RUN=TAG``). The tag holds the owner's process id and start time,
so that a reused id is not mistaken for the owner. Its seal (:mod:`weir._seal`) protects against objects that only look
like weir's.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from weir._remove import remove_quietly
from weir._seal import DIGITS, is_sealed, seal

__all__ = ["ENVIRONMENT", "Tag", "find", "make_folder", "new", "of_process", "parse", "processes", "temporary_folder"]

ENVIRONMENT = "WEIR_RUN"
"""The variable that names a process' owner; its children inherit it."""

_SHAPE = rf"[0-9a-f]{{1,8}}-[0-9a-f]{{1,16}}-[0-9a-f]{{1,16}}-[0-9a-f]{{{DIGITS}}}"
_COUNT = itertools.count()


@dataclass(frozen=True)
class Tag:
    """The owner of an object: process id, its start in clock ticks since boot, and a number within the process."""

    pid: int
    start: int
    count: int

    def __str__(self) -> str:
        return f"{self._facts}-{seal(self._facts)}"

    @property
    def _facts(self) -> str:
        return f"{self.pid:x}-{self.start:x}-{self.count:x}"

    @property
    def alive(self) -> bool:
        """Whether the owner still runs."""
        return _start_of(self.pid) == self.start


def new() -> Tag:
    """A tag of this process that no other object has."""
    pid = os.getpid()
    return Tag(pid, _start_of(pid) or 0, next(_COUNT))


def parse(text: str) -> Tag | None:
    """Parses a tag; ``None`` if ``text`` is none, or if this user's weir did not write it."""
    if re.fullmatch(_SHAPE, text) is None:
        return None
    *facts, sealed = text.split("-")
    tag = Tag(*(int(fact, 16) for fact in facts))
    return tag if is_sealed("-".join(facts), sealed) else None


def find(name: str, prefix: str = "weir-", suffix: str = "-[a-z0-9]+") -> Tag | None:
    """The tag in ``name``, such as ``weir-TAG-h2``: ``prefix``, a tag, the pattern ``suffix``; ``None`` otherwise."""
    found = re.fullmatch(rf"{re.escape(prefix)}(?P<tag>{_SHAPE}){suffix}", name)
    return parse(found["tag"]) if found else None


def make_folder(place: Path, prefix: str) -> Path:
    """Creates a folder named ``prefix`` and a tag in ``place``, for this user alone.

    Raises:
        OSError: it cannot be created.
    """
    folder = place / f"{prefix}{new()}"
    folder.mkdir(mode=0o700)
    return folder


@contextlib.contextmanager
def temporary_folder(place: Path, prefix: str) -> Iterator[Path]:
    """A folder named ``prefix`` and a tag in ``place``, removed at the end of the context.

    Raises:
        OSError: it cannot be created.
    """
    folder = make_folder(place, prefix)
    try:
        yield folder
    finally:
        remove_quietly(folder)


def processes() -> dict[int, Tag]:
    """Every process that was started for a tag, except this one."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        tag = of_process(int(folder.name))
        if tag is not None:
            found[int(folder.name)] = tag
    return found


def of_process(pid: int) -> Tag | None:
    """The tag for which process ``pid`` was started; ``None`` if it has none, or cannot be examined."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # it ended meanwhile, or may not be examined
        return None
    prefix = f"{ENVIRONMENT}=".encode()
    value = next((v[len(prefix) :] for v in variables if v.startswith(prefix)), None)
    return None if value is None else parse(value.decode(errors="replace"))


def _start_of(pid: int) -> int | None:
    """Field 22 of ``/proc/PID/stat`` (proc(5)); ``None`` if the process does not exist, or is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the program's name may contain spaces and parentheses
    return None if fields[0] == "Z" else int(fields[19])
