"""Instants of the nodes on the central relative clock, and how well the starts agreed.

Each agent counts from the run's begin by its own clock. When the run has ended, more is known of that clock: instants
of events and transfers are corrected by it. Intervals (tables ``goodput`` and ``samples``) keep their nominal instants,
because those of both ends of a flow belong together; how far they are off is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from weir.hosts.messages import Array, Frame
from weir.methods.hosts._clock import Fit, fit
from weir.methods.hosts._fleet import Member

__all__ = ["Times"]

_CORRECTED = {"flows": ("start_ns", "established_ns", "end_ns"), "events": ("time_ns",)}
_NULL = np.iinfo(np.uint64).max
_SKEW_NS = 10_000_000
"""A larger skew of starts than this is worth a warning."""


class Times:
    """The clocks of one run."""

    def __init__(self, begin_ns: int, members: Sequence[Member]) -> None:
        """Fits what is known before the run begins at ``begin_ns`` of this process' clock."""
        self._begin_ns = begin_ns
        self._members = members
        self._before = {member.name: fit(member.readings) for member in members}
        self._after: dict[str, Fit] = {}
        self._starts = {name: self._before[name].start(begin_ns).reading_ns for name in self._before}

    def start(self, member: Member) -> dict[str, Any]:
        """What the agent of ``member`` is told."""
        return self._before[member.name].start(self._begin_ns).start(self._begin_ns)

    def finish(self) -> None:
        """Fits again, with the readings during and after the run."""
        self._after = {member.name: fit(member.readings) for member in self._members}

    def holds(self, frame: Frame) -> bool:
        """Whether ``frame`` must wait for :meth:`finish` to be corrected."""
        return frame.table in _CORRECTED

    def corrected(self, name: str, frame: Frame) -> Frame:
        """``frame`` of the node ``name`` with instants on the central clock."""
        columns = dict(frame.columns)
        for column in _CORRECTED[frame.table]:
            if column in columns:
                columns[column] = self._central(name, columns[column])
        return Frame(frame.table, columns)

    def _central(self, name: str, instants: Array) -> Array:
        """``instants`` since the node's start, as ones since the run's begin; null stays so."""
        known = instants != _NULL
        node = instants[known].astype(np.float64)
        found = instants.copy()
        found[known] = np.maximum(0, np.rint(node + self._offset_at(name, node))).astype(np.uint64)
        return found

    def _offset_at(self, name: str, since_start: Any) -> Any:
        """What an instant of the node is to be moved by, ns.

        With the clock's line there(x) = x + o + d (x - a), its reading L is the instant x = a + (L - a - o) / (1 + d).
        Only differences of readings are computed in floating point: readings themselves have more digits than it.
        """
        known = self._after[name]
        ahead = float(self._starts[name] - known.at_ns) - known.offset_ns  # of the instant a, at the node's start
        here = (ahead + since_start) / (1 + known.drift)
        return here - float(self._begin_ns - known.at_ns) - since_start

    def _starts_off(self, stats: Mapping[str, float]) -> dict[str, float]:
        """By how much each node began late, ns: the error of its start's instant, and how late its agent woke."""
        return {
            name: float(self._offset_at(name, 0.0)) + stats[f"{name}.start_late_ns"]
            for name in self._after
            if f"{name}.start_late_ns" in stats
        }

    def stats(self, stats: Mapping[str, float]) -> dict[str, float]:
        """Figures for the cell's manifest."""
        off = self._starts_off(stats)
        found = {"clock.error_max_ns": float(max(one.error_ns for one in self._after.values()))}
        if off:
            found["clock.start_skew_ns"] = round(max(off.values()) - min(off.values()), 1)
        return found

    def warnings(self, stats: Mapping[str, float]) -> Iterator[str]:
        """What makes instants untrustworthy."""
        off = self._starts_off(stats)
        if off and max(off.values()) - min(off.values()) > _SKEW_NS:
            skew = (max(off.values()) - min(off.values())) / 1e6
            last = max(off, key=lambda name: off[name])
            most = _SKEW_NS / 1e6
            yield f"the nodes began within {skew:.1f} ms of each other, {last} the last: more than {most:.0f} ms"

    def to_json(self, stats: Mapping[str, float]) -> dict[str, Any]:
        """The content of ``clocks.json``."""
        off = self._starts_off(stats)
        nodes = {
            member.name: {
                "before": self._before[member.name].to_json(),
                "after": self._after[member.name].to_json(),
                "start_off_ns": round(off[member.name]) if member.name in off else None,
                "readings": [[r.here_ns - self._begin_ns, r.offset_ns, r.error_ns] for r in member.readings],
            }
            for member in self._members
        }
        return {"begin_ns": self._begin_ns, "skew_ns": self.stats(stats).get("clock.start_skew_ns"), "nodes": nodes}
