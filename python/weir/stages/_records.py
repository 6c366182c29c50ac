"""Records of what hooks have to undo, each written before the hook is started, and removed when all of it is undone.

They are in the user's private state, next to the key of :mod:`weir._seal`, one file for each run. The file's name has
the tag of its owner (:mod:`weir._owner`): one whose owner is dead is what a killed run has left.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from weir import _owner
from weir._files import write_atomic
from weir._seal import folder
from weir.stages._call import Program
from weir.stages.errors import HookError

__all__ = ["Entry", "Record", "records"]

_MAX_BYTES = 1 << 28


@dataclass(frozen=True)
class Entry:
    """An executable that is called at stage ``clean``."""

    program: Program
    stage: str
    """At which it was started; ``clean``: it is called then only."""
    undo: Mapping[str, Any] | None = None
    """What it answered; ``None``: nothing is known, because its answer is missing, or it has none."""
    cell: Mapping[str, Any] | None = None
    """For which it was started."""


@dataclass
class Record:
    """What is to be undone for one run, in the order in which it was done."""

    name: str
    question: Mapping[str, Any]
    """What hooks are told at every stage."""
    kept: bool = False
    """Whether it outlives its process on purpose: stages that a user called alone."""
    made_s: float = field(default_factory=time.time)
    entries: list[Entry] = field(default_factory=list)

    @classmethod
    def new(cls, question: Mapping[str, Any], *, kept: bool = False) -> Record:
        """A record of this process', not yet written."""
        return cls(f"weir-{_owner.new()}", question, kept)

    @property
    def alive(self) -> bool:
        """Whether the process that made it runs."""
        tag = _owner.find(self.name, suffix="")
        return tag is not None and tag.alive

    @property
    def inventory(self) -> str:
        """The absolute path of its inventory."""
        return str(self.question["inventory"])

    @property
    def run(self) -> Path | None:
        """The folder of its run."""
        run = self.question["run"]
        return None if run is None else Path(run)

    def add(self, entry: Entry) -> None:
        """Adds an entry, durably.

        Raises:
            HookError: it cannot be written; then nothing may be started.
        """
        self._write([*self.entries, entry])

    def renew(self, entry: Entry, undo: Mapping[str, Any] | None) -> None:
        """The last entry is ``entry``, and has answered: it is kept if it has something to undo that is new.

        The same to be undone by the same executable is written once: the first time is the one that counts, because it
        is undone last.
        """
        before = [one for one in self.entries if one is not entry]
        known = any((one.program, one.undo) == (entry.program, undo) for one in before)
        self._write(before if undo is None or known else [*before, replace(entry, undo=undo)])

    def drop(self, entry: Entry) -> None:
        """Forgets an entry."""
        self._write([one for one in self.entries if one is not entry])

    def remove(self) -> None:
        """Removes the file; it may be gone already."""
        _file(self.name).unlink(missing_ok=True)

    def _write(self, entries: list[Entry]) -> None:
        said = {
            "question": dict(self.question),
            "kept": self.kept,
            "made_s": self.made_s,
            "entries": [asdict(entry) for entry in entries],
        }
        try:
            _place().mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomic(_file(self.name), json.dumps(said, indent=1) + "\n")
        except OSError as error:
            text = f"{error.filename or _place()}: {error.strerror}; what hooks have to undo is written there before"
            raise HookError(text) from error
        self.entries = entries


def records(inventory: Path | str) -> Iterator[Record]:
    """The records of an inventory, the youngest first: it is undone first."""
    place = str(Path(inventory).absolute())
    names = [path.stem for path in _place().glob("weir-*.json")] if _place().is_dir() else []
    found = [record for name in names if (record := _fetch(name)) is not None and record.inventory == place]
    yield from sorted(found, key=lambda record: -record.made_s)


def _fetch(name: str) -> Record | None:
    """The record ``name``; ``None`` if there is none, or no record that this user's weir wrote."""
    if _owner.find(name, suffix="") is None:
        return None
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError), _file(name).open("rb") as stream:
        said = json.loads(stream.read(_MAX_BYTES))
        entries = [_entry(one) for one in said["entries"]]
        record = Record(name, said["question"], bool(said["kept"]), float(said["made_s"]), entries)
        if isinstance(record.inventory, str) and (record.run is None or record.run.is_absolute()):
            return record
    return None


def _entry(said: Mapping[str, Any]) -> Entry:
    program = said["program"]
    made = Program(tuple(map(str, program["command"])), str(program["folder"]), float(program["limit_s"]))
    return Entry(made, str(said["stage"]), said["undo"], said["cell"])


def _place() -> Path:
    return folder() / "hooks"


def _file(name: str) -> Path:
    return _place() / f"{name}.json"
