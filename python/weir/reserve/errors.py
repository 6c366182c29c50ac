"""Errors of reservations."""

from __future__ import annotations

from weir._errors import MethodError

__all__ = ["RequestError", "ReserveError"]


class ReserveError(MethodError):
    """Nodes could not be reserved, asked for or released; the message has the scheduler's own words."""


class RequestError(ReserveError):
    """A request is wrong."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(f"{key}: {text}" if key else text)
        self.key = key
        """The key of the request that is wrong; empty if it is the whole request."""
        self.text = text
        """What is wrong with it, and what was expected."""
