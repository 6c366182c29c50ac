"""The process that releases what its parent reserved, if the parent is killed: ``python -m weir.reserve._guardian``.

It reads the names of records from its standard input. When that ends, because the parent is gone, it releases those
whose records are still there. It has a session of its own, so that an interrupt from the terminal does not end it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

__all__ = ["main", "watch"]

_TRIES, _PAUSE_S = 20, 15.0
"""A scheduler that is out of reach is asked for five minutes; then ``weir clean`` is left."""

_lock = threading.Lock()
_guardian: subprocess.Popen[bytes] | None = None


def watch(name: str) -> None:
    """Has the guardian of this process release the record ``name`` if it is still there when this process ends.

    Does nothing if no process can be started: the record is left to ``weir clean``.
    """
    global _guardian
    with _lock, contextlib.suppress(OSError):
        if _guardian is None or _guardian.poll() is not None:
            _guardian = _started()
            atexit.register(_dismiss, _guardian)
        assert _guardian.stdin is not None
        _guardian.stdin.write(f"{name}\n".encode())
        _guardian.stdin.flush()


def _started() -> subprocess.Popen[bytes]:
    from weir._owner import ENVIRONMENT

    quiet = subprocess.DEVNULL
    environment = {name: value for name, value in os.environ.items() if name != ENVIRONMENT}
    command = [sys.executable, "-m", "weir.reserve._guardian"]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, env=environment, start_new_session=True
    )


def _dismiss(guardian: subprocess.Popen[bytes]) -> None:
    """At the end of this process: what has no record any more needs no guardian, and it ends at once."""
    with contextlib.suppress(OSError):
        if guardian.stdin is not None:
            guardian.stdin.close()


def main() -> None:
    """Waits for the end of the parent, then releases."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    names = [line.strip() for line in sys.stdin]
    for _ in range(_TRIES):
        if not _left(names):
            return
        time.sleep(_PAUSE_S)


def _left(names: list[str]) -> list[str]:
    """Releases what has a record; returns what could not be released."""
    from weir.reserve import _records
    from weir.reserve._reservation import give_back
    from weir.reserve.errors import ReserveError

    left = []
    for name in names:
        record = _records.fetch(name)
        if record is None or record.inventory:  # released, or kept
            continue
        try:
            give_back(record)
        except (ReserveError, OSError):
            left.append(name)
    return left


if __name__ == "__main__":
    main()
