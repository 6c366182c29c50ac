"""Progress, speed and remaining time of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from weir.methods import Live

__all__ = ["Tally", "Work"]


@dataclass(frozen=True)
class Work:
    """The work of one cell."""

    cost: float
    """Approximate estimate of its method; only ratios matter."""
    end_ns: int


@dataclass
class Tally:
    """Counts the work of a run. The caller passes the time: ``now_s`` on any monotonic clock."""

    works: dict[str, Work]
    begin_s: float
    done: int = 0
    failed: int = 0
    real: bool = False
    """Whether the cells are executed on a real clock: its seconds are measured, not simulated."""
    live: Live | None = None
    """Live state of the cell that reported last; methods with a real clock have one."""
    _reached_ns: dict[str, int] = field(default_factory=dict)
    _finished: set[str] = field(default_factory=set)

    def progress(self, cell: str, now_ns: int, live: Live | None = None) -> None:
        """Cell ``cell`` has reached this instant; ``live`` is its state then."""
        self._reached_ns[cell] = now_ns
        self.live = live

    def finish(self, cell: str, *, ok: bool) -> None:
        """Cell ``cell`` has ended."""
        self._finished.add(cell)
        self.live = None
        self._reached_ns[cell] = self.works[cell].end_ns
        if ok:
            self.done += 1
        else:
            self.failed += 1

    @property
    def total(self) -> int:
        """Number of cells."""
        return len(self.works)

    @property
    def active(self) -> list[str]:
        """Cells begun and not ended."""
        return [cell for cell in self._reached_ns if cell not in self._finished]

    @property
    def reached_s(self) -> float:
        """Seconds of all cells together, by their own clocks."""
        return sum(self._reached_ns.values()) / 1e9

    @property
    def fraction(self) -> float:
        """Share of the work that is done, by estimated packets."""
        total = sum(work.cost for work in self.works.values())
        return self._done_cost() / total if total else 1.0

    def real_time_factor(self, now_s: float) -> float:
        """Seconds of the cells' clocks per second."""
        return self.reached_s / max(now_s - self.begin_s, 1e-9)

    def left_s(self, now_s: float) -> float | None:
        """Seconds left at the speed so far; ``None`` while that is unknown."""
        fraction = self.fraction
        if fraction < 0.002:
            return None
        return (now_s - self.begin_s) * (1 - fraction) / fraction

    def _done_cost(self) -> float:
        return sum(work.cost * self._reached_ns.get(cell, 0) / max(work.end_ns, 1) for cell, work in self.works.items())
