"""The payload of flows: sizes, waits and periods, drawn when the plan is compiled.

Each draw comes from a substream named after the entry, the flow and the purpose. So a flow keeps its draws when others
are added, and the first flows keep theirs when an entry grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from weir.language.problem import Log

from . import _lang_workload as lang
from ._distribution import Distribution
from ._network import Path

__all__ = ["Best", "Budget", "Flow", "Sources"]

MAX_TRANSFERS = 1_000_000
MAX_WORK = 300_000
"""Maximum work of compiling a cell (``Log.work``): about 8 s and half a gigabyte."""
MAX_BYTES = 2**60
"""Limit on the transfers of one flow; byte counters have room for several times as much."""


@dataclass
class Budget:
    """The share of the plan's limits that all entries together have used."""

    flows: int = 0
    hops: int = 0  # links of all paths
    spent: int = 0  # transfers and periods


@dataclass(frozen=True, slots=True)
class Best:
    """The highest rate and the least delay of a link during the run."""

    rate: int
    delay: int


@dataclass
class Flow:
    """One flow of an entry with all its parallel streams: endpoints and times are known, payload is not."""

    index: int
    ends: tuple[int, int]
    path: Path
    back: Path
    start: int
    stop: int | None

    @property
    def rtt(self) -> int:
        """Base RTT, ns."""
        return self.path.delay + self.back.delay


@dataclass(frozen=True)
class Sources:
    """The draws of one workload entry, within the rest of the plan's limits."""

    entry: lang.Workload
    seed: int
    best: Sequence[Best]
    """Highest rate and least delay of each link."""
    budget: Budget
    log: Log

    @property
    def shared(self) -> bool:
        """Whether the streams of a flow share its draws."""
        return isinstance(self.entry, lang.Transfer) and self.entry.total is not None

    def tcp(self, flow: Flow, stream: int, name: str, horizon: int) -> dict[str, Any]:
        """The source of a TCP flow whose draws are named ``name``, for ``horizon`` ns."""
        entry = self.entry
        match entry:
            case lang.Transfer():
                count = 1 if entry.count is None and entry.wait is None else entry.count
                sizes, waits = entry.sizes, entry.wait
            case lang.OnOff():
                count, sizes, waits = None, entry.on.distribution, entry.off
            case _:
                return {"kind": "bulk"}
        n = count if count is not None else self._enough(flow, name, sizes, waits, horizon)
        self.spend(n)
        bytes_ = self._parts(sizes.sample(self.seed, f"{name}/size", n, least=1), stream)
        self.check_bytes(name, sum(bytes_))
        gaps = waits.sample(self.seed, f"{name}/wait", n - 1) if waits is not None else [0] * (n - 1)
        transfers = [{"wait_ns": w, "bytes": b} for w, b in zip([0, *gaps], bytes_, strict=True)]
        return {"kind": "transfers", "transfers": transfers, "keep_connection": entry.keep_connection}

    def check_bytes(self, name: str, total: int) -> None:
        """Refuses more bytes than the counters of flow ``name`` hold."""
        if total > MAX_BYTES:
            message = f"the transfers of flow `{name}` have {total:.2g} bytes; the limit is {MAX_BYTES:.2g}"
            raise self.log.error(self.entry.mark, message)

    def best_path(self, flow: Flow) -> tuple[int, int]:
        """The highest rate (bit/s) and the shortest RTT (ns) of a flow's path while its links change."""
        rate = min(self.best[i].rate for i in flow.path.links)
        return rate, sum(self.best[i].delay for i in (*flow.path.links, *flow.back.links))

    def expected(self, horizon: int, mean: float) -> int:
        """Estimated number of draws with this mean that fill the horizon; refuses hopeless ones before drawing."""
        expected = horizon / max(mean, 1.0)
        if expected > 2 * MAX_TRANSFERS:
            self.spend(MAX_TRANSFERS + 1)
        return max(16, int(expected * 1.2))

    def spend(self, n: int, *, keep: bool = True) -> None:
        """Takes ``n`` transfers or periods out of the budget; with ``keep=False``, only checks that they fit."""
        self.log.work += 1 + n // 10
        if self.log.work > MAX_WORK:
            message = "flows, their paths and their transfers together are too many for one cell"
            raise self.log.error(self.entry.mark, f"{message}; expected fewer flows, links or transfers")
        if self.budget.spent + n > MAX_TRANSFERS:
            message = f"more than {MAX_TRANSFERS} transfers or periods; make them longer or the run shorter"
            raise self.log.error(self.entry.mark, message)
        self.budget.spent += n if keep else 0

    def _parts(self, sizes: list[int], stream: int) -> list[int]:
        """A stream's shares of transfers of these sizes."""
        n = self.entry.streams
        if not self.shared or n == 1:
            return sizes
        if min(sizes) < n:
            message = f"a transfer of {min(sizes)} bytes in total has no byte for each of {n} streams"
            raise self.log.error(self.entry.at("total"), message)
        return [size // n + (stream < size % n) for size in sizes]

    def _enough(self, flow: Flow, name: str, sizes: Distribution, waits: Distribution | None, horizon: int) -> int:
        """More transfers than fit: each takes at least an RTT, and its size at the path's rate."""
        share = self.entry.streams if self.shared else 1
        rate, rtt = self.best_path(flow)
        mean = sizes.mean() / share * 8e9 / rate + rtt + (waits.mean() if waits is not None else 0)
        n = self.expected(horizon, mean)
        while True:
            drawn = sizes.sample(self.seed, f"{name}/size", n, least=1)
            gaps = waits.sample(self.seed, f"{name}/wait", n) if waits is not None else [0] * n
            least = accumulate(
                max(1, b // share * 8_000_000_000 // rate) + rtt + w for b, w in zip(drawn, gaps, strict=True)
            )
            fit = next((i + 1 for i, t in enumerate(least) if t >= horizon), None)
            if fit is not None:
                return fit
            self.spend(n, keep=False)
            n *= 2

    def periods(self, name: str, horizon: int) -> list[int]:
        """ON and OFF periods in turn until the flow stops; empty: always on."""
        entry = self.entry
        if isinstance(entry, lang.Cbr):
            return self._repeated(entry.periods, horizon) if entry.periods else []
        assert isinstance(entry, lang.OnOff)  # the only other kind over UDP
        n = self.expected(horizon, entry.on.distribution.mean() + entry.off.mean())
        while True:
            on = entry.on.distribution.sample(self.seed, f"{name}/on", n, least=1)
            off = entry.off.sample(self.seed, f"{name}/off", n)
            periods = [p for both in zip(on, off, strict=True) for p in both]
            fit = next((i + 1 for i, t in enumerate(accumulate(periods)) if t >= horizon), None)
            if fit is not None:
                self.spend(fit)
                return periods[:fit]
            self.spend(2 * n, keep=False)
            n *= 2

    def _repeated(self, periods: tuple[int, ...], horizon: int) -> list[int]:
        if len(periods) % 2:
            raise self.log.error(
                self.entry.at("periods"), "expected ON and OFF periods in turn: an even number of them"
            )
        if not all(periods[::2]):
            raise self.log.error(self.entry.at("periods"), "an ON period of 0 sends nothing")
        whole, length = sum(periods), len(periods)
        rounds = -(-horizon // whole)
        self.spend(rounds * length)
        every = list(periods) * rounds
        fit = next((i + 1 for i, t in enumerate(accumulate(every)) if t >= horizon), len(every))
        return every[:fit]
