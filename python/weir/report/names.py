"""Names of folders for cells: of their factors, different for each, and no longer than a file system takes."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["INDEX", "folder_names", "write_index"]

INDEX = "index.csv"
"""The file that says which folder is whose."""

_LONGEST = 100
_DIGITS = 10
_OTHERS = re.compile(r"[^A-Za-z0-9.+-]+")


def folder_names(cells: Sequence[Mapping[str, str]]) -> list[str]:
    """A name for each combination of factors, such as ``cc-reno_rtt-100ms``.

    Characters that some file system or shell does not take become ``_``. A name that is then empty, too long, or equal
    to another but for capitals ends with a hash of the factors; so it is the same in every report of the run.
    """
    plain = [_plain(factors) for factors in cells]
    count = Counter(name.casefold() for name in plain)
    return [
        name if 0 < len(name) <= _LONGEST and count[name.casefold()] == 1 else _hashed(name, factors)
        for name, factors in zip(plain, cells, strict=True)
    ]


def _plain(factors: Mapping[str, str]) -> str:
    return _OTHERS.sub("_", "_".join(f"{name}-{value}" for name, value in factors.items())).strip("._")


def _hashed(name: str, factors: Mapping[str, str]) -> str:
    digest = hashlib.blake2s(json.dumps(dict(factors)).encode()).hexdigest()[:_DIGITS]
    return f"{name[: _LONGEST - _DIGITS - 1]}-{digest}".lstrip("-")


def write_index(folder: Path, names: Sequence[str], cells: Sequence[Mapping[str, str]]) -> Path:
    """Writes which folder has the figures of which factors; the path.

    Raises:
        OSError: it cannot be written.
    """
    factors = list(dict.fromkeys(name for cell in cells for name in cell))
    with (folder / INDEX).open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["folder", *factors])
        table.writerows(
            [name, *(cell.get(factor, "") for factor in factors)] for name, cell in zip(names, cells, strict=True)
        )
    return folder / INDEX
