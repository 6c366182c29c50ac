"""Starts the process that cleans up after this one, however this one ends (``_guardian.py``)."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weir._owner import Tag

__all__ = ["Guardian"]

_PROGRAM = Path(__file__).with_name("_guardian.py")


class Guardian:
    """A process that waits for the end of this one, or of :meth:`close`, and then removes what it was told of."""

    def __init__(self, tag: Tag, *work: Mapping[str, Any]) -> None:
        """Starts it, and tells it of ``work`` (``_guardian.py`` says of what it may consist).

        Raises:
            OSError: it cannot be started.
        """
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_PROGRAM), str(tag)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        for what in work:
            self.tell(what)

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def tell(self, what: Mapping[str, Any]) -> None:
        """Adds to its work. If it was killed, :meth:`killed` says so."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(what) + "\n")
            self._process.stdin.flush()

    def killed(self) -> bool:
        """Whether it has ended already, without its work; it is closed then."""
        if self._process.poll() is None:
            return False
        self._close()
        return True

    def finish(self, timeout_s: float) -> bool:
        """Lets it do its work, and waits for that; whether it has done it."""
        self._close()
        try:
            return self._process.wait(timeout_s) == 0
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return False

    def _close(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
