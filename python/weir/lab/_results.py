"""Reads files that a guest wrote. They may contain anything, and only plain files are read.

The host keeps a guest from making links and pipes in its folder (``confine.Policy.files``). If that fails, a link must
not lead to a file that only weir may read, and a pipe must not block weir.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from weir.lab._errors import LabError

__all__ = ["open_result", "read_result", "written"]

_MAX_FILES = 10_000
_MAX_HELD = 200
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_BYTES = 1 << 20
"""More than any single read returns: the clock, the exit code, messages."""


def open_result(path: Path) -> io.FileIO:
    """The file at ``path``, for reading.

    Raises:
        FileNotFoundError: it does not exist.
        LabError: it is no plain file.
    """
    try:
        file = io.FileIO(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _strange(path) from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise _strange(path)
    return file


def read_result(path: Path) -> bytes:
    """The content of ``path``, or its last megabyte.

    Raises:
        OSError: it does not exist, or cannot be read.
        LabError: it is no plain file.
    """
    with open_result(path) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - _MAX_BYTES))
        return file.read(_MAX_BYTES)


def written(folders: Iterable[Path], most_bytes: int) -> str | None:
    """The excess of the files in ``folders``, if any, in words; disk space counts, not sizes.

    Folders may be too deep for a path, or closed to their owner; they count all the same.
    """
    files = total = 0
    held: list[tuple[int, list[str]]] = []  # open folders, with the names of those in them that wait
    try:
        for folder in set(folders):
            with contextlib.suppress(FileNotFoundError):
                held.append((os.open(folder, _FOLDER), ["."]))
        while held:
            above, names = held[-1]
            here = _entered(above, names.pop())
            if not names:  # so a chain of folders takes one descriptor at a time
                os.close(held.pop()[0])
            if here is None:
                continue
            held.append((here, inner := []))
            with os.scandir(here) as entries:
                for entry in entries:
                    files += 1
                    with contextlib.suppress(FileNotFoundError):
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
                        if entry.is_dir(follow_symlinks=False):
                            inner.append(entry.name)
            if not inner:
                os.close(held.pop()[0])
            if files > _MAX_FILES or len(held) > _MAX_HELD:
                return f"it made more than {_MAX_FILES} files, or folders within folders"
            if total > most_bytes:
                return f"it wrote more than {most_bytes} bytes"
    finally:
        for here, _ in held:
            os.close(here)
    return None


def _entered(above: int, name: str) -> int | None:
    """The folder ``name`` of the folder ``above``, open; ``None`` if it is gone."""
    try:
        return os.open(name, _FOLDER, dir_fd=above)
    except PermissionError:
        place = os.open(name, os.O_PATH | _FOLDER, dir_fd=above)
        try:
            os.chmod(f"/proc/self/fd/{place}", 0o700)  # noqa: PTH101 - fchmod takes no O_PATH
            return os.open(".", _FOLDER, dir_fd=place)
        finally:
            os.close(place)
    except FileNotFoundError:
        return None


def _strange(path: Path) -> LabError:
    return LabError(f"{path.name} of the lab is no plain file: something in it meddled with its results")
