"""Reads JSON documents of a run within limits, and their fields with types.

A damaged or hostile document raises a :class:`RunError` that names file and field, whatever it holds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from weir._inside import InsideError, read_plain
from weir.run.errors import RunError
from weir.run.printable import printable

__all__ = ["MAX_NS", "Fields", "read_document"]

MAX_NS = 1 << 60
"""Longest time that a document may contain, 36 years: sums of a few such times still fit 64 bits."""

_MAX_BYTES = 1 << 28
_MAX_DEPTH = 64
_SHOWN = 40

Value = TypeVar("Value")


def read_document(file: Path) -> tuple[bytes, dict[str, Any]]:
    """The content of ``file`` and the JSON object in it.

    Raises:
        RunError: it is missing, too large, nested too deeply, or no JSON object.
    """
    try:
        content = read_plain(file, _MAX_BYTES)
        value = json.loads(content)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise RunError(file, "is missing", "a JSON object") from error
    except InsideError as error:
        raise RunError(file, error.problem, error.expected) from error
    except RecursionError as error:
        raise RunError(file, "is nested too deeply", f"at most {_MAX_DEPTH} levels") from error
    except (OSError, ValueError) as error:
        raise RunError(file, f"cannot be read: {printable(str(error))}", "a JSON object") from error
    if not isinstance(value, dict):
        raise RunError(file, "is not a JSON object", "a JSON object")
    if _deeper(value, _MAX_DEPTH):
        raise RunError(file, "is nested too deeply", f"at most {_MAX_DEPTH} levels")
    return content, value


def _deeper(value: Any, levels: int) -> bool:
    layer = [value]
    for _ in range(levels):
        layer = [
            inner
            for outer in layer
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not layer:
            return False
    return True


class Fields:
    """An object of a document; each method returns a field of one type.

    Every method raises :class:`RunError` if the field is missing without a ``default``, or has another type.
    """

    __slots__ = ("_place", "file", "raw")

    def __init__(self, file: Path, raw: Mapping[str, Any], place: str = "") -> None:
        self.file = file
        self._place = place
        self.raw = raw

    def integer(self, name: str, low: int = 0, high: int = MAX_NS) -> int:
        """An integer from ``low`` to ``high``."""
        value = self.raw.get(name)
        if type(value) is not int or not low <= value <= high:
            raise self._wrong(name, f"an integer from {low} to {high}")
        return value

    def number(self, name: str) -> float:
        """A finite number that is not negative."""
        value = self.raw.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise self._wrong(name, "a number that is not negative")
        return float(value)

    def text(self, name: str) -> str:
        """A text."""
        value = self.raw.get(name)
        if type(value) is not str:
            raise self._wrong(name, "a text")
        return value

    def truth(self, name: str) -> bool:
        """``true`` or ``false``."""
        value = self.raw.get(name)
        if type(value) is not bool:
            raise self._wrong(name, "true or false")
        return value

    def object(self, name: str) -> Fields:
        """An object."""
        value = self.raw.get(name)
        if type(value) is not dict:
            raise self._wrong(name, "an object")
        return Fields(self.file, value, self._path(name))

    def items(self, name: str) -> list[Any]:
        """A list of anything."""
        value = self.raw.get(name)
        if type(value) is not list:
            raise self._wrong(name, "a list")
        return value

    def objects(self, name: str) -> Iterator[Fields]:
        """A list of objects."""
        for number, value in enumerate(self.items(name)):
            if type(value) is not dict:
                raise self._wrong(f"{name}[{number}]", "an object", value)
            yield Fields(self.file, value, self._path(f"{name}[{number}]"))

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        values = self.items(name)
        for number, value in enumerate(values):
            if type(value) is not str:
                raise self._wrong(f"{name}[{number}]", "a text", value)
        return tuple(values)

    def indices(self, name: str, count: int) -> tuple[int, ...]:
        """A list of indices of ``count`` things."""
        values = self.items(name)
        for number, value in enumerate(values):
            if type(value) is not int or not 0 <= value < count:
                raise self._wrong(f"{name}[{number}]", f"an integer from 0 to {count - 1}", value)
        return tuple(values)

    def words(self, name: str) -> dict[str, str]:
        """An object of texts, numbers and truth values, all converted to text."""
        found = {}
        for key, value in self.object(name).raw.items():
            if type(value) not in (str, int, float, bool):
                raise self._wrong(f"{name}.{key}", "a text or a number", value)
            found[key] = str(value)
        return found

    def maybe(self, take: Callable[..., Value], name: str, *arguments: Any) -> Value | None:
        """The result of ``take``; ``None`` if the field is missing or null."""
        return None if self.raw.get(name) is None else take(name, *arguments)

    def wrong(self, name: str, expected: str) -> RunError:
        """The error of a field that differs from what was expected."""
        return self._wrong(name, expected)

    def _path(self, name: str) -> str:
        return f"{self._place}.{name}" if self._place else name

    def _wrong(self, name: str, expected: str, value: Any = None) -> RunError:
        place = printable(self._path(name))
        if value is None and name not in self.raw:
            return RunError(self.file, f"lacks the field {place}", expected)
        return RunError(self.file, f"{place} is {_shown(self.raw.get(name) if value is None else value)}", expected)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = printable(repr(value))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
