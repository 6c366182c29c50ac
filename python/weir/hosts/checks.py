"""Validates tables against a plan: types of columns, and indices of flows, links and kinds of events.

Untrusted programs run beside the processes that write them. A wrong index must not cause an internal error of weir or,
worse, an invalid memory access: Arrow uses the columns as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from weir.hosts.messages import NAME, Array, Frame, FrameError
from weir.run.tables import TABLES

__all__ = ["PARTS", "Checks"]

PARTS: Mapping[str, Mapping[str, str]] = {
    "sent": {"time_ns": "u8", "flow": "u4", "sent_ip_bytes": "u8"},
    "delivered": {"time_ns": "u8", "flow": "u4", "transfer": "u4", "delivered_bytes": "u8"},
    "drops": {"time_ns": "u8", "flow": "u4", "link": "u4", "packets": "u8"},
    "marks": {"time_ns": "u8", "flow": "u4", "link": "u4", "packets": "u8"},
}
"""Partial tables, with the columns that are read from them."""

ACK_KINDS = 3
"""Kinds of rows of table ``acks``."""
PARTS_OF_RUN = 4
"""Parts of a run whose processor time table ``processor`` has."""
_TIMES = ("time_ns", "start_ns", "established_ns", "end_ns")
_LATER = {"flows": {"delivered_bytes", "lost_packets", "marked_packets"}}
"""Columns that are computed from other tables."""


def _types(table: str) -> dict[str, tuple[np.dtype[np.generic], bool]]:
    """By column: its type, and whether it is mandatory."""
    if table in PARTS:
        return {name: (np.dtype(f"<{kind}"), True) for name, kind in PARTS[table].items()}
    found = {}
    for column in TABLES[table].columns:
        stored = column.type.index_type if pa.types.is_dictionary(column.type) else column.type
        needed = not column.nullable and column.name not in _LATER.get(table, ())
        found[column.name] = (NAME if pa.types.is_string(stored) else np.dtype(stored.to_pandas_dtype()), needed)
    return found


_TYPES = {table: _types(table) for table in (*TABLES, *PARTS)}
_NULLABLE = {
    **{name: {column.name for column in table.columns if column.nullable} for name, table in TABLES.items()},
    "drops": {"flow"},  # a packet that belongs to no flow
    "marks": {"flow"},
}
"""By table: the columns whose largest value stands for null, or for no flow."""


@dataclass(frozen=True)
class Checks:
    """The bounds of a plan; unknown tables are ignored."""

    flows: int
    links: int
    kinds: int
    """Number of kinds of events."""
    end_ns: int | None = None
    """The latest instant, if the clock is the plan's own."""

    def __call__(self, frame: Frame) -> None:
        """Verifies that ``frame`` can belong to the plan.

        Raises:
            FrameError: it cannot; the message says why.
        """
        for name, (kind, needed) in _TYPES.get(frame.table, {}).items():
            column = frame.columns.get(name)
            if column is None and needed:
                raise FrameError(f"table {frame.table!r} lacks the column {name!r}")
            if column is not None and column.dtype != kind:
                raise FrameError(f"column {name!r} of table {frame.table!r} is {column.dtype}, not {kind}")
            if column is not None and kind == NAME:
                _require_text(frame.table, name, column)
        if frame.table in _TYPES:
            for name, most in self._most(frame.table):
                self._require(frame, name, most)

    def _most(self, table: str) -> tuple[tuple[str, int], ...]:
        times = () if self.end_ns is None else tuple((name, self.end_ns) for name in _TIMES)
        kinds = ACK_KINDS if table == "acks" else self.kinds
        links = tuple((name, self.links - 1) for name in ("link", "output", "input"))
        return (("flow", self.flows - 1), *links, ("kind", kinds - 1), ("part", PARTS_OF_RUN - 1), *times)

    def _require(self, frame: Frame, name: str, most: int) -> None:
        values = frame.columns.get(name)
        if values is None or not len(values):
            return
        wrong = values > (max(most, 0) if name != "kind" else most)
        if name in _NULLABLE.get(frame.table, ()):
            wrong &= values != np.iinfo(values.dtype).max
        if wrong.any():
            found = int(values[wrong][0])
            raise FrameError(f"{name!r} of table {frame.table!r} is {found}; the most that can be is {most}")


def _require_text(table: str, name: str, column: Array) -> None:
    """Verifies that a column of names is printable ASCII."""
    bytes_ = np.frombuffer(column.tobytes(), "u1")
    if ((bytes_ != 0) & ((bytes_ < 0x21) | (bytes_ > 0x7E))).any():
        raise FrameError(f"{name!r} of table {table!r} has a name with other characters than printable ASCII")
