"""Where the programs are that execute plans on real machines: ``weir-agent``, ``weir-emu``, ``weir-bpf``.

They come with weir in ``weir/bin``; ``make setup`` builds them, a wheel brings them. The environment variable
``WEIR_BIN`` names another folder.
"""

from __future__ import annotations

import os
from pathlib import Path

import weir
from weir.methods import MethodError

__all__ = ["MissingBinaryError", "find", "folder"]


class MissingBinaryError(MethodError):
    """A program that comes with weir is not there."""


def folder() -> Path:
    """The folder that holds the programs; it need not exist."""
    named = os.environ.get("WEIR_BIN")
    return Path(named) if named else Path(weir.__file__).parent / "bin"


def find(name: str) -> Path:
    """The program ``name``, such as ``weir-agent``.

    Raises:
        MissingBinaryError: it is not there, or cannot be executed.
    """
    path = folder() / name
    if not os.access(path, os.X_OK) or path.is_dir():
        raise MissingBinaryError(f"{path} is missing: `make setup` builds it (WEIR_BIN names another folder)")
    return path.absolute()
