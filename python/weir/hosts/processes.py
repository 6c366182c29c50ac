"""The processes of a run - agents, emulator - and their output, in one queue."""

from __future__ import annotations

import collections
import contextlib
import json
import queue
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weir._errors import MethodError
from weir.hosts.log import Log
from weir.hosts.messages import File, Frame, FrameError, Message, read
from weir.hosts.place import Place, Running

__all__ = ["PRIORITY", "Process", "ProcessError", "Said"]

_LEAVE_S = 5.0
_STDERR_LINES = 20
_LINE_BYTES = 1 << 16
PRIORITY = -20
"""Priority of a run's processes (setpriority(2)): they need little time, but at once, whatever the load."""


class ProcessError(MethodError):
    """A process of the run failed; the message has its output."""


@dataclass(frozen=True)
class Said:
    """A message of a process; ``what`` is ``None`` at the end of its output."""

    by: Process
    what: Message | Frame | File | FrameError | None


class Process:
    """A program that executes a job (``crates/weir-protocol``).

    It ends at the latest when its standard input does: so it does not outlive this process, wherever it is.
    """

    def __init__(self, name: str, process: Running, place: Place, said: queue.SimpleQueue[Said]) -> None:
        """Takes ``process``, which ``place`` has started; its output goes to ``said``."""
        self.name = name
        self.place = place
        self._said = said
        self._errors: collections.deque[str] = collections.deque(maxlen=_STDERR_LINES)
        self.log = Log()
        """What it wrote to its standard error."""
        self._process = process
        self._threads = [threading.Thread(target=target, daemon=True) for target in (self._read, self._read_errors)]
        for thread in self._threads:
            thread.start()

    def send(self, line: Mapping[str, Any]) -> None:
        """Sends the job, or a command.

        Raises:
            ProcessError: it does not listen any more.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(line).encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError) as error:  # it has ended, or another thread has closed it
            raise self.failure() from error

    def failure(self, reason: str = "") -> ProcessError:
        """An error that explains the failure: ``reason``, or how it ended, and its last messages."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        code = self._process.poll()
        ended = "stopped listening" if code is None else f"ended with status {code}"
        words = "\n".join(self._errors)
        return ProcessError(f"{self.name} {reason or ended}" + (f":\n{words}" if words and not reason else ""))

    def kill(self) -> None:
        """Ends it at once, if it still runs: it may have been stopped, and would not notice the end of its input."""
        self._process.kill()

    def close(self) -> None:
        """Ends it: by the end of its input, by force if that does not help."""
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for thread in self._threads:
            thread.join(_LEAVE_S)
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            for what in read(self._process.stdout):
                self._said.put(Said(self, what))
        except FrameError as error:
            self._said.put(Said(self, error))
        except ValueError:  # closed meanwhile
            pass
        self._said.put(Said(self, None))

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with contextlib.suppress(ValueError):
            while line := self._process.stderr.readline(_LINE_BYTES):
                self.log.add(line)
                self._errors.append(line.decode(errors="replace").rstrip())
