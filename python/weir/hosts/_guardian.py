"""The process that cleans up after a run, however the run ended: ``python _guardian.py TAG``.

It reads JSON objects from standard input, one per line: ``{"undo": [[program, argument, ...], ...], "cgroup": PATH}``,
before the objects to be undone are made, and ``{"networks": [NUMBER, ...]}`` after that. When standard input ends,
because the run is over or its process was killed, it ends the processes of the run and executes the commands. A process
belongs to the run if it carries the tag in its environment, is in the control group or in one of the networks: a daemon
that cleared its environment is still in the others. The guardian imports nothing of weir, so that it starts within
milliseconds, and has a session of its own, so that the run's end does not end it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Work", "main"]

_VARIABLE = b"WEIR_RUN="
_PATIENCE_S = 1.0
"""Time for processes to end by themselves: they notice the end of their standard input."""
_KILL_S = 10.0
"""Time for killed processes to end."""
_COMMAND_S = 30.0
_RETRY_S, _PAUSE_S = 20.0, 0.1
"""Time to retry a command that cannot be started: killed processes count as processes until they are reaped."""


@dataclass
class Work:
    """The work to undo."""

    tag: str
    commands: list[list[str]] = field(default_factory=list)
    cgroup: Path | None = None
    groups: list[str] = field(default_factory=list)
    """Other control groups, to be removed; their processes are also in ``cgroup``."""
    networks: set[int] = field(default_factory=set)
    """Inode numbers of network namespaces (namespaces(7))."""

    def take(self, line: str) -> None:
        """Adds the content of an input line; a partial line, whose writer was killed, is ignored."""
        with contextlib.suppress(ValueError, AttributeError, TypeError):
            said = json.loads(line)
            self.commands += said.get("undo", [])
            self.groups += said.get("groups", [])
            self.networks.update(said.get("networks", []))
            self.cgroup = Path(said["cgroup"]) if said.get("cgroup") else self.cgroup

    def undo(self) -> None:
        """Ends the processes, then executes the commands."""
        self._end_processes()
        for command in self.commands:
            _execute(command)
        for group in (*([] if self.cgroup is None else [self.cgroup]), *map(Path, self.groups)):
            with contextlib.suppress(OSError):
                group.rmdir()

    def _end_processes(self) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while found := self._processes():
            if time.monotonic() > deadline:
                self._kill(found)
            time.sleep(0.01)
            if time.monotonic() > deadline + _KILL_S:
                return

    def _kill(self, found: Iterable[int]) -> None:
        if self.cgroup is not None:
            with contextlib.suppress(OSError):  # before Linux 5.14, one by one
                (self.cgroup / "cgroup.kill").write_text("1")
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _processes(self) -> set[int]:
        # Excludes this process' own, in case a namespace could not be made and the number is the host's.
        networks = self.networks - {_network_of("self")}
        found = set(self._in_cgroup())
        for pid in _all():
            if _network_of(pid) in networks or _VARIABLE + self.tag.encode() in _environment_of(pid):
                found.add(pid)
        return {pid for pid in found if pid != os.getpid() and _runs(pid)}

    def _in_cgroup(self) -> Iterator[int]:
        if self.cgroup is not None:
            with contextlib.suppress(OSError):
                yield from map(int, (self.cgroup / "cgroup.procs").read_text().split())


def main() -> None:
    """Waits for the end of standard input, then undoes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    work = Work(sys.argv[1])
    for line in sys.stdin:
        work.take(line)
    work.undo()


def _all() -> Iterator[int]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            yield int(folder.name)


def _network_of(pid: int | str) -> int:
    try:
        return Path(f"/proc/{pid}/ns/net").stat().st_ino
    except OSError:
        return 0


def _environment_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _runs(pid: int) -> bool:
    """Whether it is alive, not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _execute(command: list[str]) -> None:
    quiet = subprocess.DEVNULL
    end = time.monotonic() + _RETRY_S
    while True:
        try:
            subprocess.run(command, stdin=quiet, stdout=quiet, stderr=quiet, timeout=_COMMAND_S, check=False)
        except subprocess.TimeoutExpired:
            return
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ENOMEM) or time.monotonic() > end:
                return
            time.sleep(_PAUSE_S)
        else:
            return


if __name__ == "__main__":
    main()
