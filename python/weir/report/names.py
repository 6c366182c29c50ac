"""Names of cell folders: made of the factors, unique, and within the limits of a file system."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from weir._inside import Folder
from weir.run.printable import printable

__all__ = ["INDEX", "as_text", "folder_names", "write_index"]

INDEX = "index.csv"
"""The file that maps folders to factor values."""

_MAX_LENGTH = 100
_DIGITS = 10
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\\t", "\\x0d", "\\n")
"""Beginnings of formulas, including wide letters, and after the blanks that :func:`printable` writes out."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_OTHERS = re.compile(r"[^A-Za-z0-9.+-]+")


def folder_names(cells: Sequence[Mapping[str, str]]) -> list[str]:
    """Returns a name for each combination of factors, such as ``cc-reno_rtt-100ms``.

    Characters that some file system or shell rejects become ``_``. If the name is then empty, too long, or equal to
    another up to case, a hash of the factors is appended; it is the same in every report of the run.
    """
    plain = [_plain(factors) for factors in cells]
    count = Counter(name.casefold() for name in plain)
    return [
        name if 0 < len(name) <= _MAX_LENGTH and count[name.casefold()] == 1 else _hashed(name, factors)
        for name, factors in zip(plain, cells, strict=True)
    ]


def _plain(factors: Mapping[str, str]) -> str:
    return _OTHERS.sub("_", "_".join(f"{name}-{value}" for name, value in factors.items())).strip("._")


def _hashed(name: str, factors: Mapping[str, str]) -> str:
    digest = hashlib.blake2s(json.dumps(dict(factors)).encode()).hexdigest()[:_DIGITS]
    return f"{name[: _MAX_LENGTH - _DIGITS - 1]}-{digest}".lstrip("-")


def write_index(folder: Path | Folder, names: Sequence[str], cells: Sequence[Mapping[str, str]]) -> Path:
    """Writes the table of folders and their factor values; returns its path.

    Raises:
        OSError: it cannot be written.
    """
    factors = list(dict.fromkeys(name for cell in cells for name in cell))
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["folder", *map(as_text, factors)])
    table.writerows(
        [name, *(as_text(cell.get(factor, "")) for factor in factors)] for name, cell in zip(names, cells, strict=True)
    )
    with Folder.at(folder) as place:
        return place.write(INDEX, text.getvalue().encode(), durable=False)


def as_text(text: str) -> str:
    r"""``text`` as a cell of a table that a spreadsheet may open: never a formula, and nothing that a terminal obeys.

    A text that begins as formulas do gets a ``'`` before it (OWASP, CSV Injection), unless it is a number; controls are
    written out: ``\x1b``.
    """
    safe = printable(text)
    return f"'{safe}" if safe.startswith(_FORMULA) and _NUMBER.fullmatch(safe) is None else safe
