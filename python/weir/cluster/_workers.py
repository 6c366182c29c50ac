"""The workers of a Dask cluster as a place of the engine."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from distributed import Client

from weir import cc, engine, methods
from weir.cluster._cargo import cargoes
from weir.cluster._executor import ClusterExecutor
from weir.cluster._prepare import prepare
from weir.cluster._where import refusal
from weir.cluster.errors import ClusterError
from weir.plan import typed

__all__ = ["ClusterWorkers"]


class ClusterWorkers:
    """See :class:`weir.engine.Workers`."""

    def __init__(self, client: Client, called: str, limit: int | None = None) -> None:
        """``limit`` is the largest number of cells at once."""
        self._client = client
        self._called = called
        self._limit = limit

    def refusal(self, method: methods.Method) -> str | None:
        """See :func:`weir.cluster._where.refusal`."""
        return refusal(method)

    def obstacle(self, method: methods.Method, plan: Mapping[str, Any]) -> str | None:
        """Refuses users' congestion controls where they are built from files that stay here."""
        names = cc.controls_of(typed(plan))
        if names and not method.loads_controls:
            return (
                f"cc: {names[0]}: it builds a kernel module from that file where a cell runs, and the file does not "
                "travel to a cluster; run it without --cluster"
            )
        if (python := next((name for name in names if name.endswith(".py")), None)) is not None:
            return (
                f"cc: {python}: the files of a control in Python do not travel to a cluster; run it without --cluster"
            )
        return None

    def start(
        self, name: str, jobs: Sequence[engine.Job], next_job: engine.NextJob, display: engine.Display
    ) -> ClusterExecutor:
        """Prepares the workers, then executes.

        Raises:
            ClusterError: one of those that are there is of no use.
        """
        method = methods.get(name)
        wanted = cargoes(method)
        agent = f"weir-{secrets.token_hex(8)}"
        addresses = list(self._client.nthreads())
        ready = prepare(self._client, addresses, wanted, name, agent)
        if ready.unfit:
            told = "; ".join(f"worker {address}: {why}" for address, why in sorted(ready.unfit.items()))
            raise ClusterError(f"{self._called}: {told}")
        if not ready.memory:
            raise ClusterError(f"{self._called} has no workers; start some")
        if ready.sent_bytes:
            display.note(f"sent {ready.sent_bytes / 1e6:.0f} MB of weir to {self._called}")
        need = max(job.estimate.memory_bytes for job in jobs)
        return ClusterExecutor(
            self._client,
            agent,
            ready,
            lambda new: prepare(self._client, new, wanted, name, agent),
            next_job,
            jobs=len(jobs),
            memory_bytes=need,
            limit=self._limit,
        )
