"""A process at the far end of a stream of bytes, and its three streams."""

from __future__ import annotations

import collections
import contextlib
import io
import queue
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from weir.hosts.place import PlaceError

if TYPE_CHECKING:
    from weir.hosts.relay import Relay

__all__ = ["FarProcess"]

_ANSWER_S = 60.0
_MAX_UNREAD = 1 << 28
"""Bytes of a stream that nobody has read; beyond it the far end waits."""
_CHUNK = 1 << 16
_KILL = 9
_CUT = "the way to it was cut"

Buffer = bytearray | memoryview


class FarProcess:
    """A process of a place that is reached by a stream."""

    def __init__(self, relay: Relay, command: Sequence[str], *, python: bool = False) -> None:
        """Starts it; with ``python``, ``command`` is a program in Python there and its arguments.

        Raises:
            PlaceError: it cannot be started.
        """
        self._relay = relay
        self._code: int | None = None
        self._ended = threading.Event()
        self._begun: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._streams = {"out": _Stream(), "err": _Stream()}
        self._number = relay.number()
        relay.hear(self._number, self._take)
        try:
            relay.say(self._number, {"do": "start", "command": list(command), **({"python": True} if python else {})})
            trouble = self._begun.get(timeout=_ANSWER_S)
        except queue.Empty:
            raise relay.failure(f"{command[0]} was not started in {_ANSWER_S:g} s") from None
        except BrokenPipeError as error:
            raise PlaceError(str(error)) from error
        if trouble is not None:
            relay.forget(self._number)
            if trouble == _CUT:
                raise relay.failure()
            raise relay.failure(f"{command[0]} cannot be started: {trouble}")
        self.stdin: IO[bytes] = io.BufferedWriter(_Input(relay, self._number), _CHUNK)
        self.stdout: IO[bytes] = io.BufferedReader(self._streams["out"], _CHUNK)
        self.stderr: IO[bytes] = io.BufferedReader(self._streams["err"], _CHUNK)

    def poll(self) -> int | None:
        """See :meth:`weir.hosts.place.Running.poll`."""
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """See :meth:`weir.hosts.place.Running.wait`."""
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(f"a process of {self._relay.name}", timeout or 0.0)
        assert self._code is not None
        return self._code

    def kill(self) -> None:
        """See :meth:`weir.hosts.place.Running.kill`."""
        if not self._ended.is_set():
            with contextlib.suppress(BrokenPipeError):
                self._relay.say(self._number, {"do": "signal", "number": _KILL})

    def _take(self, answer: Mapping[str, Any] | None, data: bytes) -> None:
        kind = None if answer is None else answer.get("is")
        if kind == "started":
            self._begun.put(None)
        elif kind in self._streams:
            self._streams[kind].add(data)
        elif kind == "error" and answer is not None:
            self._begun.put(str(answer.get("text")))
        else:  # it has ended, or the way to it: then it is killed
            self._code = int(answer["code"]) if answer is not None else -_KILL
            for stream in self._streams.values():
                stream.add(b"")
            self._relay.forget(self._number)
            self._begun.put(_CUT)
            self._ended.set()


class _Input(io.RawIOBase):
    """The standard input of a far process; what it does not read at once waits there."""

    def __init__(self, relay: Relay, number: int) -> None:
        super().__init__()
        self._relay = relay
        self._number = number

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        given = memoryview(data).cast("B")
        for begin in range(0, len(given), _CHUNK):
            self._relay.say(self._number, {"do": "write"}, bytes(given[begin : begin + _CHUNK]))
        return len(given)

    def close(self) -> None:
        if not self.closed:
            with contextlib.suppress(BrokenPipeError):
                self._relay.say(self._number, {"do": "close"})
        super().close()


class _Stream(io.RawIOBase):
    """What a far process has written, as a stream that ends when it does."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: collections.deque[bytes] = collections.deque()
        self._size = 0
        self._over = False
        self._changed = threading.Condition()

    def add(self, data: bytes) -> None:
        """Adds ``data``; nothing is the end. Waits while too much is unread."""
        with self._changed:
            self._changed.wait_for(lambda: self._size < _MAX_UNREAD or self.closed)
            self._over = self._over or not data
            if data and not self.closed:
                self._parts.append(data)
                self._size += len(data)
            self._changed.notify_all()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:  # type: ignore[override]
        view = memoryview(buffer).cast("B")
        with self._changed:
            self._changed.wait_for(lambda: self._parts or self._over)
            if not self._parts:
                return 0
            part = self._parts.popleft()
            count = min(len(part), len(view))
            view[:count] = part[:count]
            if count < len(part):
                self._parts.appendleft(part[count:])
            self._size -= count
            self._changed.notify_all()
            return count

    def close(self) -> None:
        with self._changed:
            super().close()
            self._changed.notify_all()
