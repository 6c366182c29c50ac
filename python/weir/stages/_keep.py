"""Keeps in a cell or in a folder what hooks have answered."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import BinaryIO, Protocol

from weir._inside import Folder
from weir.stages._hooks import Done

__all__ = ["keep"]


class _Cell(Protocol):
    def open(self, name: str) -> BinaryIO: ...


def keep(done: Sequence[Done], name: str, to: Folder | _Cell) -> None:
    """Writes the facts of hooks to the file ``name`` in a folder or cell, and the files that they have answered.

    Without any hook, nothing is written.

    Raises:
        OSError: they cannot be written.
    """
    if not done:
        return
    for one in done:
        for file, text in one.answer.files.items():
            _write(to, f"{one.folder}/{file}", text.encode(errors="replace"))
    _write(to, name, (json.dumps([one.to_json() for one in done], indent=2) + "\n").encode())


def _write(to: Folder | _Cell, name: str, content: bytes) -> None:
    if not isinstance(to, Folder):
        to.open(name).write(content)
        return
    *folders, last = PurePosixPath(name).parts
    with contextlib.ExitStack() as stack:
        inner = to
        for folder in folders:
            inner = stack.enter_context(inner.inner(folder, make=True))
        inner.write(last, content)
