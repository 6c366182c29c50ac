"""What a plan asks of the machine that executes it in real time."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Capacity", "Need"]


@dataclass(frozen=True)
class Need:
    """One thing that a plan needs, and how much of it this machine has to give without waiting."""

    what: str
    asked: float
    available: float
    unit: str

    @property
    def met(self) -> bool:
        """Whether there is enough."""
        return self.asked <= self.available


@dataclass(frozen=True)
class Capacity:
    """Everything that a plan needs at its busiest instant."""

    needs: tuple[Need, ...]
    basis: str
    """Where the figures of the machine are from, for people."""

    @property
    def missing(self) -> tuple[Need, ...]:
        """What there is too little of."""
        return tuple(need for need in self.needs if not need.met)
