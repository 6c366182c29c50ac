"""Checksums of a run's files: they detect accidental damage, not an author who also rewrites the checksums.

A manifest names its files with their sizes and checksums, and holds a checksum of its own content:

    "checksums": {"algorithm": "xxh3-128", "files": {"plan.json": {"bytes": 18596, "digest": "..."}}, "manifest": "..."}

XXH3 because it is as fast as memory (a cryptographic hash is not), and 128 bits because a run has many files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir import _weir
from weir._inside import InsideError, open_plain
from weir.run.documents import Fields
from weir.run.errors import DamageError, RunError
from weir.run.printable import printable

__all__ = [
    "ALGORITHM",
    "FORMAT",
    "Checksum",
    "Checksums",
    "checksum_of",
    "checksum_of_bytes",
    "checksums_in",
    "damage",
    "forget",
    "seal",
]

ALGORITHM = "xxh3-128"
FORMAT = 2
"""First format of manifests with checksums: a manifest of this format without them has lost them."""
_KEY = "checksums"


@dataclass(frozen=True)
class Checksum:
    """The size of a file and the checksum of its content."""

    bytes: int
    digest: str


@dataclass(frozen=True)
class Checksums:
    """A manifest's checksums of the files beside it, and of its own content."""

    files: Mapping[str, Checksum]
    manifest: str


def checksum_of(file: Path) -> Checksum:
    """The checksum of ``file``.

    Raises:
        OSError: it cannot be read.
    """
    return Checksum(*_weir.digest_file(file))


def checksum_of_bytes(content: bytes) -> Checksum:
    """The checksum of a file with this ``content``."""
    return Checksum(len(content), _weir.digest_bytes(content))


def seal(manifest: Mapping[str, Any], folder: Path, names: Iterable[str]) -> dict[str, Any]:
    """Adds to ``manifest`` the checksums of the files ``names`` in ``folder``, and its own.

    Raises:
        OSError: a file cannot be read.
    """
    found = {name: checksum_of(folder / name) for name in sorted(names)}
    files = {name: {"bytes": one.bytes, "digest": one.digest} for name, one in found.items()}
    content = {k: v for k, v in manifest.items() if k != _KEY} | {_KEY: {"algorithm": ALGORITHM, "files": files}}
    return content | {_KEY: {**content[_KEY], "manifest": _digest(content)}}


def checksums_in(file: Path, manifest: Mapping[str, Any]) -> Checksums | None:
    """The checksums in the ``manifest`` that was read from ``file``; ``None`` if it was written without.

    Raises:
        DamageError: the manifest does not match its own checksum.
        RunError: its checksums are malformed, or of an algorithm that this version does not know.
    """
    if _KEY not in manifest:
        if manifest.get("format", 1) == 1:
            return None
        raise DamageError(file, "is damaged: it has lost its checksums")
    fields = Fields(file, manifest).object(_KEY)
    if fields.text("algorithm") != ALGORITHM:
        raise fields.wrong("algorithm", ALGORITHM)
    files = {name: _checksum(fields.object("files").object(name), name) for name in fields.object("files").raw}
    found = Checksums(files, fields.text("manifest"))
    content = {**manifest, _KEY: {k: v for k, v in fields.raw.items() if k != "manifest"}}
    if _digest(content) != found.manifest:
        raise DamageError(file, "is damaged: its content is not what was written")
    return found


def _checksum(fields: Fields, name: str) -> Checksum:
    if "\0" in name or not {"", ".", ".."}.isdisjoint(name.split("/")):
        raise RunError(fields.file, f"names the file {printable(name)!r}", "a file within its folder")
    return Checksum(fields.integer("bytes"), fields.text("digest"))


_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def _digest(content: Mapping[str, Any]) -> str:
    # ASCII, because a text may contain code points that UTF-8 does not encode, such as the bytes of a path.
    return _weir.digest_bytes(_canonical(content).encode("ascii"))


_intact: dict[str, tuple[Checksum, tuple[int, int, int, int]]] = {}
"""Files found intact, with their state then (``_weir.plain_file``); a process reads each file once."""


def forget() -> None:
    """Forgets which files were found intact, for tests."""
    _intact.clear()


def damage(folder: Path, name: str, wanted: Checksum, *, content: bool = True) -> str | None:
    """Describes the damage of the file ``name`` in ``folder``; ``None`` if it is intact.

    Without ``content``, checks only that it exists and has the right size.
    """
    if "/" not in name and _is_right(f"{folder!s}/{name}", wanted, content=content):
        return None
    return _problem(folder, name, wanted, content=content)


def _is_right(file: str, wanted: Checksum, *, content: bool) -> bool:
    """Whether ``file`` is intact, in at most two system calls, because most files are; does not find the reason."""
    now = _weir.plain_file(file)
    if now is None or now[1] != wanted.bytes:
        return False
    if not content or _intact.get(file) == (wanted, now):
        return True
    found = _weir.digest_plain(file)
    if found is None or Checksum(found[0][1], found[1]) != wanted:
        return False
    _intact[file] = wanted, found[0]
    return True


def _problem(folder: Path, name: str, wanted: Checksum, *, content: bool) -> str | None:
    try:
        with open_plain(folder, name) as opened:
            # The very file that was verified to be a plain one, whatever has its name by now.
            own = Path(f"/proc/self/fd/{opened.fileno()}")
            size = own.stat().st_size
            if size != wanted.bytes:
                return f"is damaged: it has {size} bytes instead of {wanted.bytes}"
            if content and checksum_of(own) != wanted:
                return "is damaged: its content is not what was written"
    except InsideError as error:
        return f"{error.problem} instead of {error.expected}"
    except (FileNotFoundError, NotADirectoryError):
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return None
