"""Watches a process that calls users' congestion controls: reports the call in which it hung or died."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from weir import _weir, confine

__all__ = ["CALL_CPU_S", "CALL_WALL_S", "Watch"]

CALL_CPU_S = 2.0
"""Limit on the processor time of a call: ten million times the usual."""
CALL_WALL_S = 10 * CALL_CPU_S
"""Limit on the duration of a call; long, because other programs may keep the machine busy."""
_TICKS = os.sysconf("SC_CLK_TCK")
_READER_S, _READER_BYTES = 10, 1 << 30
"""Time and memory of a program that reads what was compiled of a user's source, which decides what is in it."""

_DEATHS = {
    signal.SIGFPE: "divides by zero",
    signal.SIGILL: "runs into undefined behaviour of C, or an invalid instruction (SIGILL)",
    signal.SIGSEGV: "accesses invalid memory (SIGSEGV)",
    signal.SIGBUS: "accesses invalid memory (SIGBUS)",
    signal.SIGTRAP: "runs into a trap (SIGTRAP)",
    signal.SIGABRT: "aborts (SIGABRT)",
    signal.SIGKILL: "was killed (SIGKILL); the usual reason is too much memory",
}


@dataclass(frozen=True)
class _Look:
    """A call in progress, and the time of observation."""

    calls: int
    cpu_s: float
    at_s: float


class Watch:
    """The record of one process' calls, a page of shared memory; must be closed.

    ``names`` maps the paths of loaded files to the names that users know.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = dict(names)
        self.fd = os.memfd_create("weir-cc-watch", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, _weir.cc_watch_bytes())
        # What writes it may make it neither shorter, so that it cannot be read, nor longer, so that it takes memory.
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        self._look: _Look | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees the memory."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def stuck(self, pid: int) -> str | None:
        """The error of a call that does not return; ``None`` while all is well. Poll it."""
        seen = self._seen()
        now = time.monotonic()
        if not seen["in_call"]:
            self._look = None
            return None
        cpu_s = _cpu_s(pid)
        if self._look is None or self._look.calls != seen["calls"]:
            self._look = _Look(seen["calls"], cpu_s, now)
            return None
        if cpu_s - self._look.cpu_s >= CALL_CPU_S:
            return f"{self._subject(seen)} does not return{self._clause(seen)}: a loop without an end?"
        if now - self._look.at_s >= CALL_WALL_S:
            took = f"it has taken {CALL_WALL_S:g} s, but less than {CALL_CPU_S:g} s of processor time"
            return f"{self._subject(seen)} does not return{self._clause(seen)}: {took}. Does it sleep or wait?"
        return None

    def death(self, code: int) -> str | None:
        """The error of a process that ended with ``code`` in a call; ``None`` if it was in none."""
        seen = self._seen()
        if not seen["in_call"]:
            return None
        if code >= 0:
            return f"{self._subject(seen)} ended the process, with status {code}{self._clause(seen)}"
        return f"{self._subject(seen)} {self._what(seen, -code)}{self._place(seen)}{self._clause(seen)}"

    def _seen(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(_weir.cc_watched(os.pread(self.fd, _weir.cc_watch_bytes(), 0)))
        return found

    def _subject(self, seen: Mapping[str, Any]) -> str:
        name = self.names.get(seen["control"], seen["control"]) or "a congestion control"
        return f"loading {name}" if seen["operation"] == "load" else f"{seen['operation']} of {name}"

    def _what(self, seen: Mapping[str, Any], number: int) -> str:
        past = seen["past_state"]
        if number == signal.SIGSEGV and past is not None and seen["operation"] != "load":
            return f"accesses memory {past} bytes after the end of its private state of 104 bytes"
        if seen["undefined"] is not None:
            return f"runs into undefined behaviour of C ({seen['undefined']})"
        try:
            return _DEATHS.get(signal.Signals(number)) or f"died of {signal.Signals(number).name}"
        except ValueError:
            return f"died of signal {number}"

    def _clause(self, seen: Mapping[str, Any]) -> str:
        return str(seen["options"])

    def _place(self, seen: Mapping[str, Any]) -> str:
        """`` at mine.c:31``, if the object has line information and a program can read it."""
        name = self.names.get(seen["control"], "")
        if seen["at"] is None or not name.endswith(".c"):
            return ""  # no program of this machine may read a file that anybody could have made
        try:
            asked = ["addr2line", "-i", "-e", seen["control"], hex(seen["at"])]
            policy = confine.Policy(read=(Path(seen["control"]),), memory_bytes=_READER_BYTES, cpu_s=_READER_S)
            done = subprocess.run(
                confine.command(asked, policy), capture_output=True, text=True, timeout=_READER_S, check=False
            )
            lines = done.stdout.splitlines()
        except (OSError, subprocess.TimeoutExpired, confine.ConfineError):
            return ""
        wanted = Path(name).name
        for line in lines:
            file, _, number = line.partition(" ")[0].rpartition(":")
            if Path(file).name == wanted and number.isdigit():
                return f" at {name}:{number}"
        return ""


def _cpu_s(pid: int) -> float:
    """Processor time of process ``pid``."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS
