"""The methods that execute a plan, and their registry.

A method takes a plan (JSON text, see ``weir schema plan``) and writes the tables of a run (``weir schema``) into a
sink. It knows neither scenarios nor folders nor reports. A new method is one module and one line of ``METHODS``; a
method that lives elsewhere is named ``package.module:Class``.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Literal, Protocol, runtime_checkable

from weir.methods._capacity import Capacity, Need, Sized
from weir.methods._live import Live, LiveFlow, LiveLink, Upcoming

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "METHODS",
    "Capacity",
    "Live",
    "LiveFlow",
    "LiveLink",
    "Method",
    "MethodError",
    "Need",
    "Outcome",
    "Progress",
    "Sink",
    "Sized",
    "UnavailableError",
    "UnfitMethodError",
    "UnknownMethodError",
    "Upcoming",
    "get",
]

METHODS: dict[str, str] = {
    "sim": "weir.methods.sim:Sim",
    "lab": "weir.methods.lab:LabMethod",
    "emul": "weir.methods.emul:Emul",
}
"""Name of each method and where it is."""


class Progress(Protocol):
    """Is told how far an execution is."""

    def __call__(self, now_ns: int, live: Live | None = None, /) -> None:
        """``now_ns`` is the instant reached since the start of the run; ``live`` what there is to see then."""


class MethodError(Exception):
    """A method could not execute a plan; the message says why and what to do."""


class UnknownMethodError(MethodError):
    """There is no method of that name."""


class UnavailableError(MethodError):
    """This machine lacks what something needs; the message says what, and how to get it."""


class UnfitMethodError(MethodError):
    """A method cannot execute what a plan asks for, on any machine."""


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


@runtime_checkable
class Method(Protocol):
    """Executes plans."""

    name: str
    clock: Literal["virtual", "real"]
    needs: str
    """What a machine must have for it, for people."""

    def available(self) -> str | None:
        """``None``, or why it cannot run here."""

    def execute(self, plan: str, sink: Sink, progress: Progress) -> Outcome:
        """Executes ``plan`` and writes its tables to ``sink`` while it goes.

        Raises:
            MethodError: the plan cannot be executed by this method.
            OSError: from the sink.
        """


def get(name: str) -> Method:
    """The method called ``name``.

    Raises:
        UnknownMethodError: no such method, or its module cannot be loaded.
    """
    module, _, attribute = METHODS.get(name, name).partition(":")
    if not attribute:
        raise UnknownMethodError(f"no method {name!r}; there are: {', '.join(METHODS)}")
    try:
        method = getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError, TypeError) as error:
        raise UnknownMethodError(f"method {name!r} cannot be loaded: {error}") from error
    if not isinstance(method, Method):
        raise UnknownMethodError(f"{name!r} is not a method: it lacks a part of weir.methods.Method")
    return method
