"""What goes wrong with a validation."""

from __future__ import annotations

__all__ = ["ValidateError"]


class ValidateError(Exception):
    """A validation was asked for that cannot be done; the message says why."""
