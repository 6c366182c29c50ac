"""Worker processes: each executes one cell at a time and says how far it is."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Pool"]

Message = dict[str, Any]
"""``progress`` (id, now_ns, live), ``done`` (id, warnings, stats, wall_s) or ``failed`` (id, kind, error, trace)."""


class Pool:
    """Runs jobs in ``workers`` processes.

    ``next_job`` gives the next job or ``None``; it is called by one thread at a time. Every job ends with exactly one
    ``done`` or ``failed`` message in ``messages``, also if its process dies.
    """

    def __init__(self, workers: int, next_job: Callable[[], Message | None]) -> None:
        """Starts the workers."""
        self.messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._next_job = next_job
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[str]] = set()
        self._closed = False
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(workers)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Kills whatever still runs, and waits for it."""
        with self._lock:
            self._closed = True
            for process in self._processes:
                process.kill()
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        process: subprocess.Popen[str] | None = None
        try:
            while (job := self._take()) is not None:
                if process is None or process.poll() is not None:
                    process = self._start()
                if process is None or not self._execute(process, job):
                    process = None
        except Exception as error:
            self.messages.put({"type": "broken", "error": error})
        finally:
            if process is not None:
                self._stop(process)

    def _take(self) -> Message | None:
        with self._lock:
            return None if self._closed else self._next_job()

    def _start(self) -> subprocess.Popen[str] | None:
        with self._lock:
            if self._closed:
                return None
            process = subprocess.Popen(
                [sys.executable, "-m", "weir.engine.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                process_group=0,  # Ctrl-C is for us alone; we end the workers
                env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            )
            self._processes.add(process)
            return process

    def _execute(self, process: subprocess.Popen[str], job: Message) -> bool:
        """Has ``process`` execute ``job``; whether the process is still good."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            for line in process.stdout:
                message: Message = json.loads(line)
                self.messages.put(message)
                if message["type"] != "progress":
                    return True
        except BrokenPipeError:
            pass
        self._stop(process)
        self.messages.put({"type": "failed", "id": job["id"], "kind": "died", "error": _death(process), "trace": ""})
        return False

    def _stop(self, process: subprocess.Popen[str]) -> None:
        for pipe in (process.stdin, process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except BrokenPipeError:
                continue
        process.wait()
        with self._lock:
            self._processes.discard(process)


def _death(process: subprocess.Popen[str]) -> str:
    code = process.returncode
    if code == -signal.SIGKILL:
        return "its process was killed (signal 9); the usual reason is too little memory: try fewer --workers"
    if code is not None and code < 0:
        return f"its process died of {signal.Signals(-code).name}"
    return f"its process ended with status {code}"
