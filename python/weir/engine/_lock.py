"""A lock against two writers of one folder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from weir.engine._errors import LockedError

__all__ = ["LOCK", "held_lock"]

LOCK = ".lock"
"""Name of the file in a run's folder."""


@contextlib.contextmanager
def held_lock(path: Path, *, keep: Callable[[], bool]) -> Iterator[None]:
    """Holds the lock ``path``, which stays there if ``keep`` says so at the end.

    The lock is the kernel's, so that it goes with the process that held it, however that ended.

    Raises:
        LockedError: another process holds it.
        OSError: it cannot be made.
    """
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(path.open("a+", encoding="utf-8"))
        _lock(file, path)
        try:
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
            file.flush()
            yield
        finally:
            if not keep():
                path.unlink(missing_ok=True)


def _lock(file: TextIO, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise _taken(file, path) from error
    except OSError as error:
        if error.errno not in {errno.ENOTSUP, errno.ENOLCK, errno.ENOSYS}:
            raise
    if not _is_at(file, path):  # its holder removed it between our opening and our locking
        raise _taken(file, path)


def _is_at(file: TextIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _taken(file: TextIO, path: Path) -> LockedError:
    file.seek(0)
    return LockedError(f"{path.parent} is being written by {file.read().strip() or 'another run'}")
