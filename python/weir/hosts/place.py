"""A place: where hosts of a plan are, and what can be done there.

Places of this machine are :class:`weir.hosts.local.Local`, itself or one of its network namespaces. Others are reached
by a stream of bytes (:class:`weir.hosts.relay.Relay`): a lab's guest (:class:`weir.hosts.guest.Guest`), or whatever
machine a command leads to. Whoever has a place need not know which it is.
"""

from __future__ import annotations

import abc
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any, Protocol, Self

from weir._errors import MethodError

__all__ = ["PATIENCE_S", "Clock", "Place", "PlaceError", "Ran", "Running"]

PATIENCE_S = 60.0
"""How long a command of a place may take, if nothing else is said."""


class PlaceError(MethodError):
    """A place cannot do what was asked of it, or is not there any more; the message names the place."""


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    code: int
    """Its exit code; that of a signal is negative, as in :mod:`subprocess`."""
    out: bytes
    err: bytes


class Running(Protocol):
    """A process with its three streams, as :class:`subprocess.Popen` has them."""

    @property
    def stdin(self) -> IO[bytes] | None:
        """What is written here, it reads."""

    @property
    def stdout(self) -> IO[bytes] | None:
        """What it writes to its standard output."""

    @property
    def stderr(self) -> IO[bytes] | None:
        """What it writes to its standard error."""

    def poll(self) -> int | None:
        """Its exit code; ``None`` while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end; its exit code.

        Raises:
            subprocess.TimeoutExpired: it still runs.
        """

    def kill(self) -> None:
        """Ends it at once, if it still runs."""


@dataclass(frozen=True)
class Clock:
    """The monotonic clock of a place, beside that of this process; both count nanoseconds from an instant of their own.

    A machine's clock says nothing on another. What is to happen at one instant on several machines is said to each by a
    reading of its own clock, which this process has asked for.
    """

    here_ns: int
    """A reading of this process' clock, and at that instant"""
    reading_ns: int
    """the reading of the place's."""
    error_ns: int = 0
    """By how much the latter may be off: half of the time that asking took; 0 where both are one clock."""

    @property
    def offset_ns(self) -> int:
        """What the place's clock is ahead of this process'."""
        return self.reading_ns - self.here_ns

    def start(self, here_ns: int) -> dict[str, Any]:
        """What a process of the place is told to begin a run at ``here_ns`` of this process' clock.

        The place's clock counts from the reading on: so only what it drifts until the start adds to the error.
        """
        after_ns = here_ns - self.here_ns
        past_ns = min(after_ns, 0)  # the format has no negative numbers
        return {
            "command": "start",
            "clock": "monotonic",
            "reading_ns": self.reading_ns + past_ns,
            "after_ns": after_ns - past_ns,
        }


class Place(abc.ABC):
    """Where hosts are. A context manager: leaving it ends what was started there, and removes what was put."""

    name: str
    """For people."""

    @abc.abstractmethod
    def run(self, command: Sequence[str], given: bytes = b"", timeout_s: float = PATIENCE_S) -> Ran:
        """Runs ``command``, a program and its arguments, which reads ``given``, and waits for its end.

        Raises:
            PlaceError: it cannot be started, or takes longer than ``timeout_s``; it is ended then.
        """

    def run_python(
        self,
        program: str,
        *arguments: str,
        given: bytes = b"",
        timeout_s: float = PATIENCE_S,
        python: str = "python3",
    ) -> Ran:
        """As :meth:`run`, a program in Python that was put there; it needs nothing but the standard library.

        Args:
            program: Its path there.
            arguments: Its own.
            given: What it reads.
            timeout_s: As of :meth:`run`.
            python: The interpreter, where the place has none that runs already.
        """
        return self.run((python, "-I", "-S", program, *arguments), given, timeout_s)

    @abc.abstractmethod
    def start(self, command: Sequence[str]) -> Running:
        """Starts ``command``.

        Raises:
            PlaceError: it cannot be started.
        """

    @abc.abstractmethod
    def put(self, name: str, content: bytes, *, executable: bool = False) -> str:
        """Makes a file ``name`` in the place's own folder, which nobody else has; its path there.

        Raises:
            PlaceError: it cannot be written, or ``name`` is no plain name.
        """

    @abc.abstractmethod
    def get(self, path: str) -> bytes:
        """The content of the file at ``path`` of the place.

        Raises:
            PlaceError: it cannot be read.
        """

    @abc.abstractmethod
    def clock(self) -> Clock:
        """Reads its clock.

        Raises:
            PlaceError: it does not answer.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Ends every process that was started and still runs, with all that it started, and removes its folder."""

    def __enter__(self) -> Self:
        """It is there already."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Leaves nothing behind."""
        self.close()

    def require(self, command: Sequence[str], given: bytes = b"", timeout_s: float = PATIENCE_S) -> bytes:
        """Runs a command that must succeed; what it printed.

        Raises:
            PlaceError: it failed; the message has its last words.
        """
        return self.required(self.run(command, given, timeout_s), command)

    def required(self, ran: Ran, command: Sequence[str]) -> bytes:
        """What a command that has ended printed.

        Raises:
            PlaceError: it failed; the message has its last words.
        """
        if ran.code:
            words = ran.err.decode(errors="replace").strip() or f"status {ran.code}"
            raise PlaceError(f"{self.name}: `{' '.join(command)}` failed: {words}")
        return ran.out


def plain(name: str) -> str:
    """``name``, if it is one of a file in a folder.

    Raises:
        PlaceError: it leads elsewhere.
    """
    if not name or name in {".", ".."} or "/" in name or "\0" in name:
        raise PlaceError(f"{name!r} is not a plain name of a file")
    return name


def here_ns() -> int:
    """The clock of this process."""
    return time.monotonic_ns()
