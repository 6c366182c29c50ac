"""The error of inventories."""

from __future__ import annotations

from collections.abc import Iterable

from weir.scenario.language import Problem

__all__ = ["InventoryError"]


class InventoryError(ValueError):
    """An inventory cannot be used; ``problems`` has every reason, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))
