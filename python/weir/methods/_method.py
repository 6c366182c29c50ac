"""What a method is: what executes plans, and all that the rest of weir knows of it."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Protocol

from weir.methods._capacity import Capacity
from weir.methods._live import Live
from weir.methods.options import Option

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TABLES", "Method", "Outcome", "Plan", "Progress", "Sink"]

Plan = Mapping[str, Any]
"""A plan, parsed."""

TABLES = frozenset({"flows", "goodput", "samples", "links", "delays", "delay_bins", "events"})
"""The tables of a run (``weir schema``) that a method writes which observes everything."""


class Progress(Protocol):
    """Is told how far an execution is."""

    def __call__(self, now_ns: int, live: Live | None = None, /) -> None:
        """``now_ns`` is the instant reached since the start of the run; ``live`` what there is to see then."""


class Sink(Protocol):
    """Where a method puts its results."""

    def write(self, table: str, rows: pa.RecordBatch) -> None:
        """Appends rows of the schema ``weir.run.tables.arrow_schema(table)``.

        Raises:
            OSError: the rows could not be stored.
        """

    def open(self, name: str) -> BinaryIO:
        """Opens a further file of the cell for writing, such as ``packets.csv``; the sink closes it.

        Raises:
            OSError: it cannot be created.
        """


@dataclass(frozen=True)
class Outcome:
    """What a method says about an execution beside its tables."""

    warnings: tuple[str, ...] = ()
    """Anything that makes a number of this run untrustworthy."""
    stats: Mapping[str, int | float] = field(default_factory=dict)
    """How much work it was: ``packets``, ``events``."""
    notes: tuple[str, ...] = ()
    """What its reader should know, and what spoils no number."""


class Method(abc.ABC):
    """Executes plans. What has a default here may stay as it is."""

    name: str
    clock: Literal["virtual", "real"]
    """With a real one, the machine is part of the results: cells run one at a time, and disturbed ones are repeated."""
    needs: str
    """What a machine must have for it, for people."""
    title: str
    """What it runs, for people: ``the packet-level simulator``."""

    called: str = ""
    """Its name in a sentence: ``the simulator``; empty: :attr:`name`."""
    precedence: int = 0
    """Where nobody names a method, the greater comes first; with 0 it is taken only if it is named."""
    options: tuple[Option, ...] = ()
    """What a plan may choose of it (``methods.NAME``)."""
    tables: frozenset[str] = TABLES
    """The tables that it writes."""
    time_title: str = "Time"
    """What reports call the length of a plan that it executed."""
    loads_controls: bool = False
    """Whether users' congestion controls run in the process that executes the plan: the engine confines it then."""

    def available(self) -> str | None:
        """``None``, or why it cannot run here."""
        return None

    def obstacle(self, plan: Plan) -> str | None:
        """Why it cannot execute ``plan``, on a machine that has all it needs; ``None`` if it can."""
        return None

    def untried(self, plan: Plan) -> str | None:
        """What of ``plan`` only its execution can show to be possible, where there is no obstacle; for people."""
        return None

    def foreseen_s(self, plan: Plan, packets: int) -> float | None:
        """Wall time of ``plan`` on one processor, with so many data packets: an order of magnitude; ``None``: unknown.

        Raises:
            MethodError: the plan asks for what it has not.
        """
        return None

    def memory_bytes(self, plan: Plan) -> int | None:
        """Memory of ``plan`` at most, bytes: an order of magnitude; ``None``: that of packets under way."""
        return None

    def remarks(self, plan: Plan, packets: int) -> Iterator[str]:
        """What a user should know before it executes ``plan``; nothing if all is usual. ``weir check`` prints it."""
        return iter(())

    def capacity(self, plan: Plan) -> Capacity | None:
        """What ``plan`` needs of this machine, and what there is; ``None`` if any machine carries it in time.

        Raises:
            MethodError: it could not be found out.
        """
        return None

    def refusal(self, obstacle: str) -> str:
        """Says that it cannot execute something, and why."""
        return f"{self.called or self.name} cannot: {obstacle}"

    def kernel_of(self, cell: Path) -> str | None:
        """The kernel that a complete cell in the folder ``cell`` ran on, if it says so."""
        return None

    @abc.abstractmethod
    def execute(self, plan: str, sink: Sink, progress: Progress) -> Outcome:
        """Executes ``plan`` and writes its tables to ``sink`` while it goes.

        Raises:
            MethodError: the plan cannot be executed by this method.
            OSError: from the sink.
        """
