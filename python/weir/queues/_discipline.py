"""The interface of a queue's module: the kernel's equivalent, and the fields that are not one key's value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from weir.plan import Link, Mark, Members, Queue, queue_bytes, queue_packets, wire_bytes
from weir.queues._declared import Key, elements
from weir.queues._tokens import Inside, Tokens

__all__ = ["Below", "Discipline", "Written", "ecn", "limits", "microseconds", "told_bytes", "too_short"]

_MIN_NS = 1000
"""``tc`` and the disciplines count microseconds."""


class Written(Protocol):
    """A queue in a scenario: the values of its keys, and the reporting of errors."""

    @property
    def values(self) -> Mapping[str, Any]:
        """The value of each key; ``None`` for an omitted one without a default."""

    def size_bytes(self, key: str) -> int:
        """The size in ``key``, bytes on the wire of the link."""

    def each(self, key: str) -> Sequence[Written]:
        """The mappings of the list in ``key``."""

    def named(self, key: str) -> Mapping[str, Written]:
        """The mappings of the mapping in ``key``, by name."""

    def plan(self, form_keys: Sequence[Key]) -> dict[str, Any]:
        """The fields of the plan that these keys write, one for each key."""

    def queue(self, key: str, points: frozenset[int] | None = None) -> dict[str, Any]:
        """The plan of the queue in ``key``; without one, of a drop-tail queue of one BDP.

        ``points`` are the code points of the packets that it gets; ``None``: those of this queue.
        """

    @property
    def points(self) -> frozenset[int]:
        """The code points of the packets that the queue gets."""

    @property
    def packet_bytes(self) -> int:
        """The largest packet of the link, bytes on the wire."""

    @property
    def rate_bps(self) -> int:
        """Rate of the link."""

    def error(self, key: str, message: str) -> Exception:
        """Reports a mistake at ``key``, or at the whole mapping without it; returns the exception to raise."""

    def warn(self, key: str, message: str) -> None:
        """Reports a value that works but is hardly intended."""


@dataclass(frozen=True)
class Below:
    """What is below a discipline in the kernel: the queue of a class or of a shaper, or a class with classes."""

    queue: Queue
    minor: int
    """Number of its class in the discipline above."""
    name: str = ""
    """Name of the class; empty for the only queue of a shaper."""
    members: Members | None = None
    """Packets of the class; ``None``: all."""
    words: str = ""
    """Arguments of ``tc class add``; empty: the discipline above makes its classes itself."""
    inner: tuple[Below, ...] = ()
    """Classes of the same discipline below this one, which then has no queue."""

    def leaves(self) -> Iterator[Below]:
        """The queues below: itself, or those of its classes."""
        if not self.inner:
            yield self
        for one in self.inner:
            yield from one.leaves()


class Discipline:
    """A kind of queue. This class is for kinds that the kernel lacks; a queue's module has a subclass.

    Every method gets a link whose queue is of this kind.
    """

    names: ClassVar[tuple[str, ...]] = ()
    """What ``tc`` calls it; none: weir uses no discipline of the kernel for it."""
    differs: ClassVar[str] = ""
    """Sentences about what the kernel's does otherwise, for the documents."""
    marks_word: ClassVar[int | None] = None
    """Index of the 32-bit word with the number of marked packets in ``tc``'s own statistics (``linux/pkt_sched.h``)."""

    ages_when_empty: ClassVar[bool] = False
    """Whether its state changes while it is empty, which it notices at a dequeue that finds nothing."""
    needs_wire_sizes: ClassVar[bool] = False
    """Whether it computes with the sizes of packets on the wire, besides its limit."""
    asks_when_empty: ClassVar[bool] = True
    """Whether it dequeues from the queues below it also when they are empty."""
    looks_first: ClassVar[bool] = False
    """Whether it dequeues only packets that it has seen in the queue below it, as token buckets do."""

    limits_rate: ClassVar[bool] = False
    """Whether it may pass less than the link transmits, as token buckets do."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

        self.plain = any(one.plain for one in elements("queue") if one.name == kind)
        """Whether it is first in, first out, and drops only packets that exceed its limit."""

    def fields(self, written: Written) -> Mapping[str, Any]:
        """Fields of the plan that are not the value of one key each."""
        return {}

    def advise(self, written: Written) -> None:
        """Warns of values that work but are hardly intended."""

    def share_obstacle(self, share: int, packet_bytes: int) -> str | None:
        """The mistake in a share of a class, its weight in millionths or its quantum in bytes; ``None``: none."""
        return None

    def token_parts(self, queue: dict[str, Any], name: str) -> Iterator[Tokens | Inside]:
        """The token buckets of a queue of a plan, and the queues inside it, in the order of ``set_token_rates`` in
        ``weir-elements``. ``name`` is the class that the queue belongs to.
        """
        for one in queue.get("classes", ()):
            yield Inside(f"{name}.{one['name']}" if name else one["name"], one["queue"])

    def idle(self, queue: Mapping[str, Any], rate_bps: int) -> str | None:
        """Why the queue of a plan has no effect before a link that always has ``rate_bps``; ``None``: it may."""
        return None

    def token_obstacle(self, queue: dict[str, Any], rate_bps: int) -> str | None:
        """The mistake in its rates together, before a link of ``rate_bps``; ``None``: none."""
        return None

    def patience_ns(self, link: Link) -> int | None:
        """Time for which it drops nothing of a burst within its limit; ``None``: unlimited, or not at all."""
        return None

    def obstacle(self, link: Link) -> str | None:
        """The property of ``link``'s queue that the kernel's discipline lacks; ``None`` if they are equivalent."""
        return f"a queue {self.kind}, for which weir has no discipline of the kernel"

    def below(self, link: Link) -> tuple[Below, ...]:
        """The queues below it in the kernel, in the order of the plan."""
        return ()

    def arguments(self, link: Link, *, on_wire: bool) -> str:
        """The kernel's discipline without those below it, as arguments of ``tc qdisc``.

        Args:
            on_wire: It counts bytes on the wire; otherwise IP bytes.

        Raises:
            ValueError: Linux has no such discipline, as :meth:`obstacle` says.
        """
        raise ValueError(f"Linux has no queue {self.kind}")


def limits(link: Link, *, on_wire: bool) -> tuple[int, int]:
    """Packets and bytes of the hard limit; one follows from the other by the largest packet."""
    wire = wire_bytes(link, link.mtu_bytes)
    size = queue_bytes(link.queue, wire) or wire
    return queue_packets(link.queue, wire), told_bytes(link, size, on_wire=on_wire)


def told_bytes(link: Link, size: int, *, on_wire: bool) -> int:
    """A size in bytes on the wire, in the bytes that the discipline counts: as many full packets."""
    return size if on_wire else size * link.mtu_bytes // wire_bytes(link, link.mtu_bytes)


def ecn(mark: Mark) -> str:
    """The word of ``tc`` for marking packets that can carry ECN, or not."""
    return "ecn" if mark == "ecn" else "noecn"


def microseconds(ns: int) -> str:
    """A time in the notation of ``tc``."""
    return f"{max(1, round(ns / 1000))}us"


def too_short(noun: str, time_ns: int) -> str | None:
    """The obstacle if a time is too short for the kernel."""
    return f"{noun} of less than a microsecond" if time_ns < _MIN_NS else None
