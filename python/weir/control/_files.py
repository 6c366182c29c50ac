"""The files of a control in Python: its source, modules beside it that it imports, and data beside it that it names.

They decide what it does, so a hash of them identifies it. Nothing is executed: the source is parsed.
"""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["files", "identity", "is_python"]

_MAX_BYTES = 256 << 20
_MAX_FILES = 1000
_MAX_NAME = 255


def is_python(name: str) -> bool:
    """Whether ``name`` in a scenario is the path of a control in Python."""
    return name.endswith(".py")


def files(source: Path) -> list[Path]:
    """``source``, the modules in its folder that it imports, directly or not, and the files there that they name.

    A name is a text in the source such as ``"policy.json"``. Links are no such files: they may lead elsewhere.

    Raises:
        OSError: ``source`` cannot be read.
    """
    folder = source.parent
    found = {source: None}
    todo = [source]
    while todo:
        for path in _named(todo.pop(), folder):
            if path not in found and len(found) < _MAX_FILES:
                found[path] = None
                if path.suffix == ".py":
                    todo.append(path)
    return list(found)


def identity(source: Path) -> str:
    """A hash of the content of all files of the control in ``source``.

    Raises:
        OSError: a file cannot be read, or is too large.
    """
    total = hashlib.sha256()
    for path in sorted(files(source), key=lambda path: (path != source, str(path))):
        if path.stat().st_size > _MAX_BYTES:
            raise OSError(0, f"it has more than {_MAX_BYTES >> 20} MiB", str(path))
        name = b"" if path == source else os.fsencode(path.relative_to(source.parent))
        for part in (name, path.read_bytes()):
            total.update(len(part).to_bytes(8, "little") + part)
    return f"sha256:{total.hexdigest()}"


def _named(module: Path, folder: Path) -> Iterator[Path]:
    """The files below ``folder`` that the source of ``module`` imports or names."""
    try:
        tree = ast.parse(module.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return  # the error of its execution says where
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _module(folder, alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = module.parent if node.level else folder
            yield from _module(base, node.module or "")
            for alias in node.names:
                yield from _module(base, f"{node.module}.{alias.name}" if node.module else alias.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _plain(folder, folder / node.value if _is_name(node.value) else folder)


def _is_name(text: str) -> bool:
    return 0 < len(text) <= _MAX_NAME and "\0" not in text and not text.startswith("/")


def _module(base: Path, dotted: str) -> Iterator[Path]:
    """The files that an import of ``dotted`` executes, as far as they are below ``base``."""
    place = base
    for part in filter(None, dotted.split(".")):
        place = place / part
        yield from _plain(base, place / "__init__.py")
        yield from _plain(base, place.with_name(f"{part}.py"))


def _plain(folder: Path, path: Path) -> Iterator[Path]:
    """``path``, if it is a plain file below ``folder`` that no link leads to."""
    try:
        if path.is_file() and path.resolve() == folder.resolve() / path.relative_to(folder):
            yield path
    except (OSError, ValueError):
        return
