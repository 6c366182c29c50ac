"""Reads files that a guest wrote. They may contain anything, and only plain files are read.

The host keeps a guest from making links and pipes in its folder (``confine.Policy.files``). If that fails, a link must
not lead to a file that only weir may read, and a pipe must not block weir.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from weir.lab._errors import LabError

__all__ = ["open_result", "read_result", "written"]

_MAX_FILES = 10_000
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
    """The excess of the files in ``folders``, if any, in words; disk space counts, not sizes."""
    waiting, files, total = [*set(folders)], 0, 0
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    files += 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
        except FileNotFoundError:  # gone meanwhile; it counts all the same
            files += 1
        except OSError:  # closed, or too deep: its content would not count
            return "it made a folder that nobody can look into"
        if files > _MAX_FILES:
            return f"it made more than {_MAX_FILES} files"
        if total > most_bytes:
            return f"it wrote more than {most_bytes} bytes"
    return None


def _strange(path: Path) -> LabError:
    return LabError(f"{path.name} of the lab is no plain file: something in it meddled with its results")
