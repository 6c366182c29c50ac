"""The emulator's process, from the job to the last table."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weir.methods._binaries import find
from weir.methods.emul._session import Session

from ._tally import Report, Tally

__all__ = ["Emulator"]

_NAME = "emulator"


class Emulator:
    """An emulator between two hosts, within a session that ends it."""

    def __init__(
        self,
        session: Session,
        plan: Mapping[str, Any],
        hosts: Sequence[Mapping[str, Any]],
        first_port: int,
        options: Sequence[str],
    ) -> None:
        """Starts it; when this returns, packets pass.

        Raises:
            ProcessError: it cannot do what it is told.
            MissingBinaryError: it is not there.
        """
        job = {"version": 1, "plan": plan, "hosts": list(hosts), "ends": [], "kernel_cc": {}, "first_port": first_port}
        self._session = session
        session.await_ready([session.start(_NAME, [str(find("weir-emu")), *options], job)])
        self._begin = time.monotonic()
        session.tell({"command": "start", "epoch_ns": time.monotonic_ns()})

    def stop(self) -> None:
        """Has it end; another thread is in :meth:`measure`."""
        self._session.tell({"command": "stop"})

    def measure(self, idle: Callable[[], None]) -> Report:
        """Adds up what it measures until it is stopped; calls ``idle`` often.

        Raises:
            ProcessError: it failed.
        """
        tally = Tally()
        for frame in self._session.frames(math.inf, idle):
            tally.take(frame)
        stats = {name.removeprefix(f"{_NAME}."): value for name, value in self._session.stats.items()}
        warnings = [text.removeprefix(f"{_NAME}: ") for text in self._session.warnings]
        return tally.report(time.monotonic() - self._begin, stats, warnings)
