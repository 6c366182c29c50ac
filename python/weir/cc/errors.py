"""What can go wrong with a user's congestion control."""

from __future__ import annotations

__all__ = ["ControlError"]


class ControlError(Exception):
    """A congestion control cannot be built, or does what it may not; the message names its file and may have lines."""

    @property
    def brief(self) -> str:
        """The message in one line: its first, with the next if it only announces that."""
        first, _, rest = str(self).partition("\n")
        return f"{first} {rest.lstrip().partition(chr(10))[0]}" if first.endswith(":") else first
