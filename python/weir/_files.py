"""Atomic writes: a file is either unchanged or complete, whatever happens during the write."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["made_folder", "remove_leftovers", "sync_folder", "write_atomic"]

_TEMPORARY = re.compile(r"\..+\.(?P<pid>[0-9]+)\.tmp")


def sync_folder(folder: Path) -> None:
    """Makes the names in ``folder`` durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_atomic(path: Path, text: str, *, durable: bool = True) -> None:
    """Writes ``text`` atomically: ``path`` holds either the old content or all of the new one, whatever happens.

    Without ``durable``, a crash of the machine may lose it until the caller syncs file and folder.

    Raises:
        OSError: it could not be written; ``path`` is unchanged, and no temporary file is left.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.unlink(missing_ok=True)  # left by an earlier process with the same id
        try:
            with temporary.open("x", encoding="utf-8") as file:  # created here: follows no link of that name
                file.write(text)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        # A write says no name, and the temporary one tells nobody anything.
        error.filename, error.filename2 = str(path), None
        raise
    if durable:
        sync_folder(path.parent)


def remove_leftovers(folder: Path) -> None:
    """Removes from ``folder``, which is weir's, the temporary files of processes that were killed during a write."""
    for path in folder.iterdir():
        found = _TEMPORARY.fullmatch(path.name)
        if found and not Path(f"/proc/{found['pid']}").exists() and not path.is_dir():
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def made_folder(path: Path) -> Iterator[None]:
    """Creates a folder at ``path`` if there is none; removes it again if it is empty when the context ends.

    Raises:
        OSError: it cannot be created; nothing was.
    """
    made: list[Path] = []
    try:
        missing = [folder for folder in (path, *path.parents) if not os.path.lexists(folder)]
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)
            made.append(folder)
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        yield
    finally:
        for folder in reversed(made):
            with contextlib.suppress(OSError):  # it has content by now
                folder.rmdir()
