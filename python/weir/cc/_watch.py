"""Watches a process that calls users' congestion controls: what it was doing when it hung or died."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from weir import _weir

__all__ = ["CALL_CPU_S", "CALL_WALL_S", "Watch"]

CALL_CPU_S = 2.0
"""Processor time that one call may take: ten million times what one takes."""
CALL_WALL_S = 30.0
"""Time that one call may take; long, because the machine may be busy with others."""
_TICKS = os.sysconf("SC_CLK_TCK")

_DEATHS = {
    signal.SIGFPE: "divides by zero",
    signal.SIGILL: "runs into what C leaves undefined, or into no instruction (SIGILL)",
    signal.SIGSEGV: "accesses memory that is not there (SIGSEGV)",
    signal.SIGBUS: "accesses memory that is not there (SIGBUS)",
    signal.SIGTRAP: "runs into a trap (SIGTRAP)",
    signal.SIGABRT: "aborts (SIGABRT)",
    signal.SIGKILL: "was killed (SIGKILL); the usual reason is too much memory",
}


@dataclass(frozen=True)
class _Look:
    """A call that was under way, and when."""

    calls: int
    cpu_s: float
    at_s: float


class Watch:
    """The record of one process' calls, a page of memory that both see; to be closed.

    ``names`` says what users call the files that it loads, by path.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = dict(names)
        self.fd = os.memfd_create("weir-cc-watch")
        os.ftruncate(self.fd, _weir.cc_watch_bytes())
        self._look: _Look | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the memory back."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def stuck(self, pid: int) -> str | None:
        """What to say of a call that does not return; ``None`` while all is well. To be asked now and then."""
        seen = self._seen()
        now = time.monotonic()
        if not seen["in_call"]:
            self._look = None
            return None
        cpu_s = _cpu_s(pid)
        if self._look is None or self._look.calls != seen["calls"]:
            self._look = _Look(seen["calls"], cpu_s, now)
            return None
        if cpu_s - self._look.cpu_s < CALL_CPU_S and now - self._look.at_s < CALL_WALL_S:
            return None
        return f"{self._subject(seen)} does not return: a loop without an end?{self._clause(seen)}"

    def death(self, code: int) -> str | None:
        """What to say of a process that ended with ``code`` in a call; ``None`` if it was in none."""
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
        try:
            return _DEATHS.get(signal.Signals(number)) or f"died of {signal.Signals(number).name}"
        except ValueError:
            return f"died of signal {number}"

    def _clause(self, seen: Mapping[str, Any]) -> str:
        return str(seen["options"])

    def _place(self, seen: Mapping[str, Any]) -> str:
        """`` at mine.c:31``, where the object knows its lines and a program can read them."""
        name = self.names.get(seen["control"], "")
        if seen["at"] is None or not name.endswith(".c"):
            return ""  # no program of this machine is to read a file that anybody may have made
        try:
            asked = ["addr2line", "-i", "-e", seen["control"], hex(seen["at"])]
            lines = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=False).stdout.splitlines()
        except (OSError, subprocess.TimeoutExpired):
            return ""
        wanted = Path(name).name
        for line in lines:
            file, _, number = line.partition(" ")[0].rpartition(":")
            if Path(file).name == wanted and number.isdigit():
                return f" at {name}:{number}"
        return ""


def _cpu_s(pid: int) -> float:
    """Processor time that the process ``pid`` has taken."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS
