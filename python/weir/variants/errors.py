"""What can go wrong when congestion controls are compared."""

from __future__ import annotations

__all__ = ["VariantError"]


class VariantError(Exception):
    """The comparison cannot be made."""
