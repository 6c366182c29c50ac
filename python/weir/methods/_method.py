"""The interface of a method: it executes plans, and declares everything that the rest of weir needs to know."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Protocol

from weir.methods._capacity import Capacity
from weir.methods._errors import MethodError
from weir.methods._live import Live
from weir.methods.options import Option

if TYPE_CHECKING:
    import pyarrow as pa

    from weir.hosts.fitness import Wish
    from weir.inventory import Node

__all__ = ["INSIDE", "NO_ACKS", "REAL", "TABLES", "About", "Method", "Outcome", "Plan", "Progress", "Sink"]

Plan = Mapping[str, Any]
"""A plan, parsed."""

TABLES = frozenset({"flows", "goodput", "samples", "links", "classes", "ports", "delays", "delay_bins", "events"})
"""The tables of a run (``weir schema``) that a method writes if it observes everything."""
INSIDE = frozenset({"probes", "acks"})
"""Tables that look inside a congestion control: not every method can."""
NO_ACKS = "records no table `acks`: `measure.acks` is without effect"
"""What to say of a method that :meth:`Method.lacks_acks`."""
REAL = frozenset({"processor"})
"""Tables about the machines themselves: only methods in real time have them."""


class Progress(Protocol):
    """Receives the progress of an execution."""

    def __call__(self, now_ns: int, live: Live | None = None, /) -> None:
        """``now_ns`` is the present instant since the start of the run; ``live`` the state then."""


class Sink(Protocol):
    """Where a method writes its results."""

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


@dataclass(frozen=True, kw_only=True)
class About:
    """A cell of a run, as its method may have to tell others of it."""

    run: Path
    """The folder of the run."""
    cell: str
    """Its id."""
    factors: Mapping[str, str] = field(default_factory=dict)
    repeat: int = 0


@dataclass(frozen=True)
class Outcome:
    """The result of an execution besides its tables."""

    warnings: tuple[str, ...] = ()
    """Anything that makes a number of this run untrustworthy."""
    stats: Mapping[str, int | float] = field(default_factory=dict)
    """Amounts of work: ``packets``, ``events``."""
    notes: tuple[str, ...] = ()
    """Remarks for readers that do not affect any number."""
    partial: str | None = None
    """Why the tables end before the plan does; the cell is kept so, and executed anew when the run is continued."""
    lost: bool = False
    """Whether other cells would fail in the same way: the run ends."""


class Method(abc.ABC):
    """Executes plans. Attributes with defaults may be left as they are."""

    name: str
    clock: Literal["virtual", "real"]
    """With a real clock, the machine affects the results: cells run one at a time, and disturbed ones are repeated."""
    needs: str
    """Its requirements on a machine, for people."""
    title: str
    """What it runs, for people: ``the packet-level simulator``."""

    called: str = ""
    """Its name in a sentence: ``the simulator``; empty: :attr:`name`."""
    precedence: int = 0
    """Order among default methods, the largest first; 0: only if named."""
    options: tuple[Option, ...] = ()
    """Its options in a plan (``methods.NAME``)."""
    tables: frozenset[str] = TABLES
    """The tables that it writes."""
    time_title: str = "Time"
    """Label of a plan's length in reports."""
    loads_controls: bool = False
    """Whether users' congestion controls run in the process that executes the plan: the engine then confines it."""

    takes_inventory: bool = False
    """Whether it runs on the machines of an inventory (:meth:`on`)."""

    def on(self, inventory: str) -> Method:
        """This method on the machines of the inventory in the file ``inventory``.

        Raises:
            MethodError: it takes none.
        """
        raise MethodError(f"method {self.name!r} runs here: it takes no inventory (--on)")

    def nodes(self, plan: Plan) -> Mapping[str, Node]:
        """The machine that takes the place of each host of ``plan`` with a flow, by the host's name.

        Raises:
            weir.inventory.InventoryError: the inventory has no machine for one.
        """
        return {}

    def wishes(self, plan: Plan) -> Mapping[int, tuple[Wish, ...]]:
        """What it changes on the machine of each host of ``plan``, by the host's index.

        Raises:
            MethodError: the plan asks for something that it lacks.
        """
        return {}

    def prepare(self, about: About) -> None:
        """Tells which cell the next :meth:`execute` is about. Without this call it is about none of a run."""
        return

    def undo(self, run: Path) -> Iterator[str]:
        """Undoes what a process that was killed has left of the run in the folder ``run``; remarks for users.

        It is called when no process executes a cell of the run any more.
        """
        return iter(())

    def close(self) -> None:
        """Gives up what :meth:`execute` keeps from one plan to the next."""
        return

    def available(self) -> str | None:
        """``None``, or why it cannot run here."""
        return None

    def obstacle(self, plan: Plan) -> str | None:
        """Why it cannot execute ``plan`` on a machine that meets its requirements; ``None`` if it can."""
        return None

    def unfit(self, plan: Plan) -> str | None:
        """Why no machine can execute ``plan`` by it, whatever its size; ``None`` if one can, or if only a machine could
        tell.
        """
        return self.obstacle(plan) if self.clock == "virtual" else None

    def lacking(self, plan: Plan) -> str | None:
        """What this machine's system lacks of ``plan``, whatever its size; ``None``: nothing, as far as known."""
        return None

    def untried(self, plan: Plan) -> str | None:
        """The part of ``plan`` whose feasibility only an execution can show, without an obstacle; for people."""
        return None

    def foreseen_s(self, plan: Plan, packets: int) -> float | None:
        """Estimated wall time of ``plan`` on one processor, with ``packets`` data packets; ``None``: unknown.

        Raises:
            MethodError: the plan asks for something that it lacks.
        """
        return None

    def besides_s(self, plans: Sequence[Plan]) -> float:
        """Estimated wall time of a run of ``plans`` besides that of each plan: what is done once for several.

        Raises:
            MethodError: a plan asks for something that it lacks.
        """
        return 0.0

    def memory_bytes(self, plan: Plan) -> int | None:
        """Estimated peak memory of ``plan``, bytes; ``None``: that of packets in flight."""
        return None

    def remarks(self, plan: Plan, packets: int) -> Iterator[str]:
        """Remarks for users before it executes ``plan``, if anything is unusual. ``weir check`` prints them."""
        return iter(())

    def capacity(self, plan: Plan) -> Capacity | None:
        """The demands of ``plan`` on this machine, and its capacity; ``None`` if any machine can carry it in time.

        Raises:
            MethodError: the measurement failed.
        """
        return None

    def refusal(self, obstacle: str) -> str:
        """The message that it cannot execute something, with the reason."""
        return f"{self.called or self.name} cannot: {obstacle}"

    def baggage(self) -> Mapping[str, Path]:
        """The files of the user's cache that it needs on another machine to execute cells there as here, by their
        places below the folder of all caches, such as ``weir/lab/...``.

        Raises:
            MethodError: one is missing and cannot be built.
        """
        return {}

    def kernel_of(self, cell: Path) -> str | None:
        """The kernel that executed a complete cell in the folder ``cell``, if recorded."""
        return None

    def lacks_acks(self, plan: Plan) -> bool:
        """Whether ``plan`` asks for table ``acks``, and this method does not write it."""
        return bool(plan["measure"].get("acks")) and "acks" not in self.tables

    @abc.abstractmethod
    def execute(self, plan: str, sink: Sink, progress: Progress) -> Outcome:
        """Executes ``plan`` and writes its tables to ``sink`` during the execution.

        Raises:
            MethodError: the plan cannot be executed by this method.
            OSError: from the sink.
        """
