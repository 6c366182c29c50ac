"""Merges the observations of a run's processes: the sending ends, the receiving ends, the network.

Pure: tables in, tables out. Rows of ``samples``, ``probes``, ``links``, ``ports`` and delays arrive complete and pass
at once. ``goodput``, ``flows`` and ``events`` need several processes and are made when all have ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weir.hosts.checks import PARTS
from weir.hosts.messages import Frame
from weir.run.columns import empty, rows

__all__ = ["Merger"]

Array = npt.NDArray[Any]
Columns = Mapping[str, Array]

_NOBODY = np.iinfo(np.uint32).max
"""The flow of a packet that belongs to none."""

_PASSED = frozenset(
    {"samples", "links", "classes", "ports", "goodput", "delays", "delay_bins", "probes", "acks", "processor"}
)
_PARTS: dict[str, Mapping[str, str]] = {
    "flows": {},
    "events": {},
    **PARTS,
}
"""Tables held until the end, with the columns that are read from them."""


@dataclass
class Merger:
    """Takes the tables of all processes of a run, in any order."""

    kinds: pa.Array
    """Names of the kinds of events."""
    delays: bool = False
    """Whether the network times packets: then tables of delays exist, even without rows."""
    acks: bool = False
    """Whether acknowledgements are recorded: then their table exists, even without rows."""
    _held: dict[str, list[Columns]] = field(default_factory=dict)

    def take(self, frame: Frame) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Takes ``frame``; returns the complete rows, by table.

        Tables that are neither of a run nor a part of one are ignored.
        """
        if frame.table in _PASSED:
            yield frame.table, rows(frame.table, frame.columns, self.kinds)
        elif frame.table in _PARTS:
            self._held.setdefault(frame.table, []).append(frame.columns)

    def finish(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows that had to wait; nothing can be taken after."""
        if self.delays:
            yield from ((table, empty(table)) for table in ("delays", "delay_bins"))
        if self.acks:
            yield "acks", empty("acks")
        delivered, sent = self._all("delivered"), self._all("sent")
        if len(sent["flow"]) or len(delivered["flow"]):
            yield "goodput", rows("goodput", goodput(sent, delivered), self.kinds)
        if "flows" in self._held:
            table = _sorted(self._joined("flows"), "flow", "transfer")
            whole = flows(table, delivered, self._all("drops"), self._all("marks"))
            yield "flows", rows("flows", whole, self.kinds)
        if "events" in self._held:
            yield "events", rows("events", _sorted(self._joined("events"), "time_ns"), self.kinds)

    def _all(self, table: str) -> dict[str, Array]:
        """All rows of a part, possibly none."""
        found = self._held.get(table)
        if found:
            return {name: np.concatenate([columns[name] for columns in found]) for name in _PARTS[table]}
        return {name: np.empty(0, kind) for name, kind in _PARTS[table].items()}

    def _joined(self, table: str) -> dict[str, Array]:
        found = self._held[table]
        names = [name for name in found[0] if all(name in columns for columns in found)]
        return {name: np.concatenate([columns[name] for columns in found]) for name in names}


def goodput(sent: Columns, delivered: Columns) -> dict[str, Array]:
    """Table ``goodput``: a row per flow and interval with data from either end, in the order of time."""
    time_ns = np.concatenate([sent["time_ns"], delivered["time_ns"]])
    flow = np.concatenate([sent["flow"], delivered["flow"]])
    keys, place = _distinct(time_ns, flow)
    count = len(sent["flow"])
    return {
        "time_ns": keys[0],
        "flow": keys[1],
        "delivered_bytes": _summed(place[count:], delivered["delivered_bytes"], len(keys[0])),
        "sent_ip_bytes": _summed(place[:count], sent["sent_ip_bytes"], len(keys[0])),
    }


def flows(table: Columns, delivered: Columns, drops: Columns, marks: Columns) -> dict[str, Array]:
    """Table ``flows``: the rows of the senders, with the facts that only the receivers and the network know.

    ``table`` is in the order of flow and transfer. The network's counts have no transfer: they belong to the one that
    began last.
    """
    count = len(table["flow"])
    place = _places(table, delivered["flow"], delivered["transfer"])
    whole = dict(table)
    whole["delivered_bytes"] = _summed(place, delivered["delivered_bytes"], count)
    for name, packets in (("lost_packets", drops), ("marked_packets", marks)):
        whole[name] = _summed(_active(table, packets["flow"], packets["time_ns"]), packets["packets"], count)
    return whole


def _sorted(table: Columns, *by: str) -> dict[str, Array]:
    order = np.lexsort([table[name] for name in reversed(by)])
    return {name: values[order] for name, values in table.items()}


def _distinct(first: Array, second: Array) -> tuple[tuple[Array, Array], Array]:
    """The distinct pairs in their order, and the index of each given pair among them."""
    order = np.lexsort([second, first])
    a, b = first[order], second[order]
    new = np.ones(len(order), bool)
    new[1:] = (a[1:] != a[:-1]) | (b[1:] != b[:-1])
    place = np.empty(len(order), np.intp)
    place[order] = np.cumsum(new) - 1
    return (a[new], b[new]), place


def _summed(place: Array, values: Array, count: int) -> Array:
    """The sum of ``values`` for each of ``count`` places; values with a negative place are dropped."""
    total = np.zeros(count, np.uint64)
    known = place >= 0
    np.add.at(total, place[known], values[known])
    return total


def _places(table: Columns, flow: Array, transfer: Array) -> Array:
    """The row of ``table`` of each flow and transfer; -1 if there is none."""
    wanted = flow.astype(np.uint64) << np.uint64(32) | transfer
    keys = table["flow"].astype(np.uint64) << np.uint64(32) | table["transfer"]
    place = np.searchsorted(keys, wanted)
    found = place < len(keys)
    found[found] = keys[place[found]] == wanted[found]
    return np.where(found, place, -1)


def _active(table: Columns, flow: Array, time_ns: Array) -> Array:
    """The row of the last transfer of ``flow`` that began before the end of an interval; its first if none had."""
    place = np.full(len(flow), -1, np.intp)
    for number in np.unique(flow[flow != _NOBODY]):
        begin, end = np.searchsorted(table["flow"], [number, number + 1])
        if begin == end:
            continue
        mine = flow == number
        # The interval ends at its time: a transfer that begins then has no packet in it.
        last = np.searchsorted(table["start_ns"][begin:end], time_ns[mine], side="left") - 1
        place[mine] = begin + np.maximum(last, 0)
    return place
