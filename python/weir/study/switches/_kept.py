"""Trials of a real switch that an interrupted characterisation leaves: the next call continues after them."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

__all__ = ["KeptTrials"]

_ENDING = ".json.zst"


class KeptTrials:
    """What testers saw, a file for each execution of a trial, in the order in which equal ones were executed.

    A characterisation asks for the same trials if it sees the same, so that those of an interrupted one can stand for
    the first ones of the next.
    """

    def __init__(self, folder: Path, *, anew: bool = False) -> None:
        """The trials in ``folder``, which need not exist; with ``anew``, they are removed.

        Raises:
            OSError: the folder cannot be read.
        """
        self._folder = folder
        self._executed: Counter[str] = Counter()
        if anew:
            self.remove()
        files = list(folder.glob(f"*{_ENDING}")) if folder.is_dir() else []
        self.left = len(files)
        """The executions that an earlier call has left."""
        self.until = max((datetime.fromtimestamp(file.stat().st_mtime, UTC) for file in files), default=None)
        """When the last of them ended."""

    def execution(self, trial: Mapping[str, Any], execute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What is kept of the next execution of ``trial``, or else what ``execute`` returns, which is kept then.

        Raises:
            OSError: it cannot be kept.
        """
        key = hashlib.blake2b(json.dumps(trial, sort_keys=True).encode(), digest_size=12).hexdigest()
        file = self._folder / f"{key}-{self._executed[key]}{_ENDING}"
        self._executed[key] += 1
        found = _read(file)
        if found is None:
            found = execute()
            self._folder.mkdir(parents=True, exist_ok=True)
            unfinished = file.with_suffix(".tmp")
            with pa.output_stream(str(unfinished), compression="zstd") as out:
                out.write(json.dumps(found).encode())
            unfinished.replace(file)
        return found

    def remove(self) -> None:
        """Removes them all."""
        if self._folder.is_dir():
            shutil.rmtree(self._folder, ignore_errors=True)


def _read(file: Path) -> dict[str, Any] | None:
    """What a file says; none if there is none, or if it says nothing, as after a crash of the machine."""
    try:
        with pa.input_stream(str(file), compression="zstd") as content:
            found = json.loads(content.read())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
