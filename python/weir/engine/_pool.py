"""Worker processes: each executes one cell at a time and reports its progress."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator

from weir.cc import ControlError
from weir.confine import ConfineError
from weir.engine._process import Job, Message, Process

__all__ = ["Message", "Pool", "Slot"]

_LEAVE_S = 180.0
"""Time for idle workers to end: methods give back what they hold, such as nodes of a cluster."""


class Slot:
    """Executes jobs one after another, each in a process that suits it; any thread may end it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._process: Process | None = None

    def execute(self, job: Job) -> Iterator[Message]:
        """Yields the messages about ``job``, of which the last is ``done`` or ``failed``; none after :meth:`kill`."""
        if self._process is not None and not self._process.suits(job):
            self._stop()
        try:
            process = self._suitable(job)
        except (ConfineError, ControlError) as error:
            yield {"type": "failed", "id": job["id"], "kind": "method", "error": str(error), "trace": ""}
            return
        if process is not None:
            yield from process.execute(job)

    def kill(self) -> None:
        """Kills the process, at any time; no other is started."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()

    def stop(self) -> None:
        """Ends the process and waits for it; for the thread that executes."""
        if self._process is not None:
            self._stop()

    def _suitable(self, job: Job) -> Process | None:
        with self._lock:
            if self._process is None and not self._closed:
                self._process = Process(job)
            return self._process

    def _stop(self) -> None:
        assert self._process is not None
        self._process.stop()
        with self._lock:
            self._process = None


class Pool:
    """Runs jobs in ``workers`` processes.

    ``next_job`` returns the next job or ``None``; one thread at a time calls it. Every job ends with exactly one
    ``done`` or ``failed`` message in ``messages``, even if its process dies.
    """

    def __init__(self, workers: int, next_job: Callable[[], Job | None]) -> None:
        """Starts the workers."""
        self.messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.workers = workers
        self._next_job = next_job
        self._lock = threading.Lock()
        self._closed = False
        self._under_way = 0
        self._slots = [Slot() for _ in range(workers)]
        self._threads = [threading.Thread(target=self._serve, args=(slot,), daemon=True) for slot in self._slots]
        try:
            for thread in self._threads:
                thread.start()
        except BaseException:  # Ctrl-C
            self.close()
            raise

    def close(self) -> None:
        """Ends all processes and waits for them: if no job is under way, by themselves, otherwise by force."""
        with self._lock:
            self._closed = True
            idle = self._under_way == 0
        try:
            if idle:
                self._join(_LEAVE_S)
        finally:
            for slot in self._slots:
                slot.kill()
            self._join(threading.TIMEOUT_MAX)

    def _join(self, patience_s: float) -> None:
        deadline = time.monotonic() + patience_s
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, min(threading.TIMEOUT_MAX, deadline - time.monotonic())))

    def _serve(self, slot: Slot) -> None:
        try:
            while (job := self._take()) is not None:
                for message in slot.execute(job):
                    if message["type"] in {"done", "failed"}:  # before anybody reads that it is the last
                        with self._lock:
                            self._under_way -= 1
                    self.messages.put(message)
        except Exception as error:
            self.messages.put({"type": "broken", "error": error})
        finally:
            slot.stop()

    def _take(self) -> Job | None:
        with self._lock:
            job = None if self._closed else self._next_job()
            self._under_way += job is not None
            return job
