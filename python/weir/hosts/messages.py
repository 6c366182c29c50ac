"""Reads the output of an agent or the emulator (``crates/weir-protocol``).

The format is JSON objects, one per line; the line of a table is followed by its columns, one after the other, that of a
file by its content.

Untrusted programs run beside these processes, in the lab as root, and may have written any of it. So anything that a
process of weir does not write is refused, and nothing of unlimited size is read into memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt

__all__ = ["FILE_BYTES", "NAME", "Array", "File", "Frame", "FrameError", "Message", "read"]

LINE_BYTES = 1 << 20
"""More than any line has: the longest are those of programs, with their arguments."""
TABLE_BYTES = 1 << 28
"""More than the rows that a process hands over at once."""
FILE_BYTES = 1 << 26
"""Bytes that an agent keeps of each stream of a program (``CAPTURE_BYTES`` in ``crates/weir-agent``)."""
_TEXT = 1 << 16
_STATS = 1000
_COLUMNS = 64
_SHOWN = 80

NAME: np.dtype[Any] = np.dtype("S16")
"""The type of a column of names, padded with zeros."""

_TYPES: dict[str, np.dtype[Any]] = {
    "u8": np.dtype("u1"),
    "u32": np.dtype("<u4"),
    "u64": np.dtype("<u8"),
    "i64": np.dtype("<i8"),
    "name": NAME,
}

Array = npt.NDArray[Any]
Message = Mapping[str, Any]
"""A message other than a table: ``message`` is its kind."""


class FrameError(Exception):
    """The stream is not what such a process writes."""


@dataclass(frozen=True)
class Frame:
    """Rows of a table: columns by name, in their order; the largest value of a type may stand for null."""

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
        FrameError: it ends within a table or a file, or a line is no message of such a process.
    """
    while line := stream.readline(LINE_BYTES + 1):
        message = _parse(line)
        match message["message"]:
            case "table":
                yield _frame(message, stream)
            case "file":
                if message["bytes"] > FILE_BYTES:
                    raise FrameError(f"file {message['name'][:_SHOWN]!r} has more than {FILE_BYTES} bytes")
                yield File(message["name"], _content(message, stream, f"file {message['name'][:_SHOWN]!r}"))
            case _:
                yield message


# Lines ---------------------------------------------------------------------------------------------------------------


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 64


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _TEXT


def _is_number(value: object) -> bool:
    if type(value) is int:
        return abs(value) < 1 << 64  # not every integer fits a float
    return type(value) is float and math.isfinite(value)


def _are_numbers(value: object) -> bool:
    return (
        isinstance(value, dict)
        and len(value) <= _STATS
        and all(_is_text(name) and _is_number(number) for name, number in value.items())
    )


def _is_column(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(_is_text(part) for part in value)


def _are_columns(value: object) -> bool:
    return isinstance(value, list) and 0 < len(value) <= _COLUMNS and all(_is_column(part) for part in value)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(_is_text(part) for part in value)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _or_null(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or check(value)


def _is_code(value: object) -> bool:
    return type(value) is int and abs(value) < 1 << 31


_FIELDS: Mapping[str, Mapping[str, Callable[[object], bool]]] = {
    "table": {"name": _is_text, "rows": _is_count, "columns": _are_columns, "bytes": _is_count},
    "file": {"name": _is_text, "bytes": _is_count},
    "program": {
        "flow": _is_text,
        "peer": _is_flag,
        "host": _is_text,
        "arguments": _are_texts,
        "start_ns": _or_null(_is_count),
        "end_ns": _or_null(_is_count),
        "exit_code": _or_null(_is_code),
        "stopped": _is_flag,
        "truncated": _is_flag,
        "report": _or_null(_are_numbers),
    },
    "progress": {"now_ns": _is_count},
    "warning": {"text": _is_text},
    "error": {"text": _is_text},
    "end": {"stats": _are_numbers},
}
"""The fields of each kind of message (``crates/weir-protocol/src/message.rs``); readers of other kinds know theirs."""


def _parse(line: bytes) -> dict[str, Any]:
    if len(line) > LINE_BYTES:
        raise FrameError(f"a line of more than {LINE_BYTES} bytes, which begins with {line[:_SHOWN]!r}")
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"not a message: {line[:_SHOWN]!r}") from error
    if not isinstance(message, dict) or not isinstance(message.get("message"), str):
        raise FrameError(f"not a message: {line[:_SHOWN]!r}")
    for name, is_right in _FIELDS.get(message["message"], {}).items():
        if name not in message or not is_right(message[name]):
            told = f"{message[name]!r:.{_SHOWN}}" if name in message else "missing"
            raise FrameError(f"not a message: {name!r} of {message['message']!r} is {told}")
    return message


# Content after a line -------------------------------------------------------------------------------------------------


def _frame(message: Mapping[str, Any], stream: IO[bytes]) -> Frame:
    table, size, count = message["name"][:_SHOWN], message["bytes"], message["rows"]
    kinds: dict[str, np.dtype[Any]] = {}
    for name, kind in message["columns"]:
        if kind not in _TYPES or name in kinds:
            which = "unknown type" if kind not in _TYPES else "second type"
            raise FrameError(f"column {name[:_SHOWN]!r} of table {table!r} has the {which} {kind[:_SHOWN]!r}")
        kinds[name] = _TYPES[kind]
    total = count * sum(kind.itemsize for kind in kinds.values())
    if total != size:
        raise FrameError(f"table {table!r} has {size} bytes; its columns have {total}")
    if total > TABLE_BYTES:
        raise FrameError(f"table {table!r} has {size} bytes at once, more than {TABLE_BYTES}")
    content = _content(message, stream, f"table {table!r}")
    columns: dict[str, Array] = {}
    offset = 0
    for name, kind in kinds.items():
        columns[name] = np.frombuffer(content, kind, count, offset)
        offset += count * kind.itemsize
    return Frame(message["name"], columns)


def _content(message: Mapping[str, Any], stream: IO[bytes], what: str) -> bytes:
    """The content after the line of ``message``."""
    size = message["bytes"]
    content = stream.read(size)
    if len(content) < size:
        raise FrameError(f"{what} ends after {len(content)} of {size} bytes")
    return content
