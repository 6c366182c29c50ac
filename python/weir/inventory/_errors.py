"""The error of inventories."""

from __future__ import annotations

from weir.language import ProblemsError

__all__ = ["InventoryError"]


class InventoryError(ProblemsError):
    """An inventory cannot be used; ``problems`` has every reason, in the order of the file."""
