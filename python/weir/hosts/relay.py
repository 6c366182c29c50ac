"""A place that is reached by a stream of bytes: a machine behind a command such as ``ssh HOST``, a lab's guest.

At the far end is the program ``_relay.py``, which needs nothing but Python. When the stream ends - because the place is
closed, or this process or the way to it is no more - it ends all that was started there and removes its folder.
"""

from __future__ import annotations

import collections
import contextlib
import io
import itertools
import json
import os
import queue
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from weir.hosts import _relay
from weir.hosts.place import PATIENCE_S, Clock, Place, PlaceError, Ran, Running, here_ns, plain

__all__ = ["Relay", "far_end", "reach"]

_PROGRAM = Path(_relay.__file__)
_HELLO_S = 60.0
_ANSWER_S = 60.0
_LEAVE_S = 5.0
_ASKED = 9
"""So often a clock is asked; the shortest round trip counts."""
_MAX_LINE = 1 << 16
_MAX_FRAME = 1 << 20
_MAX_FILE = 1 << 30
_MAX_UNREAD = 1 << 28
"""Bytes of a stream that nobody has read; beyond it the far end waits."""
_CHUNK = 1 << 16
_STDERR_LINES = 20
_KILL = 9
_CUT = "the way to it was cut"

Buffer = bytearray | memoryview


def far_end(folder: str, python: str = sys.executable, *, carried: bool = False) -> tuple[str, ...]:
    """The command of the far end, whose own folder it makes in ``folder``.

    Args:
        python: Python 3.8 or later, there.
        carried: The command has the program in it, for machines that do not have the files of this one.
    """
    program = ("-c", _PROGRAM.read_text(encoding="utf-8")) if carried else (str(_PROGRAM),)
    return (python, "-I", "-S", *program, folder)


