"""Errors of users' congestion controls."""

from __future__ import annotations

__all__ = ["ControlError"]


class ControlError(Exception):
    """A congestion control cannot be built, or does something forbidden; the message names its file."""

    @property
    def brief(self) -> str:
        """The message in one line: its first, with the next if the first only announces it."""
        first, _, rest = str(self).partition("\n")
        return f"{first} {rest.lstrip().partition(chr(10))[0]}" if first.endswith(":") else first
