"""Files that survive a crash, and the detection of a full disk."""

from __future__ import annotations

import errno
import functools
import json
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from weir._files import sync_folder, write_atomic

__all__ = ["is_disk_full", "json_bytes", "sync", "sync_folder", "write_atomic", "write_json"]

_AT_ONCE = 8


def sync(paths: Iterable[Path]) -> None:
    """Makes files and the names in folders durable: at once, because a file system commits them together.

    Raises:
        OSError: one of them could not be written.
    """
    every = list(paths)
    try:
        done = _syncing().map(_sync, every)
    except RuntimeError:  # a control of a user has taken the threads that a process may have
        done = map(_sync, every)
    for _ in done:
        pass


@functools.cache
def _syncing() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_AT_ONCE, "sync")


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_json(path: Path, value: Any, *, durable: bool = True) -> None:
    """Writes ``value`` as indented JSON, as :func:`write_atomic`.

    Raises:
        OSError: as :func:`write_atomic`.
    """
    write_atomic(path, _text(value), durable=durable)


def json_bytes(value: Any) -> bytes:
    """``value`` as the same JSON, in bytes."""
    return _text(value).encode()


def _text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def is_disk_full(error: BaseException) -> bool:
    """Whether ``error`` means that a disk or a quota is full."""
    return isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}
