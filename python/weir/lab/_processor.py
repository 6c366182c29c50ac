"""Gives each lab its own processor.

A lab is many processes of which one runs at a time. By default, the host spreads them over its processors, and each
step from one process to the next wakes another processor: on an otherwise idle machine that doubles the cost of a lab.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["Processor"]

_NAME = "\0weir-lab-processor-"
"""Prefix of the names of the sockets that mark processors as taken: one process at a time can bind a name, and its end
releases it.
"""
_TOPOLOGY = Path("/sys/devices/system/cpu")


class Processor:
    """A processor that no other lab of this machine has, until it is released; ``None`` if all are taken."""

    def __init__(self, name: str = _NAME) -> None:
        """Takes one; ``name`` is the prefix of the marks."""
        self.number: int | None = None
        self._claim: socket.socket | None = None
        for number in _candidates():
            claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                claim.bind(f"{name}{number}")
            except OSError:
                claim.close()
                continue
            self.number, self._claim = number, claim
            return

    @contextlib.contextmanager
    def bound(self) -> Iterator[None]:
        """Runs processes that this thread starts meanwhile on this processor only."""
        before = os.sched_getaffinity(0)
        if self.number is not None:
            with contextlib.suppress(OSError):  # it may have been withdrawn just now: then anywhere
                os.sched_setaffinity(0, {self.number})
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)

    def release(self) -> None:
        """Leaves it to other labs."""
        if self._claim is not None:
            self._claim.close()
            self._claim = None

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Releases it."""
        self.release()


def _candidates() -> list[int]:
    """The processors that this process may use: one of each core first, those that serve most interrupts last."""
    return sorted(os.sched_getaffinity(0), key=lambda number: (_place_in_core(number), -number))


def _place_in_core(number: int) -> int:
    """0 for the first processor of a core, 1 for its sibling."""
    try:
        text = (_TOPOLOGY / f"cpu{number}" / "topology" / "thread_siblings_list").read_text()
    except OSError:
        return 0
    siblings = [int(word) for part in text.split(",") for word in part.split("-") if word.strip().isdigit()]
    return sum(sibling < number for sibling in siblings)
