"""The emulator's process, from the job to the last table."""

from __future__ import annotations

import queue
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, TypeVar

from weir._programs import find
from weir.hosts.jobs import job
from weir.hosts.local import Local
from weir.hosts.messages import File, Frame, FrameError, Message
from weir.hosts.processes import PRIORITY, Process, Said

from ._tally import Report, Tally

__all__ = ["Counter", "Emulator"]

_R_co = TypeVar("_R_co", covariant=True)
_R = TypeVar("_R")


class Counter(Protocol[_R_co]):
    """Adds up tables."""

    def take(self, frame: Frame) -> None:
        """Adds a table."""

    def report(self, seconds: float, stats: Mapping[str, float], warnings: Sequence[str]) -> _R_co:
        """The sum of all tables so far."""


class Emulator:
    """An emulator between two hosts. A context manager: leaving it ends the process."""

    def __init__(
        self,
        plan: Mapping[str, Any],
        hosts: Sequence[Mapping[str, Any]],
        first_port: int,
        options: Sequence[str],
        environment: Mapping[str, str],
    ) -> None:
        """Starts the process; when this returns, packets pass and are counted.

        Raises:
            PlaceError: it cannot be started.
            ProcessError: it cannot do what it is told.
            weir._programs.ProgramError: it is not there.
        """
        self._said: queue.SimpleQueue[Said] = queue.SimpleQueue()
        self._warnings: list[str] = []
        self._stats: dict[str, float] = {}
        self._here = Local(environment=environment, priority=PRIORITY)
        running = self._here.start([str(find("weir-emu")), *options])
        self._process = Process("the emulator", running, self._here, self._said)
        self._pid = running.pid
        try:
            self._process.send(job(plan, hosts, first_port))
            self._await("ready")
            self._process.send(self._here.clock().start(time.monotonic_ns()))
            self._await("progress")  # the start discards all packets in flight
        except BaseException:
            self._process.close()
            raise
        self._begin = time.monotonic()

    def __enter__(self) -> Emulator:
        """It works already."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Ends it."""
        self._process.close()

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._pid

    def stop(self) -> None:
        """Ends it while another thread is in :meth:`measure`.

        Raises:
            ProcessError: it has ended already.
        """
        self._process.send({"command": "stop"})

    def measure(self, tally: Tally | None = None) -> Report:
        """Adds up its measurements in ``tally`` until it is stopped.

        Raises:
            ProcessError: it failed.
        """
        return self.measure_by(tally or Tally())

    def measure_by(self, tally: Counter[_R]) -> _R:
        """Adds up its measurements until it is stopped; returns the report of ``tally``.

        Raises:
            ProcessError: it failed.
        """
        while not self._stats:
            what = self._next()
            if isinstance(what, Frame):
                tally.take(what)
        return tally.report(time.monotonic() - self._begin, self._stats, self._warnings)

    def _await(self, kind: str) -> None:
        """Waits for a message of this kind."""
        while True:
            what = self._next()
            if not isinstance(what, Frame) and what["message"] == kind:
                return

    def _next(self) -> Message | Frame:
        """The next message or table.

        Raises:
            ProcessError: it reported a failure.
        """
        what = self._said.get().what
        if what is None or isinstance(what, FrameError | File):
            raise self._process.failure(str(what or ""))
        if isinstance(what, Frame):
            return what
        match what["message"]:
            case "error":
                raise self._process.failure(f"failed: {what['text']}")
            case "warning":
                self._warnings.append(what["text"])
            case "end":
                self._stats = dict(what["stats"])
        return what
