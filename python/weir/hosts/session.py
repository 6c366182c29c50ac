"""A run as a conversation with its processes: jobs out, tables in, until all have ended."""

from __future__ import annotations

import functools
import math
import queue
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeVar

from weir.hosts.messages import File, Frame, FrameError, Message
from weir.hosts.place import Place, Running
from weir.hosts.processes import Process, ProcessError, Said
from weir.hosts.programs import Remains

__all__ = ["Heard", "Session"]

_What = TypeVar("_What")

_READY_S = 20.0
_POLL_S = 0.1
_SILENT_S = 10.0
_MAX_WARNINGS = 1000
"""Maximum number of warnings kept of a run."""


@dataclass
class Heard:
    """The messages of a run's processes besides tables."""

    remains: Remains = field(default_factory=Remains)
    """Output of the plan's programs."""
    warnings: list[str] = field(default_factory=list)
    stats: dict[str, float] = field(default_factory=dict)
    """Counters of the processes, by ``process.name``."""

    def heed(self, name: str, what: Message) -> None:
        """Takes a message of the process ``name``.

        Raises:
            ProcessError: the process says that it failed.
            FrameError: no process of the run says so.
        """
        match what["message"]:
            case "warning":
                if len(self.warnings) < _MAX_WARNINGS:
                    self.warnings.append(f"{name}: {what['text']}")
            case "error":
                raise ProcessError(f"{name}: {what['text']}")
            case "program":
                self.remains.note(what)
            case "end":
                self.stats |= {f"{name}.{key}": value for key, value in what["stats"].items()}


@dataclass
class Session:
    """The processes of a run. A context manager: leaving it ends them."""

    check: Callable[[Frame], None] = lambda _: None
    """Raises FrameError for a table that the plan does not have."""
    heard: Heard = field(default_factory=Heard)
    _said: queue.SimpleQueue[Said] = field(default_factory=queue.SimpleQueue)
    _processes: list[Process] = field(default_factory=list)

    def __enter__(self) -> Session:
        """Starts nothing yet."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Ends every process."""
        for process in self._processes:
            process.close()

    def start(self, name: str, place: Place, command: Sequence[str], job: Mapping[str, Any]) -> Process:
        """Starts a process at ``place`` and sends its job.

        Raises:
            PlaceError: it cannot be started.
            ProcessError: it has ended.
        """
        return self.add(name, place.start(command), job, place)

    def add(self, name: str, running: Running, job: Mapping[str, Any], place: Place) -> Process:
        """Takes a process that was started at ``place``, and sends its job.

        Raises:
            ProcessError: it has ended.
        """
        process = Process(name, running, place, self._said)
        self._processes.append(process)
        process.send(job)
        return process

    def await_ready(self, processes: Iterable[Process]) -> None:
        """Waits until all ``processes`` are ready.

        Raises:
            ProcessError: one failed, or takes too long.
        """
        waiting = set(processes)
        deadline = time.monotonic() + _READY_S
        while waiting:
            said = self._next(deadline)
            if said is None:
                raise next(iter(waiting)).failure(f"was not ready after {_READY_S:.0f} s")
            if not isinstance(said.what, Frame) and self._heed(said)["message"] == "ready":
                waiting.discard(said.by)

    def begin(self, at_ns: int) -> None:
        """Has the run begin at ``at_ns`` of this process' monotonic clock; each process is told by that of its place.

        Raises:
            PlaceError: the clock of a place cannot be read.
            ProcessError: a process does not listen any more.
        """
        places = {id(process.place): process.place for process in self._processes}
        clocks = {number: place.clock() for number, place in places.items()}
        for process in self._processes:
            process.send(clocks[id(process.place)].start(at_ns))

    def tell(self, command: Mapping[str, Any]) -> None:
        """Sends ``command`` to every process.

        Raises:
            ProcessError: one does not listen any more.
        """
        for process in self._processes:
            process.send(command)

    def frames(self, deadline_s: float, idle: Callable[[], None]) -> Iterator[Frame]:
        """Every table that the processes send, until all have ended; calls ``idle`` often.

        Raises:
            ProcessError: one failed, or not all have ended at ``deadline_s`` of the monotonic clock.
        """
        yield from (frame for _, frame in self.frames_by(deadline_s, idle))

    def frames_by(
        self,
        deadline_s: float,
        idle: Callable[[], None],
        failed: Callable[[Process, ProcessError], float] | None = None,
        silent_from_s: float = math.inf,
    ) -> Iterator[tuple[Process, Frame]]:
        """As :meth:`frames`, with the process of each table.

        Args:
            deadline_s: As there.
            idle: As there.
            failed: Is told of each process that fails, which is waited for no more, and returns another deadline;
                ``None``: an error is raised.
            silent_from_s: From this instant of the monotonic clock on, a process that says nothing for some seconds
                has failed: it says how far it is four times a second, and may have been stopped.
        """
        waiting = set(self._processes)
        heard_s = dict.fromkeys(self._processes, silent_from_s)
        looked_s = 0.0
        while waiting:
            said = self._next(min(deadline_s, time.monotonic() + _POLL_S))
            idle()
            now_s = time.monotonic()
            try:
                if said is not None:
                    by = said.by
                    heard_s[by] = max(heard_s[by], now_s)
                    if isinstance(said.what, Frame):
                        self._guarded(by, self.check, said.what)
                        yield by, said.what
                    elif isinstance(said.what, File):
                        self._guarded(by, self.heard.remains.take, said.what)
                    elif by in waiting and self._heed(said)["message"] == "end":  # after that, its output may end
                        waiting.discard(by)
                # What is still in the queue may be of a process that seems silent.
                if waiting and self._said.empty() and now_s >= looked_s + _POLL_S:
                    looked_s = now_s
                    by = min(waiting, key=lambda p: (heard_s[p], p.name))
                    _require_life(by, heard_s[by], deadline_s)
            except ProcessError as error:
                if failed is None:
                    raise
                waiting.discard(by)
                deadline_s = failed(by, error)

    def _guarded(self, by: Process, take: Callable[[_What], None], what: _What) -> None:
        """Passes ``what`` to ``take``.

        Raises:
            ProcessError: the process ``by`` cannot have written it.
        """
        try:
            take(what)
        except FrameError as error:
            raise by.failure(f"wrote what cannot be read: {error}") from error

    def _next(self, deadline_s: float) -> Said | None:
        try:
            return self._said.get(timeout=max(0.0, deadline_s - time.monotonic()))
        except queue.Empty:
            return None

    def _heed(self, said: Said) -> Message:
        """Handles messages that every process may send at any time.

        Raises:
            ProcessError: the process failed.
        """
        what = said.what
        if what is None:
            raise said.by.failure()
        if isinstance(what, FrameError):
            raise said.by.failure(f"wrote what cannot be read: {what}")
        assert not isinstance(what, Frame | File)
        self._guarded(said.by, functools.partial(self.heard.heed, said.by.name), what)
        return what


def _require_life(process: Process, heard_s: float, deadline_s: float) -> None:
    """Raises ProcessError for a process that should have ended, or has been silent for too long: this one is killed."""
    if time.monotonic() >= deadline_s:
        raise process.failure("did not end in time")
    if time.monotonic() >= heard_s + _SILENT_S:
        error = process.failure(f"says nothing for {_SILENT_S:g} s: it was stopped, or its node is busy")
        process.kill()
        raise error
