"""Worker processes: each executes one cell at a time and reports its progress."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from weir.confine import ConfineError
from weir.engine._process import Job, Message, Process

__all__ = ["Message", "Pool"]


class Pool:
    """Runs jobs in ``workers`` processes.

    ``next_job`` returns the next job or ``None``; one thread at a time calls it. Every job ends with exactly one
    ``done`` or ``failed`` message in ``messages``, even if its process dies.
    """

    def __init__(self, workers: int, next_job: Callable[[], Job | None]) -> None:
        """Starts the workers."""
        self.messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._next_job = next_job
        self._lock = threading.Lock()
        self._processes: set[Process] = set()
        self._closed = False
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(workers)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Kills all running processes and waits for them."""
        with self._lock:
            self._closed = True
            for process in self._processes:
                process.kill()
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        process: Process | None = None
        try:
            while (job := self._take()) is not None:
                if process is not None and not process.suits(job):
                    self._stop(process)
                    process = None
                if process is None:
                    process = self._start(job)
                if process is not None:
                    for message in process.execute(job):
                        self.messages.put(message)
        except Exception as error:
            self.messages.put({"type": "broken", "error": error})
        finally:
            if process is not None:
                self._stop(process)

    def _take(self) -> Job | None:
        with self._lock:
            return None if self._closed else self._next_job()

    def _start(self, job: Job) -> Process | None:
        """A process for ``job``; ``None`` if no job is left, or if the process could not be started and the job has
        failed.
        """
        with self._lock:
            if self._closed:
                return None
            try:
                process = Process(job)
            except ConfineError as error:
                self.messages.put(
                    {"type": "failed", "id": job["id"], "kind": "method", "error": str(error), "trace": ""}
                )
                return None
            self._processes.add(process)
            return process

    def _stop(self, process: Process) -> None:
        process.stop()
        with self._lock:
            self._processes.discard(process)
