"""Writes the skeleton of a congestion control: the C source, a paragraph of README and a test."""

from __future__ import annotations

import datetime
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from weir import _weir
from weir.cc.errors import ControlError

__all__ = ["write_skeleton"]

_SKELETON = Path(__file__).with_name("skeleton")
_MOST = 10
"""Characters of a name; a kernel's name is ``weir_`` and at most 10 more."""
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_TAKEN = re.compile(
    "auto|bpf|break|case|char|const|continue|default|do|double|else|enum|extern|float|for|goto|if|inet|inline|int|long|"
    "proto|register|restrict|return|short|signed|sizeof|sock|static|struct|switch|tcp|typedef|typeof|union|unsigned|"
    "void|volatile|weir|while"
)
"""Words of C, and beginnings of the names of Linux' functions: the functions of the skeleton begin with the name."""


def write_skeleton(name: str, folder: Path) -> list[Path]:
    """Writes ``NAME.c``, ``NAME.md`` and ``test_NAME.py`` into ``folder``; returns their paths.

    Raises:
        ControlError: ``name`` cannot be a control's name, a file exists, or one cannot be written. Nothing is written
            then.
    """
    if (why := _objection(name)) is not None:
        raise ControlError(why)
    identifier = name.replace("-", "_")
    file, test = f"{name}.c", f"test_{identifier}.py"
    words = {"name": name, "id": identifier, "ID": identifier.upper(), "file": file, "test": test,
             "year": str(datetime.date.today().year)}  # fmt: skip
    parts = {folder / file: "control.c", folder / f"{name}.md": "readme.md", folder / test: "test.txt"}
    if existing := [path.name for path in parts if os.path.lexists(path)]:
        verb = "exist" if len(existing) > 1 else "exists"
        raise ControlError(f"{' and '.join(existing)} already {verb} in {folder}: choose another name or folder")
    texts = {path: _filled(_SKELETON / part, words) for path, part in parts.items()}
    written: list[Path] = []
    try:
        for path, text in texts.items():
            with path.open("x", encoding="utf-8") as out:
                written.append(path)
                out.write(text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise ControlError(f"{error.filename}: {error.strerror}") from None
    return written


def _objection(name: str) -> str | None:
    """Why a control cannot be called ``name``, if so."""
    if not _NAME.fullmatch(name) or len(name) > _MOST:
        return (
            f"{name!r} cannot be the name of a congestion control: expected at most {_MOST} characters of a-z, 0-9, - "
            "and _ that begin with a letter"
        )
    if _TAKEN.fullmatch(name):
        return f"{name!r} is a word of C or of Linux' TCP, and functions of the control begin with it: choose another"
    if any(cc["name"] == name for cc in json.loads(_weir.cc_everywhere())):
        return f"weir has a congestion control called {name!r} (`weir cc list`): choose another name"
    return None


def _filled(part: Path, words: dict[str, str]) -> str:
    """The text of a part of the skeleton, with the name in it."""
    text = part.read_text(encoding="utf-8")
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    continued = itertools.groupby(text.split("\n"), key=lambda line: line.endswith("\\"))
    return "\n".join(line for is_macro, lines in continued for line in (_aligned(lines) if is_macro else lines))


def _aligned(lines: Iterable[str]) -> Iterator[str]:
    """The lines of a macro with their backslashes below each other, as clang-format puts them in ``cc/``."""
    contents = [line[:-1].rstrip() for line in lines]
    widths = [len(content.expandtabs(8)) for content in contents]
    return (f"{content}{' ' * (max(widths) - width)} \\" for content, width in zip(contents, widths, strict=True))
