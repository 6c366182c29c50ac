"""A log of bounded size: its beginning and its end."""

from __future__ import annotations

import threading

__all__ = ["Log"]

_HALF_BYTES = 1 << 17


class Log:
    """Keeps the first and the last 128 KiB of what it is given; threads may add to it and read it."""

    def __init__(self, half_bytes: int = _HALF_BYTES) -> None:
        """It is empty."""
        self._half = half_bytes
        self._first = bytearray()
        self._last = bytearray()
        self._left_out = 0
        self._lock = threading.Lock()

    def add(self, data: bytes) -> None:
        """Appends ``data``."""
        with self._lock:
            room = self._half - len(self._first)
            self._first += data[:room]
            self._last += data[room:]
            over = len(self._last) - self._half
            if over > 0:
                del self._last[:over]
                self._left_out += over

    def content(self) -> bytes:
        """What was kept; a line says how much was left out."""
        with self._lock:
            gap = f"\n[{self._left_out} bytes left out]\n".encode() if self._left_out else b""
            return bytes(self._first) + gap + bytes(self._last)
