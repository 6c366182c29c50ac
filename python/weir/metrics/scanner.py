"""Reads the text of a claim character by character and keeps the position for errors."""

from __future__ import annotations

import math
import re

from weir.run.quantity import ONE, UNITS, Dimension

__all__ = ["ExpectError", "Scanner"]

_SPACE = re.compile(r"\s*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_UNIT = re.compile("|".join(re.escape(u) for u in sorted(UNITS, key=len, reverse=True)))
_WORD = re.compile(r"\w")
_CALL = re.compile(r"\w|\s*[(.]|\s+over\b")
_END = "the end"


class ExpectError(Exception):
    """A claim cannot be read: ``message``, the 1-based ``column``, and the ``expected`` text there (may be empty)."""

    def __init__(self, message: str, column: int, expected: str = "") -> None:
        self.message = message
        self.column = column
        self.expected = expected
        super().__init__(f"column {column}: {message}" + (f"; expected {expected}" if expected else ""))


class Scanner:
    """A position in a text. Every reading method skips white space first."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def skip(self) -> int:
        """Skips white space; returns the position."""
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.at

    def done(self) -> bool:
        """Whether the text is read to its end."""
        return self.skip() == len(self.text)

    def here(self) -> str:
        """The text at the position, for an error."""
        self.skip()
        if self.at == len(self.text):
            return _END
        match = _NAME.match(self.text, self.at) or _NUMBER.match(self.text, self.at)
        return repr(match.group() if match else self.text[self.at])

    def fail(self, expected: str, message: str = "", at: int | None = None) -> ExpectError:
        """The error for finding anything but ``expected`` here (or at ``at``)."""
        found = message or f"found {self.here()}"
        return ExpectError(found, (self.at if at is None else at) + 1, expected)

    def sees(self, *symbols: str) -> str | None:
        """Returns the first of ``symbols`` at the position without reading it; a word must match as a whole."""
        self.skip()
        for symbol in symbols:
            end = self.at + len(symbol)
            if self.text.startswith(symbol, self.at):
                if symbol[-1].isalnum() and end < len(self.text) and _WORD.match(self.text, end):
                    continue
                return symbol
        return None

    def take(self, *symbols: str) -> str | None:
        """Reads the first of ``symbols`` at the position."""
        symbol = self.sees(*symbols)
        if symbol:
            self.at += len(symbol)
        return symbol

    def need(self, symbol: str) -> None:
        """Reads ``symbol``.

        Raises:
            ExpectError: the text at the position differs.
        """
        if not self.take(symbol):
            raise self.fail(repr(symbol))

    def name(self, what: str) -> str:
        """Reads a name.

        Raises:
            ExpectError: there is no name at the position; ``what`` describes the expected one.
        """
        self.skip()
        match = _NAME.match(self.text, self.at)
        if match is None:
            raise self.fail(what)
        self.at = match.end()
        return match.group()

    def number(self) -> tuple[float, Dimension, bool] | None:
        """Reads a number with its unit, if there is one: value in base units, dimension, whether it was in %."""
        self.skip()
        match = _NUMBER.match(self.text, self.at)
        if match is None:
            return None
        if math.isinf(float(match.group())):
            raise self.fail("a finite number", f"`{match.group()[:40]}` is too large")
        self.at = end = match.end()
        if self.sees("%"):
            self.at += 1
            return float(match.group()) / 100, ONE, True
        # No name can follow a number, so a unit may stand apart. `/s` must touch the number, else it is a division.
        if self.sees("/") or not _UNIT.match(self.text, self.at):
            self.at = end
        scale, dimension = self._unit()
        return float(match.group()) * scale, dimension, False

    def _unit(self) -> tuple[float, Dimension]:
        match = _UNIT.match(self.text, self.at)
        end = match.end() if match else self.at
        if match is not None and match.group().startswith("/") and _CALL.match(self.text, end):
            return 1.0, ONE  # a division: `1/slope(...)`, `1/min(...)`
        if end < len(self.text) and _WORD.match(self.text, end):
            word = _NAME.match(self.text, self.at)
            raise ExpectError(
                f"unknown unit {word.group() if word else self.text[self.at : end + 1]!r}",
                self.at + 1,
                "a unit such as Gbps, ms, s, MB, KiB, %, /s",
            ) from None
        if match is None:
            return 1.0, ONE
        self.at = end
        return UNITS[match.group()]

    def quoted(self) -> str | None:
        """Reads a text in quotes, if there is one.

        Raises:
            ExpectError: the closing quote is missing.
        """
        quote = self.sees('"', "'")
        if quote is None:
            return None
        end = self.text.find(quote, self.at + 1)
        if end < 0:
            raise self.fail(f"a closing {quote}", "a text in quotes does not end")
        value = self.text[self.at + 1 : end]
        self.at = end + 1
        return value

    def until(self, stops: str, what: str) -> str:
        """Reads up to one of the characters ``stops``, which is not consumed; returns the text stripped.

        Raises:
            ExpectError: there is no text before the stop, or no stop.
        """
        self.skip()
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in stops:
            self.at += 1
        value = self.text[start : self.at].strip()
        if not value or self.at == len(self.text):
            raise self.fail(what if not value else " or ".join(repr(s) for s in stops))
        return value
