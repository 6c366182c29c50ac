"""Finds the remains of labs and kernel builds that were killed together with their cleaners."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from weir import _owner
from weir.lab._files import cache
from weir.lab._lab import PREFIX

__all__ = ["left_behind"]

_WORKSHOPS = (("", "build-"), ("*/", "modules-"), ("programs/", "program-"))
"""Folders below the cache in which builds run: place, and prefix of their names."""
_SHARED = Path("/dev/shm")
"""Place of the labs' memory."""
_OLD_S = 60.0
"""A younger folder may belong to a process that is about to use it."""


def left_behind() -> list[Path]:
    """Unused folders: of labs without processes, and of builds without processes."""
    places = {Path(tempfile.gettempdir()), _SHARED}
    labs = [folder for place in sorted(places) for folder in _below(place, "", PREFIX)]
    builds = [folder for where, prefix in _WORKSHOPS for folder in _below(cache(), where, prefix)]
    old = [folder for folder in (*labs, *builds) if _is_ours_and_old(folder)]
    if not old or _builds():
        old = [folder for folder in old if not folder.name.startswith("build-")]
    used = _used() if old else set()
    return [folder for folder in old if not any(folder in (path, *path.parents) for path in used)]


def _below(folder: Path, where: str, prefix: str) -> Iterator[Path]:
    """Entries that this user's weir made there and whose maker is dead."""
    for path in sorted(folder.glob(f"{where}{prefix}*")):
        tag = _owner.find(path.name, prefix, suffix="")
        if tag is not None and not tag.alive:
            yield path


def _is_ours_and_old(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        about = folder.lstat()
        return stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid() and time.time() - about.st_mtime > _OLD_S
    return False


def _builds() -> bool:
    """Whether a kernel is being built."""
    try:
        with (cache() / "lock").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _used() -> set[Path]:
    """Folders and files that processes have as working folder or argument."""
    found: set[Path] = set()
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            found.add((process / "cwd").readlink())
            words = (process / "cmdline").read_bytes().split(b"\0")
            found |= {Path(os.fsdecode(word.removeprefix(b"M="))) for word in words}
    return found
