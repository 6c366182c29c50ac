"""The process that cleans up after a run, however the run ended: ``python _guardian.py TAG``.

It reads from standard input a JSON object a line: ``{"undo": [[program, argument, ...], ...]}``, before what is to be
undone is made. When standard input ends - because the run is over, or because its process was killed - it ends the
processes that carry the tag in their environment and executes the commands. It imports nothing of weir, so that it is
there within milliseconds, and is in a session of its own, so that what ends the run does not end it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["main"]

_VARIABLE = b"WEIR_RUN="
_PATIENCE_S = 1.0
"""How long processes may take to end by themselves: they notice the end of their standard input."""
_COMMAND_S = 30.0


def main() -> None:
    """Waits for the end of standard input, then undoes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    commands: list[list[str]] = []
    for line in sys.stdin:
        with contextlib.suppress(ValueError):  # half a line, if its writer was killed
            commands += json.loads(line)["undo"]
    _end_processes(sys.argv[1].encode())
    for command in commands:
        _execute(command)


def _end_processes(tag: bytes) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while found := _tagged(tag):
        if time.monotonic() > deadline:
            for pid in found:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
        if time.monotonic() > deadline + _PATIENCE_S:
            return


def _tagged(tag: bytes) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                if _VARIABLE + tag in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
    return found


def _execute(command: list[str]) -> None:
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        quiet = subprocess.DEVNULL
        subprocess.run(command, stdin=quiet, stdout=quiet, stderr=quiet, timeout=_COMMAND_S, check=False)


if __name__ == "__main__":
    main()
