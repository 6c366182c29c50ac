"""Reads what a guest wrote. It may have written anything, and only plain files are taken from it.

The host keeps a guest from making links and pipes in its folder (``confine.Policy.files``). Should it not, a link must
not lead to a file of the host that only weir may read, nor a pipe hold weir up.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from weir.lab._errors import LabError

__all__ = ["open_result", "read_result", "written"]

_MOST_FILES = 10_000
_MOST_BYTES = 1 << 20
"""More than what is read at once ever has: the clock, the exit code, messages."""


def open_result(path: Path) -> io.FileIO:
    """The file at ``path``, for reading.

    Raises:
        FileNotFoundError: it is not there.
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
    """The content of ``path``, or the end of it if that is more than a megabyte.

    Raises:
        OSError: it is not there, or cannot be read.
        LabError: it is no plain file.
    """
    with open_result(path) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - _MOST_BYTES))
        return file.read(_MOST_BYTES)


def written(folders: Iterable[Path], most_bytes: int) -> str | None:
    """What is too much about the files in ``folders``, if anything is; disk space counts, not sizes."""
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
        except OSError:  # closed, or too deep: what is in there would not count
            return "it made a folder that nobody can look into"
        if files > _MOST_FILES:
            return f"it made more than {_MOST_FILES} files"
        if total > most_bytes:
            return f"it wrote more than {most_bytes} bytes"
    return None


def _strange(path: Path) -> LabError:
    return LabError(f"{path.name} of the lab is no plain file: something in it meddled with its results")
