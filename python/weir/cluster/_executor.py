"""Executes jobs on the workers of a Dask cluster, and writes their cells here."""

from __future__ import annotations

import collections
import contextlib
import itertools
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from distributed import Client, Future

from weir import engine
from weir.cluster import _far
from weir.cluster._cargo import Carried
from weir.cluster._fetch import Fetcher, LostError
from weir.cluster._prepare import Ready

__all__ = ["ClusterExecutor"]

_EXECUTE, _FORGET = Carried(_far.execute), Carried(_far.forget)
_TRIES = 3
"""How often a cell is begun before its loss counts as its own fault."""
_LOOK_S = 0.5
_ALONE_S = 60.0
"""How long a run without any worker waits for one."""
_FETCHERS = 4
_CLOSE_S = 15.0


@dataclass
class _Worker:
    """A worker of the cluster with an agent."""

    slots: int
    memory: int
    """Bytes that its cells may take together; 0: unknown."""
    cells: set[str] = field(default_factory=set)
    """Keys of the tasks that it has."""


@dataclass
class _Flight:
    """A job at a worker."""

    job: Mapping[str, Any]
    tries: int
    worker: str
    future: Future[Any]


class ClusterExecutor:
    """See :class:`weir.engine.Executor`.

    One thread places cells on workers, at most one more on each than it executes, so that none is idle while its next
    cell is on the way. A cell of a lost worker goes to another one; after ``_TRIES`` of them it has failed.
    """

    def __init__(
        self,
        client: Client,
        agent: str,
        ready: Ready,
        prepare: Callable[[Sequence[str]], Ready],
        next_job: engine.NextJob,
        *,
        jobs: int,
        memory_bytes: int,
        limit: int | None,
    ) -> None:
        """Starts placing cells on the workers of ``ready``; ``prepare`` makes others ready that come later."""
        self.messages: queue.SimpleQueue[engine.Message] = queue.SimpleQueue()
        self.workers = 0
        self._client = client
        self._agent = agent
        self._prepare = prepare
        self._next_job = next_job
        self._left = jobs
        """Number of jobs that were not taken yet."""
        self._need = memory_bytes
        self._limit = min(limit or jobs, jobs)
        self._fetcher = Fetcher(client, agent)
        self._lock = threading.RLock()
        self._known: dict[str, _Worker] = {}
        self._unfit: set[str] = set()
        self._flights: dict[str, _Flight] = {}
        self._again: collections.deque[tuple[Mapping[str, Any], int]] = collections.deque()
        self._ended: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._preparing: threading.Thread | None = None
        self._alone_since: float | None = None
        self._numbers = itertools.count()
        self._closed = threading.Event()
        self._changed = threading.Event()
        self._join(ready)
        client.subscribe_topic(agent, self._progress)
        self._threads = [threading.Thread(target=self._fetch, daemon=True) for _ in range(_FETCHERS)]
        self._threads.append(threading.Thread(target=self._place, daemon=True))
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Cancels all cells, and ends what was started on the workers, which live on."""
        self._closed.set()
        self._changed.set()
        for _ in range(_FETCHERS):
            self._ended.put(None)
        with self._lock:
            futures = [flight.future for flight in self._flights.values()]
        with contextlib.suppress(Exception):  # the cluster may be gone, and nothing more can be done for it
            self._client.cancel(futures, force=True)
            self._client.unsubscribe_topic(self._agent)
            self._client.run(_FORGET, self._agent, workers=list(self._known), on_error="ignore")
        deadline = time.monotonic() + _CLOSE_S
        for thread in [*self._threads, *([self._preparing] if self._preparing else [])]:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _place(self) -> None:
        """Places cells until the end."""
        looked = 0.0
        try:
            while not self._closed.is_set():
                if time.monotonic() - looked >= _LOOK_S:
                    self._look()
                    looked = time.monotonic()
                self._fill()
                self._changed.wait(_LOOK_S)
                self._changed.clear()
        except Exception as error:
            if not self._closed.is_set():
                self.messages.put({"type": "broken", "error": self._explained(error)})

    def _explained(self, error: Exception) -> Exception:
        if isinstance(error, OSError | TimeoutError) or self._client.status != "running":
            return engine.EngineError(
                "the connection to the scheduler of the cluster was lost; complete cells are kept. "
                "Run the same command again to continue"
            )
        return error

    def _look(self) -> None:
        """Notices workers that came and went."""
        now = self._client.nthreads()
        if self._client.status != "running":
            raise OSError("no connection")
        with self._lock:
            used = {*self._known, *(flight.worker for flight in self._flights.values())}
        for address in used - now.keys():
            self._lose(address)
        new = [address for address in now if address not in self._known and address not in self._unfit]
        if new and (self._preparing is None or not self._preparing.is_alive()):
            self._preparing = threading.Thread(target=self._welcome, args=(new,), daemon=True)
            self._preparing.start()
        with self._lock:
            for address, slots in now.items():
                if address in self._known:
                    self._known[address].slots = slots
            self.workers = max(self.workers, min(self._limit, sum(worker.slots for worker in self._known.values())))
            self._endure()

    def _endure(self) -> None:
        """Gives up after some time without a worker."""
        if self._known or (self._preparing is not None and self._preparing.is_alive()):
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = time.monotonic()
            self._note(f"the cluster has no workers any more; waiting {_ALONE_S:.0f} s for one")
        elif time.monotonic() - self._alone_since > _ALONE_S:
            raise engine.EngineError(
                "the cluster has no workers any more; complete cells are kept. Run the same command again to continue"
            )

    def _welcome(self, addresses: Sequence[str]) -> None:
        """Makes workers ready that came later."""
        try:
            ready = self._prepare(addresses)
            self._join(ready)
            for address, why in ready.unfit.items():
                self._note(f"worker {address} is left out: {why}")
        except Exception as error:
            if not self._closed.is_set():
                self.messages.put({"type": "broken", "error": self._explained(error)})

    def _join(self, ready: Ready) -> None:
        slots = self._client.nthreads()
        with self._lock:
            for address, memory in ready.memory.items():
                if address in slots:
                    self._known[address] = _Worker(slots[address], memory)
            self._unfit.update(ready.unfit)
        self._changed.set()

    def _lose(self, address: str) -> None:
        """Gives the cells of a lost worker to others."""
        with self._lock:
            self._known.pop(address, None)
            lost = [key for key, flight in self._flights.items() if flight.worker == address]
        for key in lost:
            if (flight := self._claim(key)) is not None:
                self._retry(flight, f"worker {address} was lost")

    def _claim(self, key: str) -> _Flight | None:
        """The flight ``key``, for the one who asks first."""
        with self._lock:
            flight = self._flights.pop(key, None)
            if flight is not None and flight.worker in self._known:
                self._known[flight.worker].cells.discard(key)
        self._changed.set()
        return flight

    def _retry(self, flight: _Flight, why: str) -> None:
        """Puts the cell of a lost flight back, unless it was lost too often."""
        with contextlib.suppress(Exception):
            flight.future.cancel(force=True)
        cell = flight.job["id"]
        if flight.tries >= _TRIES:
            text = f"{why}, as {_TRIES - 1} others before with this cell; the usual reason is too little memory"
            self._fail(flight.job, "died", text)
            return
        self._note(f"{why}; cell {cell} is executed elsewhere")
        with self._lock:
            self._again.append((flight.job, flight.tries))
        self._changed.set()

    def _fill(self) -> None:
        """Gives cells to workers that have room."""
        while not self._closed.is_set() and (address := self._roomiest()) is not None:
            with self._lock:
                again = self._again.popleft() if self._again else None
            if again is None:
                job = self._next_job() if self._left else None
                if job is None:
                    self._left = 0
                    return
                self._left -= 1
                again = (job, 0)
            self._submit(*again, address)

    def _roomiest(self) -> str | None:
        """The worker with the largest share of free slots; ``None`` if there is no room."""
        with self._lock:
            slots = sum(self._most(worker) for worker in self._known.values())
            if len(self._flights) >= self._limit:
                return None
            # Late short cells must not wait behind long ones while other workers have nothing to do.
            ahead = self._left > 2 * slots and self._limit > slots
            free = {
                address: most + (max(1, most // 4) if ahead and most == worker.slots else 0) - len(worker.cells)
                for address, worker in self._known.items()
                for most in (self._most(worker),)
            }
        address = max(free, key=lambda one: free[one] / max(self._known[one].slots, 1), default=None)
        return address if address is not None and free[address] > 0 else None

    def _most(self, worker: _Worker) -> int:
        """Number of cells that it may execute at once."""
        if not worker.memory or not self._need:
            return worker.slots
        return max(1, min(worker.slots, worker.memory // self._need))

    def _submit(self, job: Mapping[str, Any], tries: int, address: str) -> None:
        key = f"{self._agent}-{job['id']}-{next(self._numbers)}"
        objects = {name: Path(path).read_bytes() for name, path in job.get("objects", {}).items()}
        told = {name: value for name, value in job.items() if name != "run"}
        with self._lock:
            if address not in self._known:
                self._again.appendleft((job, tries))
                return
            future = self._client.submit(
                _EXECUTE, self._agent, told, objects, key, key=key, workers=[address], pure=False
            )
            self._flights[key] = _Flight(job, tries + 1, address, future)
            self._known[address].cells.add(key)
        future.add_done_callback(lambda _: self._ended.put(key))

    def _progress(self, event: tuple[float, Mapping[str, Any]]) -> None:
        """Passes on what a worker says of a cell, unless it ended meanwhile."""
        told = event[1]
        with self._lock:
            flying = any(flight.job["id"] == told["id"] for flight in self._flights.values())
        if flying:
            self.messages.put({"type": "progress", "id": told["id"], "now_ns": told["now_ns"]})

    def _fetch(self) -> None:
        """Takes what ended, one flight after another."""
        while (key := self._ended.get()) is not None:
            if self._closed.is_set() or (flight := self._claim(key)) is None:
                continue
            try:
                message = self._fetcher.fetch(flight.future, flight.worker, flight.job)
            except LostError as error:
                if not self._closed.is_set():
                    if error.agentless:
                        with self._lock:
                            self._known.pop(flight.worker, None)  # made ready again at the next look
                    self._retry(flight, str(error))
            except Exception as error:
                if not self._closed.is_set():
                    self.messages.put({"type": "broken", "error": error})
            else:
                self.messages.put(message)

    def _fail(self, job: Mapping[str, Any], kind: str, error: str) -> None:
        self.messages.put({"type": "failed", "id": job["id"], "kind": kind, "error": error, "trace": ""})

    def _note(self, text: str) -> None:
        self.messages.put({"type": "note", "text": text})
