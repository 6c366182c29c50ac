"""A lock against concurrent writers of a folder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import socket
from collections.abc import Callable, Iterator
from typing import BinaryIO

from weir._inside import Folder
from weir.engine._errors import LockedError
from weir.run.printable import printable

__all__ = ["LOCK", "held_lock", "is_locked"]

LOCK = ".lock"
"""Name of the file in a run's folder."""
_HOLDER = re.compile(rb"(process [0-9]{1,10} on [^\x00-\x1f]{0,255}\n)?")
"""The content that this module writes; a file with other content is locked as well, and left unchanged."""
_UNKNOWN = frozenset({errno.ENOTSUP, errno.ENOLCK, errno.ENOSYS})


@contextlib.contextmanager
def held_lock(folder: Folder, *, keep: Callable[[], bool]) -> Iterator[None]:
    """Holds the lock of ``folder``; ``keep`` decides at the end whether the file stays.

    The kernel releases the lock when the holding process ends, however it ends.

    Raises:
        LockedError: another process holds it.
        weir._inside.InsideError: something other than a plain file has its name.
        OSError: it cannot be created.
    """
    with folder.open_to_write(LOCK) as file:
        _lock(file, folder)
        ours = _HOLDER.fullmatch(_content(file)) is not None
        try:
            if ours:
                os.ftruncate(file.fileno(), 0)
                os.pwrite(file.fileno(), f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
            yield
        finally:
            if ours and not keep():
                folder.remove(LOCK)


def is_locked(folder: Folder) -> bool:
    """Whether a process holds the lock of ``folder``. Writes nothing.

    Raises:
        OSError: it cannot be opened.
    """
    try:
        file = folder.open(LOCK)
    except FileNotFoundError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno not in _UNKNOWN:
                raise
    return False


def _lock(file: BinaryIO, folder: Folder) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise _taken(file, folder) from error
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise
    if not _is_at(file, folder):  # its holder removed it between the opening and the locking here
        raise _taken(file, folder)


def _is_at(file: BinaryIO, folder: Folder) -> bool:
    try:
        named = os.stat(LOCK, dir_fd=folder.fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(file.fileno()), named)


def _content(file: BinaryIO) -> bytes:
    return os.pread(file.fileno(), 512, 0)


def _taken(file: BinaryIO, folder: Folder) -> LockedError:
    content = _content(file)
    holder = content.decode(errors="replace").strip() if _HOLDER.fullmatch(content) else ""
    return LockedError(f"{printable(folder.path)} is being written by {holder or 'another run'}")
