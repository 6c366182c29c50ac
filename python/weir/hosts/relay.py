"""A place that is reached by a stream of bytes: a machine behind a command such as ``ssh HOST``, a lab's guest.

At the far end is the program ``_relay.py``, which needs nothing but Python. When the stream ends - because the place is
closed, or this process or the way to it is no more - it ends all that was started there and removes its folder.
"""

from __future__ import annotations

import base64
import collections
import contextlib
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
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from weir.hosts import _relay
from weir.hosts._far import FarProcess
from weir.hosts.place import PATIENCE_S, Clock, Place, PlaceError, Ran, Running, here_ns, plain

__all__ = ["Relay", "far_end", "reach"]

_PROGRAM = Path(_relay.__file__)
_ASKS = "weir-relay asks"
_BOOT = (
    f'import base64,zlib;print("{_ASKS}",flush=True);'
    'exec(zlib.decompress(base64.b64decode(open(0,"rb",0,closefd=False).readline())))'
)
"""Takes the program from standard input, which others cannot read, as they can a command line.

It asks first: a login shell's start files may read what comes before. A stream without a buffer reads no further than
the line. One line, without backslash, apostrophe and exclamation mark, means the same to sh, csh and fish.
"""
_HELLO_S = 60.0
_ANSWER_S = 60.0
_LEAVE_S = 5.0
_ASKED = 9
"""So often a clock is asked; the shortest round trip counts."""
_MAX_LINE = 1 << 16
_MAX_FRAME = 1 << 20
_MAX_FILE = 1 << 30
_STDERR_LINES = 20


def far_end(folder: str, python: str = sys.executable, *, carried: bool = False) -> tuple[str, ...]:
    """The command of the far end, whose own folder it makes in ``folder``.

    Args:
        python: Python 3.8 or later, there.
        carried: The command asks for the program, for machines that do not have the files of this one.
    """
    program = ("-c", _BOOT) if carried else (str(_PROGRAM),)
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
        self.user: int | None = None
        """The number of the user there, if it was told."""
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
        return self._finish(self._started(command), command, given, timeout_s)

    def _finish(self, process: FarProcess, command: Sequence[str], given: bytes, timeout_s: float) -> Ran:
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

    def start_python(self, path: str, *arguments: str) -> Running:
        """Starts a program in Python that was put there, as a copy of the far end, without starting an interpreter.

        Raises:
            PlaceError: it cannot be started.
        """
        return self._copy(path, *arguments)

    def run_python(
        self,
        program: str,
        *arguments: str,
        given: bytes = b"",
        timeout_s: float = PATIENCE_S,
        python: str = "",
    ) -> Ran:
        """See :meth:`weir.hosts.place.Place.run_python`; a copy of the far end executes it (:meth:`start_python`)."""
        return self._finish(self._copy(program, *arguments), (program, *arguments), given, timeout_s)

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

    def leave(self, command: Sequence[str], given: bytes = b"") -> int:
        """Starts ``command``, which reads ``given`` and is not heard; it may outlive the place. Its process' id there.

        Raises:
            PlaceError: it cannot be started.
        """
        return int(self._ask({"do": "leave", "command": list(command)}, given)[0]["pid"])

    def leave_python(self, path: str, *arguments: str) -> int:
        """As :meth:`leave`, a program as :meth:`start_python` takes it; it reads nothing."""
        return int(self._ask({"do": "leave", "command": [path, *arguments], "python": True})[0]["pid"])

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

    def _started(self, command: Sequence[str]) -> FarProcess:
        return FarProcess(self, command)

    def _copy(self, *words: str) -> FarProcess:
        return FarProcess(self, words, python=True)

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
        """Reads up to the first line of the far end, and that; gives it its program, once, if it asks for it."""
        asked = False
        while line := self._receive.readline(_MAX_LINE):
            if not asked and _ASKS.encode() in line:
                asked = True
                self._send.write(base64.b64encode(zlib.compress(_PROGRAM.read_bytes())) + b"\n")
                self._send.flush()
            _, begins, rest = line.rpartition(_relay.HELLO)
            if begins:
                about = json.loads(rest)
                self._window = max(0, int(about["window"]))
                user = about.get("user")
                self.user = user if isinstance(user, int) else None
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
