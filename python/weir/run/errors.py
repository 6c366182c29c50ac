"""Errors of reading a run."""

from __future__ import annotations

from pathlib import Path

__all__ = ["RunError"]


class RunError(Exception):
    """A run cannot be read: ``path`` is where, ``problem`` what is wrong, ``expected`` what was expected there."""

    def __init__(self, path: Path, problem: str, expected: str = "") -> None:
        self.path = path
        self.problem = problem
        self.expected = expected
        super().__init__(f"{path}: {problem}" + (f"; expected {expected}" if expected else ""))
