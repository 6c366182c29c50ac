"""What a queue's module says: what the kernel has of it, and what of a scenario is no value of a single key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from weir.plan import Link, Mark, queue_bytes, queue_packets, wire_bytes
from weir.queues._declared import elements

__all__ = ["Discipline", "Written", "ecn", "limits", "microseconds", "too_short"]

_MIN_NS = 1000
"""``tc`` and the disciplines count microseconds."""


class Written(Protocol):
    """A queue as a scenario has it: the values of its keys, and how to complain of them."""

    @property
    def values(self) -> Mapping[str, Any]:
        """The value of each key; ``None`` for one that was left out and has no default."""

    def size_bytes(self, key: str) -> int:
        """The size in ``key``, bytes on the wire of the link."""

    def each(self, key: str) -> Sequence[Written]:
        """The mappings of the list in ``key``."""

    def error(self, key: str, message: str) -> Exception:
        """Reports a mistake at ``key``, or at the whole mapping if it has none; returns what to raise."""

    def warn(self, key: str, message: str) -> None:
        """Reports what works but is hardly meant."""


class Discipline:
    """A kind of queue. This one is of those that the kernel lacks; a queue's module has a subclass.

    Every method gets a link whose queue is of this kind.
    """

    names: ClassVar[tuple[str, ...]] = ()
    """What ``tc`` calls it; none: Linux does not have it."""
    marks_word: ClassVar[int | None] = None
    """Which 32-bit word of ``tc``'s own statistics of it is its number of marked packets (``linux/pkt_sched.h``)."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

        self.plain = any(one.plain for one in elements("queue") if one.name == kind)
        """Whether it is first in, first out, and drops only packets that exceed its limit."""

    def fields(self, written: Written) -> Mapping[str, Any]:
        """Fields of the plan that are not the value of one key each."""
        return {}

    def advise(self, written: Written) -> None:
        """Warns of values that work but are hardly meant."""

    def patience_ns(self, link: Link) -> int | None:
        """Time for which it drops nothing of a burst within its limit; ``None``: for ever, or not at all."""
        return None

    def obstacle(self, link: Link) -> str | None:
        """What the kernel's discipline lacks of the queue of ``link``; ``None`` if it is that queue."""
        return f"a queue {self.kind}, which Linux does not have"

    def arguments(self, link: Link, *, on_wire: bool) -> str:
        """The kernel's discipline, as arguments of ``tc qdisc``.

        Args:
            on_wire: It counts bytes as they are on the wire; without, IP bytes.
        """
        raise NotImplementedError(f"Linux has no queue {self.kind}")


def limits(link: Link, *, on_wire: bool) -> tuple[int, int]:
    """Packets and bytes of the hard limit; one follows from the other by the largest packet."""
    wire = wire_bytes(link, link.mtu_bytes)
    size = queue_bytes(link.queue, wire) or wire
    return queue_packets(link.queue, wire), size if on_wire else size * link.mtu_bytes // wire


def ecn(mark: Mark) -> str:
    """The word of ``tc`` that says whether packets that can carry ECN are marked."""
    return "ecn" if mark == "ecn" else "noecn"


def microseconds(ns: int) -> str:
    """A time as ``tc`` reads it."""
    return f"{max(1, round(ns / 1000))}us"


def too_short(noun: str, time_ns: int) -> str | None:
    """The obstacle of a time that the kernel cannot have."""
    return f"{noun} of less than a microsecond" if time_ns < _MIN_NS else None
