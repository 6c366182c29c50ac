"""What a kind of change is: how the value before is read, the new one made, and the old one restored."""

from __future__ import annotations

import abc
from typing import Any

from weir.deploy.node.base import Change

__all__ = ["Kind"]


class Kind(abc.ABC):
    @abc.abstractmethod
    def before(self, change: Change) -> Any:
        """The value now."""

    def is_so(self, change: Change, before: Any) -> bool:
        return bool(before == change["value"])

    @abc.abstractmethod
    def make(self, change: Change) -> None:
        """Gives it the value of ``change``."""

    def undo(self, change: Change, before: Any) -> None:
        self.make({**change, "value": before})
