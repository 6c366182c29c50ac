"""Executes a scheduler's command, here or on a front end, with bounds on its time and on what it says."""

from __future__ import annotations

import contextlib
import os
import selectors
import shlex
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from weir import _ssh
from weir.reserve._request import FrontEnd
from weir.reserve.errors import ReserveError

__all__ = ["Answer", "UnansweredError", "UnreachedError", "ask", "reach"]

TIMEOUT_S = 60.0
"""A busy scheduler answers late: Slurm's own ``MessageTimeout`` is 10 s, and its commands try again."""
_MAX_BYTES = 1 << 22
_CHUNK = 1 << 16
_SHOWN = 2000


class UnansweredError(ReserveError):
    """A command gave no answer: whether it did its work is not known."""


class UnreachedError(ReserveError):
    """A command was not executed: its program is missing, or its front end cannot be reached."""


@dataclass(frozen=True)
class Answer:
    """What a command said."""

    command: str
    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """What it said to people: its standard error, else its output, bounded and without control characters."""
        text = " ".join((self.err.strip() or self.out.strip()).split())
        plain = "".join(letter if letter.isprintable() else "?" for letter in text)
        return plain[:_SHOWN] or f"exit code {self.code}"


def ask(front_end: FrontEnd | None, words: Sequence[str], given: bytes = b"", timeout_s: float = TIMEOUT_S) -> Answer:
    """Executes ``words`` on ``front_end``, or here, with ``given`` as standard input, messages in English.

    Raises:
        UnansweredError: it did not end in ``timeout_s``, a signal ended it, it said too much, or the front end is lost.
        UnreachedError: the program is not there.
    """
    english = ["env", "LC_ALL=C", *words]
    command = english if front_end is None else _over(front_end, english)
    where = "" if front_end is None else f"{front_end}: "
    name = f"{where}`{shlex.join(words)[:200]}`"
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise UnreachedError(f"{name}: {error.strerror}") from error
    try:
        out, err = _exchanged(process, given, time.monotonic() + timeout_s, name)
    finally:
        _end(process)
    answer = Answer(name, process.returncode, out, err)
    if answer.code == 127:  # env(1): the program is not found
        raise UnreachedError(f"{name}: there is no such program: {answer.words}")
    if answer.code < 0 or (front_end is not None and answer.code == _ssh.LOST):
        raise UnansweredError(f"{name}: {answer.words}")
    return answer


def reach(front_end: FrontEnd | None) -> None:
    """Checks that commands can be executed, before one that must not get lost.

    Raises:
        UnreachedError: they cannot.
    """
    if front_end is not None:
        try:
            ask(front_end, ["true"])
        except UnansweredError as error:
            raise UnreachedError(f"front end {error}") from error


def _over(front_end: FrontEnd, words: Sequence[str]) -> list[str]:
    return _ssh.command(
        front_end.address,
        words,
        user=front_end.user,
        port=front_end.port,
        key=front_end.key,
        jump=front_end.jump,
        known_hosts=front_end.known_hosts,
    )


def _exchanged(process: subprocess.Popen[bytes], given: bytes, deadline: float, name: str) -> tuple[str, str]:
    """Writes the input while it reads both outputs, to their ends."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    heard: dict[IO[bytes], bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as selector:
        for stream in heard:
            selector.register(stream, selectors.EVENT_READ)
        os.set_blocking(process.stdin.fileno(), False)
        selector.register(process.stdin, selectors.EVENT_WRITE)
        rest = memoryview(given)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise UnansweredError(f"{name}: no answer in time")
            for key, _ in ready:
                if key.fileobj is process.stdin:
                    rest = _write(process.stdin, rest)
                    if not rest:
                        selector.unregister(process.stdin)
                        with contextlib.suppress(OSError):
                            process.stdin.close()
                    continue
                stream = next(one for one in heard if one is key.fileobj)
                chunk = os.read(stream.fileno(), _CHUNK)
                heard[stream] += chunk
                if not chunk:
                    selector.unregister(stream)
                elif len(heard[stream]) > _MAX_BYTES:
                    raise UnansweredError(f"{name}: it said more than {_MAX_BYTES >> 20} MiB")
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired as error:
        raise UnansweredError(f"{name}: it did not end in time") from error
    out, err = (bytes(said).decode(errors="replace") for said in heard.values())
    return out, err


def _write(stream: IO[bytes], rest: memoryview) -> memoryview:
    """Writes what the pipe takes; nothing remains if its reader is gone."""
    try:
        return rest[os.write(stream.fileno(), rest[:_CHUNK]) :] if rest else rest
    except BlockingIOError:
        return rest
    except OSError:
        return rest[:0]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the command and all that it started in its session; no more than that."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
