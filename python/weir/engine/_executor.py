"""The seam between a run and the processes that execute its cells: local workers here, others in other packages."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from weir import methods
from weir.engine import _host
from weir.engine._display import Display
from weir.engine._job import Job
from weir.engine._pool import Pool
from weir.engine._process import Message

__all__ = ["Executor", "LocalWorkers", "NextJob", "Workers", "default_workers"]

NextJob = Callable[[], Mapping[str, Any] | None]
"""Returns the next job (:meth:`weir.engine._job.Job.message`), or ``None``; one thread at a time calls it."""


class Executor(Protocol):
    """Executes the jobs of one run."""

    @property
    def messages(self) -> queue.SimpleQueue[Message]:
        """What is known of the jobs: each ends with exactly one ``done``, its cell being in its place, or ``failed``.

        ``note`` (text) is a remark for people; ``broken`` (error) ends the run.
        """

    @property
    def workers(self) -> int:
        """The largest number of cells that were executed at once."""

    def close(self) -> None:
        """Stops all executions, and leaves nothing of them."""


class Workers(Protocol):
    """A place where cells are executed."""

    def refusal(self, method: methods.Method) -> str | None:
        """Why no plan can be executed there by ``method``; ``None`` if some can."""

    def obstacle(self, method: methods.Method, plan: Mapping[str, Any]) -> str | None:
        """Why ``plan`` cannot be executed there, although ``method`` can execute it; ``None`` if it can."""

    def start(self, name: str, jobs: Sequence[Job], next_job: NextJob, display: Display) -> Executor:
        """Starts the execution of ``jobs`` by the method called ``name``; ``next_job`` returns them.

        Raises:
            weir.engine.EngineError: the place cannot be used.
        """


def default_workers() -> int:
    """One worker per processor that this process may use."""
    return len(os.sched_getaffinity(0))


class LocalWorkers:
    """Processes of this machine, ``asked`` at most; by default one per processor."""

    def __init__(self, asked: int | None = None) -> None:
        self._asked = asked

    def refusal(self, method: methods.Method) -> None:
        """Refuses none."""

    def obstacle(self, method: methods.Method, plan: Mapping[str, Any]) -> str | None:
        """Refuses what this machine lacks."""
        return method.lacking(plan)

    def start(self, name: str, jobs: Sequence[Job], next_job: NextJob, display: Display) -> Executor:
        """See :class:`Workers`."""
        return Pool(self._count(methods.get(name), jobs, display), next_job)

    def _count(self, method: methods.Method, jobs: Sequence[Job], display: Display) -> int:
        """Number of workers, limited by jobs and memory; one if the clock is real."""
        count = max(1, min(self._asked or default_workers(), len(jobs)))
        if method.clock == "real":
            return 1
        need = max((job.estimate.memory_bytes for job in jobs), default=0)
        fitting = max(1, _host.available_bytes() // max(need, 1))
        if fitting < count:
            display.note(
                f"using {fitting} workers instead of {count}: a cell needs up to {need / 1e9:.1f} GB of memory"
            )
        return min(count, fitting)
