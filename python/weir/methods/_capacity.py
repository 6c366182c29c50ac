"""The demands of a plan on the machine that executes it in real time."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Capacity", "Need"]


@dataclass(frozen=True)
class Need:
    """One demand of a plan, and what this machine can give without delay."""

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
    """All demands of a plan at its busiest instant."""

    needs: tuple[Need, ...]
    basis: str
    """The origin of the machine's figures, for people."""

    @property
    def missing(self) -> tuple[Need, ...]:
        """The demands that the machine cannot meet."""
        return tuple(need for need in self.needs if not need.met)
