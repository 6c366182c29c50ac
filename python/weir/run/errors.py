"""Errors of reading a run."""

from __future__ import annotations

from pathlib import Path

from weir.run.printable import printable

__all__ = ["DamageError", "ReadError", "RunError"]


class ReadError(Exception):
    """A part of a run cannot be read: ``path`` says where, ``problem`` what is wrong, ``expected`` what should be."""

    def __init__(self, path: Path, problem: str, expected: str = "") -> None:
        self.path = path
        self.problem = problem
        self.expected = expected
        super().__init__(f"{printable(path)}: {problem}" + (f"; expected {expected}" if expected else ""))


class RunError(ReadError):
    """A run, or a part of it, is malformed; readers of several parts may continue without this one."""


class DamageError(ReadError):
    """A file does not match its checksum. Results without it would be wrong, so no reader continues."""

    REMEDY = (
        "The same `weir run` again executes damaged cells anew; --no-verify (verify=False) reads the rest as it is."
    )

    def __str__(self) -> str:
        """The damage, and what to do."""
        return f"{super().__str__()}. {self.REMEDY}"
