"""Records of reservations, each written before its nodes are asked for, and removed when they are given back.

They are in the user's private state, next to the key of :mod:`weir._seal`, one file each. The file's name is also the
reservation's name at the scheduler. It has the tag of its owner (:mod:`weir._owner`), so that a reservation whose
number was lost is found by its name, and one whose owner is dead is known as such.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from weir import _owner
from weir._files import write_atomic
from weir._seal import folder
from weir.reserve._request import Request, parse, to_json
from weir.reserve.errors import ReserveError

__all__ = ["Record", "fetch", "file", "new", "place", "records", "remove", "renew"]

_MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class Record:
    """A reservation, as it is written down."""

    name: str
    """``weir-TAG``: also the scheduler's name for it."""
    request: Request
    made_s: float
    """When it was asked for, seconds since 1970."""
    identity: str = ""
    """The scheduler's id; empty while that has not answered."""
    inventory: str = ""
    """The inventory for which it is kept beyond the life of its process, by absolute path; empty: it is not."""
    alias: str = ""
    """The set of nodes that it is for."""

    @property
    def alive(self) -> bool:
        """Whether it is in use: its process runs, or it is kept."""
        tag = _owner.find(self.name, suffix="")
        return bool(self.inventory) or (tag is not None and tag.alive)

    @property
    def age_s(self) -> float:
        """Seconds since it was asked for."""
        return time.time() - self.made_s


def place() -> Path:
    """The folder of the records; it need not exist."""
    return folder() / "reservations"


def new(request: Request, alias: str = "") -> Record:
    """A record of this process', written.

    Raises:
        ReserveError: it cannot be written; then nothing may be reserved.
    """
    record = Record(f"weir-{_owner.new()}", request, time.time(), alias=alias)
    try:
        place().mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(record)
    except OSError as error:
        text = f"{error.filename or place()}: {error.strerror}; what is reserved is written down there before"
        raise ReserveError(text) from error
    return record


def renew(record: Record, **changes: Any) -> Record:
    """Changes fields of a record.

    Raises:
        OSError: it cannot be written; the old record stays.
    """
    changed = replace(record, **changes)
    _write(changed)
    return changed


def remove(record: Record) -> None:
    """Removes a record; it may be gone already."""
    file(record).unlink(missing_ok=True)


def fetch(name: str) -> Record | None:
    """The record ``name``; ``None`` if there is none, or no record that this user's weir wrote."""
    if _owner.find(name, suffix="") is None:
        return None
    try:
        with _named(name).open("rb") as stream:
            said = json.loads(stream.read(_MAX_BYTES))
        return Record(
            name,
            parse(said["request"]),
            float(said["made_s"]),
            str(said["id"]),
            str(said["inventory"]),
            str(said["alias"]),
        )
    except (OSError, ValueError, TypeError, KeyError, ReserveError):
        return None


def records() -> Iterator[Record]:
    """All records, the oldest first."""
    names = [path.stem for path in place().glob("weir-*.json")] if place().is_dir() else []
    found = (record for name in names if (record := fetch(name)) is not None)
    yield from sorted(found, key=lambda record: (record.made_s, record.name))


def file(record: Record) -> Path:
    """The file of a record."""
    return _named(record.name)


def _named(name: str) -> Path:
    return place() / f"{name}.json"


def _write(record: Record) -> None:
    said = {
        "request": to_json(record.request),
        "made_s": record.made_s,
        "id": record.identity,
        "inventory": record.inventory,
        "alias": record.alias,
    }
    write_atomic(file(record), json.dumps(said, indent=2) + "\n")