class Relay(Place):
    """A place at the other end of two streams."""

    def __init__(
        self, name: str, send: IO[bytes], receive: IO[bytes], why: Callable[[], str] = str, patience_s: float = _HELLO_S
    ) -> None:
        """Waits for the far end; ``why`` says, where it is gone, what there is to say about that.

        Raises:
            PlaceError: it does not come.
        """
        self.name = name
        self._send = send
        self._receive = receive
        self._why = why
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._heard: dict[int, Callable[[Mapping[str, Any] | None, bytes], None]] = {}
        self._gone = threading.Event()
        self._window = 0
        self._under_way = 0
        self._taken = threading.Condition()
        hello: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, args=(hello,), daemon=True)
        self._reader.start()
        try:
            folder = hello.get(timeout=patience_s)
        except queue.Empty:
            folder = None
        if folder is None:
            raise PlaceError(f"{self.name} cannot be reached{self._reason()}")
        self.folder = folder
        """Its own folder, in which commands run."""

    def run(self, command: Sequence[str], given: bytes = b"", timeout_s: float = PATIENCE_S) -> Ran:
        """See :meth:`weir.hosts.place.Place.run`."""
        process = self._started(command)
        try:
            with contextlib.suppress(OSError):  # it has ended, and reads nothing
                process.stdin.write(given)
                process.stdin.close()
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise PlaceError(f"{self.name}: `{shlex.join(command)}` did not end in {timeout_s:g} s") from error
        finally:
            process.kill()
        return Ran(code, process.stdout.read(), process.stderr.read())

    def start(self, command: Sequence[str]) -> Running:
        """See :meth:`weir.hosts.place.Place.start`."""
        return self._started(command)

    def put(self, name: str, content: bytes, *, executable: bool = False) -> str:
        """See :meth:`weir.hosts.place.Place.put`."""
        mode = 0o700 if executable else 0o600
        answer, _ = self._ask({"do": "put", "name": plain(name), "mode": mode}, content)
        return str(answer.get("path"))

    def get(self, path: str) -> bytes:
        """See :meth:`weir.hosts.place.Place.get`; a relative path is one of the place's folder."""
        return self._ask({"do": "get", "path": path})[1]

    def clock(self) -> Clock:
        """See :meth:`weir.hosts.place.Place.clock`: the best of some questions."""
        return min((self.reading() for _ in range(_ASKED)), key=lambda clock: clock.error_ns)

    def limit(self, seconds: int) -> int:
        """Has the far end leave, as at the end of its stream, when it has heard nothing for so long; its process' id.

        Raises:
            PlaceError: it does not answer.
        """
        return int(self._ask({"do": "limit", "seconds": seconds})[0]["pid"])

    def leave(self, command: Sequence[str]) -> int:
        """Starts ``command`` without streams; it may outlive the place. Its process' id there.

        Raises:
            PlaceError: it cannot be started.
        """
        return int(self._ask({"do": "leave", "command": list(command)})[0]["pid"])

    @property
    def gone(self) -> bool:
        """Whether the far end is there no more."""
        return self._gone.is_set()

    def cut(self) -> None:
        """Gives the way up without waiting: for one that hangs."""
        with contextlib.suppress(OSError, ValueError):
            self._send.close()

    def close(self) -> None:
        """See :meth:`weir.hosts.place.Place.close`."""
        with contextlib.suppress(OSError, ValueError):
            self._send.close()
        self._gone.wait(_LEAVE_S)

    def reading(self) -> Clock:
        """One reading of its clock.

        Raises:
            PlaceError: it does not answer.
        """
        before_ns = here_ns()
        answer, _ = self._ask({"do": "clock"})
        after_ns = here_ns()
        reading_ns = answer.get("monotonic_ns")
        if not isinstance(reading_ns, int) or not 0 <= reading_ns < 1 << 63:
            raise self.failure("it tells no time")
        return Clock((before_ns + after_ns) // 2, reading_ns, (after_ns - before_ns + 1) // 2)

    def _started(self, command: Sequence[str]) -> _Far:
        return _Far(self, command)

    # The stream.

    def say(self, number: int, what: Mapping[str, Any], content: bytes = b"") -> None:
        """Sends a frame.

        Raises:
            BrokenPipeError: the far end is gone.
        """
        data = json.dumps({**what, "id": number, "bytes": len(content)}).encode() + b"\n" + content
        try:
            if self._gone.is_set():
                raise OSError("it is gone")
            with self._lock:
                for piece in self._pieces(data):
                    self._send.write(piece)
                    self._send.flush()
        except (OSError, ValueError) as error:
            raise BrokenPipeError(f"{self.name} is not there any more{self._reason()}") from error

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        """``data`` as the far end can take it, if it has to be spared: each piece when there is room for it."""
        if not self._window:
            yield data
            return
        half = self._window // 2  # and as much again, before it has said that it has taken the first
        for begin in range(0, len(data), half):
            piece = data[begin : begin + half]
            with self._taken:
                if not self._taken.wait_for(lambda: self._under_way <= half or self._gone.is_set(), _ANSWER_S):
                    raise OSError("it reads nothing any more")
                self._under_way += len(piece)
            yield piece

    def hear(self, number: int, take: Callable[[Mapping[str, Any] | None, bytes], None]) -> None:
        """Has ``take`` be given every answer to the question ``number``, and ``None`` when the far end is gone."""
        self._heard[number] = take

    def number(self) -> int:
        """A number that no question has had."""
        return next(self._numbers)

    def forget(self, number: int) -> None:
        """Nothing more is to come."""
        self._heard.pop(number, None)

    def failure(self, text: str = "") -> PlaceError:
        """An error of this place."""
        return PlaceError(f"{self.name}: {text}" if text else f"{self.name} is not there any more{self._reason()}")

    def _ask(self, question: Mapping[str, Any], content: bytes = b"") -> tuple[Mapping[str, Any], bytes]:
        answers: queue.SimpleQueue[tuple[Mapping[str, Any] | None, bytes]] = queue.SimpleQueue()
        number = self.number()
        self.hear(number, lambda answer, data: answers.put((answer, data)))
        parts: list[bytes] = []
        deadline = time.monotonic() + _ANSWER_S
        try:
            self.say(number, question, content)
            while True:
                answer, data = answers.get(timeout=max(0.0, deadline - time.monotonic()))
                if answer is None:
                    raise self.failure()
                if answer.get("is") == "error":
                    raise self.failure(str(answer.get("text")))
                parts.append(data)
                if answer.get("is") != "file" or not data:
                    return answer, b"".join(parts)
                if sum(map(len, parts)) > _MAX_FILE:
                    raise self.failure(f"{question['path']} has more than {_MAX_FILE} bytes")
        except queue.Empty:
            raise self.failure(f"no answer in {_ANSWER_S:g} s") from None
        except BrokenPipeError as error:
            raise PlaceError(str(error)) from error
        finally:
            self.forget(number)

    def _read(self, hello: queue.SimpleQueue[str | None]) -> None:
        """Hands out what comes, until the end or what is no frame: whoever is at the far end may say anything."""
        try:
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
                self._meet(hello)
                while self._hand_out():
                    pass
        finally:
            self._gone.set()
            hello.put(None)
            with self._taken:
                self._taken.notify_all()
            for take in list(self._heard.values()):
                take(None, b"")

    def _meet(self, hello: queue.SimpleQueue[str | None]) -> None:
        """Reads up to the first line of the far end, and that."""
        while line := self._receive.readline(_MAX_LINE):
            _, begins, rest = line.rpartition(_relay.HELLO)
            if begins:
                about = json.loads(rest)
                self._window = max(0, int(about["window"]))
                hello.put(str(about["folder"]))
                return

    def _hand_out(self) -> bool:
        """Takes a frame; whether it was one.

        Raises:
            ValueError, KeyError, TypeError, RecursionError: it was not.
        """
        line = self._receive.readline(_MAX_LINE)
        if not line:
            return False
        answer = json.loads(line)
        size = int(answer["bytes"])
        if not 0 <= size <= _MAX_FRAME:
            return False
        data = self._receive.read(size)
        take = self._heard.get(answer["id"])
        if take is not None:
            take(answer, data)
        elif answer["is"] == "taken":
            with self._taken:
                self._under_way -= int(answer["count"])
                self._taken.notify_all()
        return len(data) == size

    def _reason(self) -> str:
        text = self._why()
        return f": {text}" if text else ""


class _Far:
    """A process of a place that is reached by a stream."""

    def __init__(self, relay: Relay, command: Sequence[str]) -> None:
        """Starts it.

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
            relay.say(self._number, {"do": "start", "command": list(command)})
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


class _Reached(Relay):
    """A place that a command leads to."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None, patience_s: float
    ) -> None:
        self._errors: collections.deque[str] = collections.deque(maxlen=_STDERR_LINES)
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env=None if environment is None else dict(environment),
                process_group=0,  # an interrupt at the terminal is for this process, which closes its places
            )
        except OSError as error:
            raise PlaceError(f"{name} cannot be reached: {command[0]}: {error.strerror}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._listener = threading.Thread(target=self._read_errors, daemon=True)
        self._listener.start()
        try:
            super().__init__(name, self._process.stdin, self._process.stdout, self._last_words, patience_s)
        except BaseException:
            self._kill()  # it may hang: whoever waits has waited long enough
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            raise

    def cut(self) -> None:
        """See :meth:`Relay.cut`: the command ends, and so do the streams."""
        self._process.kill()

    def close(self) -> None:
        """See :meth:`weir.hosts.place.Place.close`."""
        super().close()
        try:
            self._process.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            self._kill()

    def _kill(self) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # and what it started to get there
            self._process.wait()

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
            self._listener.join(1.0)  # what it wrote last may still be unread
        return "; ".join(self._errors)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with contextlib.suppress(ValueError, OSError):
            for line in self._process.stderr:
                self._errors.append(line.decode(errors="replace").rstrip())


def reach(
    name: str, command: Sequence[str], environment: Mapping[str, str] | None = None, patience_s: float = _HELLO_S
) -> Relay:
    """The place ``name`` to which ``command`` leads: :func:`far_end`, itself or behind a program that goes elsewhere.

    Such a program is ``ssh HOST``, which wants one word: ``shlex.join(far_end("/tmp", "python3", carried=True))``.

    Raises:
        PlaceError: there is no such way, or no Python at its end; the message has the last words of the command.
    """
    return _Reached(name, command, environment, patience_s)
