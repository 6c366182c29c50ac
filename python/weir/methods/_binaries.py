"""Where the programs are that execute plans on real machines, for methods: :mod:`weir._programs` with their errors."""

from __future__ import annotations

from pathlib import Path

from weir import _programs
from weir.methods import UnavailableError

__all__ = ["MissingBinaryError", "find", "folder"]

folder = _programs.folder


class MissingBinaryError(UnavailableError):
    """A program that comes with weir is not there, or cannot run here."""


def find(name: str) -> Path:
    """The program ``name``, such as ``weir-agent``.

    Raises:
        MissingBinaryError: it is not there, cannot be executed, or is one for another kind of machine.
    """
    try:
        return _programs.find(name)
    except _programs.ProgramError as error:
        raise MissingBinaryError(str(error)) from error
