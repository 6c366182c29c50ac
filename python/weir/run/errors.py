"""Errors of reading a run."""

from __future__ import annotations

from pathlib import Path

from weir.run.printable import printable

__all__ = ["DamageError", "ReadError", "RunError"]


class ReadError(Exception):
    """Something of a run cannot be read: ``path`` is where, ``problem`` what is wrong, ``expected`` what should be."""

    def __init__(self, path: Path, problem: str, expected: str = "") -> None:
        self.path = path
        self.problem = problem
        self.expected = expected
        super().__init__(f"{printable(path)}: {problem}" + (f"; expected {expected}" if expected else ""))


class RunError(ReadError):
    """A run, or a part of it, is not what it should be; readers of several parts may go on without this one."""


class DamageError(ReadError):
    """A file is not what was written: figures without it would be others, so no reader goes on."""

    REMEDY = (
        "The same `weir run` again executes damaged cells anew; --no-verify (verify=False) reads the rest as it is."
    )

    def __str__(self) -> str:
        """What is damaged, and what to do."""
        return f"{super().__str__()}. {self.REMEDY}"
