"""This machine as a place, or one of its network namespaces."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weir import _owner
from weir._remove import remove_quietly
from weir.hosts.namespaces import within
from weir.hosts.place import PATIENCE_S, Clock, Place, PlaceError, Ran, here_ns, plain

__all__ = ["PREFIX", "Local"]

PREFIX = "weir-place-"
"""Begin of the names of folders of places; a tag is the rest."""
_LEAVE_S = 2.0
_POLL_S = 0.005


def _nobody(_: int) -> None:
    pass


@dataclass
class Local(Place):
    """This machine. Commands have this process' working directory, and each is the head of a process group of its own.

    With the tag of a run in ``environment`` (:mod:`weir._owner`), its guardian ends them if this process is killed.
    """

    network: str | None = None
    """Path of the network namespace in which commands run; ``None``: the one of this process."""
    environment: Mapping[str, str] | None = None
    """Of commands; ``None``: that of this process."""
    take: Callable[[int], None] = _nobody
    """Is given the number of each process that was started."""
    priority: int | None = None
    """Of processes that are started (setpriority(2)), where that is permitted."""
    name: str = "this machine"
    _folder: Path | None = None
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def run(self, command: Sequence[str], given: bytes = b"", timeout_s: float = PATIENCE_S) -> Ran:
        """See :meth:`weir.hosts.place.Place.run`."""
        process = self._popen(command)
        try:
            out, err = process.communicate(given, timeout_s)
        except subprocess.TimeoutExpired as error:
            raise PlaceError(f"`{shlex.join(command)}` did not end in {timeout_s:g} s") from error
        finally:
            if process.returncode is None:  # its time is over, or this process is interrupted
                _kill_group(process)
                process.communicate()
        return Ran(process.returncode, out, err)

    def start(self, command: Sequence[str], files: Sequence[int] = ()) -> subprocess.Popen[bytes]:
        """See :meth:`weir.hosts.place.Place.start`; ``files`` are descriptors that the process may use, too."""
        process = self._popen(command, pass_fds=files)
        self._started.append(process)
        if self.priority is not None:
            with contextlib.suppress(OSError):  # without the privilege, as any other
                os.setpriority(os.PRIO_PROCESS, process.pid, self.priority)
        self.take(process.pid)
        return process

    def put(self, name: str, content: bytes, *, executable: bool = False) -> str:
        """See :meth:`weir.hosts.place.Place.put`."""
        try:
            if self._folder is None:
                self._folder = _owner.make_folder(Path(tempfile.gettempdir()), PREFIX)
            path = self._folder / plain(name)
            path.write_bytes(content)
            path.chmod(0o700 if executable else 0o600)
        except OSError as error:
            raise PlaceError(f"{self.name}: {name} cannot be written: {error.strerror}") from error
        return str(path)

    def get(self, path: str) -> bytes:
        """See :meth:`weir.hosts.place.Place.get`."""
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise PlaceError(f"{self.name}: {path} cannot be read: {error.strerror}") from error

    def clock(self) -> Clock:
        """This process' clock is the machine's."""
        now_ns = here_ns()
        return Clock(now_ns, now_ns)

    def close(self) -> None:
        """See :meth:`weir.hosts.place.Place.close`."""
        started, self._started = self._started, []
        for process in started:
            _end(process)
        folder, self._folder = self._folder, None
        if folder is not None:
            remove_quietly(folder)

    def _popen(self, command: Sequence[str], **how: Any) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        how |= {"env": None if self.environment is None else dict(self.environment), "process_group": 0}

        def popen() -> subprocess.Popen[bytes]:
            return subprocess.Popen(list(command), stdin=pipe, stdout=pipe, stderr=pipe, **how)

        try:
            return popen() if self.network is None else within(self.network, popen)
        except OSError as error:
            raise PlaceError(f"{command[0]} cannot be started: {error}") from error


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends ``process``: by the end of its input, by force if that does not help, and with it what is in its group."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(OSError):
            if pipe is not None:
                pipe.close()
    deadline = time.monotonic() + _LEAVE_S
    while process.returncode is None and _runs(process.pid) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    if process.returncode is None:  # or the number may be another's by now
        _kill_group(process)
        process.wait()


def _runs(pid: int) -> bool:
    """Whether a child still runs; it is not reaped, so that its number stays its own."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
