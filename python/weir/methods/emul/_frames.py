"""Reads what an agent or the emulator writes (``crates/weir-run``).

JSON objects, one a line; after the line of a table its columns, one after the other, after that of a file its content.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt

__all__ = ["File", "Frame", "FrameError", "Message", "read"]

_TYPES: dict[str, np.dtype[Any]] = {
    "u8": np.dtype("u1"),
    "u32": np.dtype("<u4"),
    "u64": np.dtype("<u8"),
    "i64": np.dtype("<i8"),
}

Array = npt.NDArray[Any]
Message = Mapping[str, Any]
"""A message that is no table: ``message`` is its kind."""


class FrameError(Exception):
    """The stream is not what such a process writes."""


@dataclass(frozen=True)
class Frame:
    """Rows of a table: columns by name, in their order; the greatest value of a type may stand for null."""

    table: str
    columns: Mapping[str, Array]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values()), ()))


@dataclass(frozen=True)
class File:
    """A file for the folder of the cell."""

    name: str
    content: bytes


def read(stream: IO[bytes]) -> Iterator[Message | Frame | File]:
    """The messages of ``stream``, until it ends.

    Raises:
        FrameError: it ends within a table or a file, or a line is no message.
    """
    while line := stream.readline():
        message = _parse(line)
        match message["message"]:
            case "table":
                yield _frame(message, stream)
            case "file":
                yield File(message["name"], _content(message, stream, f"file {message['name']!r}"))
            case _:
                yield message


def _parse(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except ValueError as error:
        raise FrameError(f"not a message: {line[:80]!r}") from error
    if not isinstance(message, dict) or not isinstance(message.get("message"), str):
        raise FrameError(f"not a message: {line[:80]!r}")
    return message


def _frame(message: Mapping[str, Any], stream: IO[bytes]) -> Frame:
    size, count = int(message["bytes"]), int(message["rows"])
    content = _content(message, stream, f"table {message['name']!r}")
    columns: dict[str, Array] = {}
    offset = 0
    for name, kind in message["columns"]:
        if kind not in _TYPES:
            raise FrameError(f"column {name!r} of table {message['name']!r} has the unknown type {kind!r}")
        columns[name] = np.frombuffer(content, _TYPES[kind], count, offset)
        offset += count * _TYPES[kind].itemsize
    if offset != size:
        raise FrameError(f"table {message['name']!r} has {size} bytes; its columns have {offset}")
    return Frame(message["name"], columns)


def _content(message: Mapping[str, Any], stream: IO[bytes], what: str) -> bytes:
    """What follows the line of ``message``."""
    size = int(message["bytes"])
    content = stream.read(size)
    if len(content) < size:
        raise FrameError(f"{what} ends after {len(content)} of {size} bytes")
    return content
