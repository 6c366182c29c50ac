"""The folder of a test bed: where it is, whom it belongs to, and what is in it.

``bed.json`` has the facts, ``inventory.yaml`` the inventory, ``config`` what ``ssh -F`` wants, ``known_hosts`` the keys
of the nodes, ``id_ed25519`` the key that opens them, ``log`` what the supervisor said and ``logs`` what each ``sshd``
said. ``owner`` has the tag of the supervisor (:mod:`weir._owner`).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from weir import _owner, _seal
from weir._files import write_atomic
from weir._owner import Tag
from weir._remove import remove_tree
from weir.testbed._errors import TestbedError

__all__ = [
    "FACTS",
    "LOG",
    "OWNER",
    "VERSION",
    "answer",
    "claim",
    "facts_of",
    "folder_of",
    "inventory_of",
    "lock_file",
    "names",
    "owner_of",
    "place",
    "take_answer",
    "want",
    "wanted",
    "write_facts",
]

OWNER = "owner"
FACTS = "bed.json"
LOG = "log"
_WANTED, _ANSWERS = "wanted", "answers"
"""Folders: a file is a node that is to be started, or what came of it."""
VERSION = 4
"""Of the form of ``bed.json``."""


def place() -> Path:
    """The folder of all test beds of this user; it need not exist."""
    return _seal.folder() / "testbed"


def folder_of(name: str) -> Path:
    """The folder of the test bed ``name``; it need not exist."""
    return place() / name


def inventory_of(name: str) -> Path:
    """The inventory of the test bed ``name``; it need not exist."""
    return folder_of(name) / "inventory.yaml"


def lock_file() -> Path:
    """The file that is locked while a test bed chooses its network."""
    return place() / ".lock"


def names() -> list[str]:
    """All test beds of this user, those without an owner as well."""
    if not place().is_dir():
        return []
    return sorted(path.name for path in place().iterdir() if not path.name.startswith(".") and path.is_dir())


def owner_of(folder: Path) -> Tag | None:
    """The tag of its supervisor, alive or not; ``None`` if it is no test bed of this user."""
    with contextlib.suppress(OSError):
        return _owner.parse((folder / OWNER).read_text(encoding="utf-8").strip())
    return None


def claim(name: str, tag: Tag) -> Path:
    """Makes the folder of the test bed ``name`` for the owner ``tag``.

    Raises:
        TestbedError: there is a test bed of that name.
        OSError: it cannot be made.
    """
    place().mkdir(parents=True, exist_ok=True, mode=0o700)
    made = _owner.make_folder(place(), f".{name}-")
    try:
        (made / OWNER).write_text(f"{tag}\n", encoding="ascii")
        for inner in ("stage", "logs", _WANTED, _ANSWERS):
            (made / inner).mkdir(mode=0o700)
        folder = folder_of(name)
        made.rename(folder)  # onto an empty folder at most
    except OSError as error:
        remove_tree(made)
        if folder_of(name).exists():
            raise TestbedError(f"--name: there is a test bed {name!r}; expected another name") from error
        raise
    return folder


def write_facts(folder: Path, facts: Mapping[str, Any]) -> None:
    """Writes ``bed.json`` atomically.

    Raises:
        OSError: it cannot be written.
    """
    write_atomic(folder / FACTS, json.dumps(facts, indent=1) + "\n")
    (folder / FACTS).chmod(0o600)


def facts_of(folder: Path) -> dict[str, Any] | None:
    """The content of ``bed.json``; ``None`` if the test bed is not up, or not yet."""
    with contextlib.suppress(OSError, ValueError):
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        return facts if isinstance(facts, dict) else None
    return None


def want(folder: Path, node: str) -> None:
    """Has the supervisor, when it is woken, start ``node``.

    Raises:
        OSError: it cannot be told.
    """
    (folder / _ANSWERS / node).unlink(missing_ok=True)
    (folder / _WANTED / node).touch()


def wanted(folder: Path) -> list[str]:
    """The nodes that are to be started."""
    return sorted(path.name for path in (folder / _WANTED).iterdir())


def answer(folder: Path, node: str, why: str | None) -> None:
    """Says that ``node`` is started, or why it is not.

    Raises:
        OSError: it cannot be said.
    """
    write_atomic(folder / _ANSWERS / node, why or "")
    (folder / _WANTED / node).unlink(missing_ok=True)


def take_answer(folder: Path, node: str) -> str | None:
    """What was answered: nothing if ``node`` was started, else why not; ``None``: nothing yet."""
    path = folder / _ANSWERS / node
    try:
        said = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    path.unlink(missing_ok=True)
    return said


def unfinished() -> Iterator[Path]:
    """Folders that were made and never named, because their maker was killed."""
    if place().is_dir():
        for path in place().iterdir():
            tag = _owner.find(path.name.lstrip("."), prefix="", suffix="") if path.name.startswith(".") else None
            if tag is not None and not tag.alive:
                yield path
