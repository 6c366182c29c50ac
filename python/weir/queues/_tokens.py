"""Token buckets of a queue: their names, and new rates for them while a plan runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Inside", "Tokens"]


@dataclass(frozen=True)
class Inside:
    """A queue inside another one, which may have token buckets."""

    name: str
    """Its class, as ``outer.inner`` if there are several above; empty if there is none."""
    queue: dict[str, Any]


@dataclass(frozen=True)
class Tokens:
    """Token buckets: of a shaper, a policer, a class with a rate, or the root of such classes."""

    name: str
    """As in :class:`Inside`."""
    plan: dict[str, Any]
    """The queue or class of the plan."""
    peak: str | None = None
    """Key of its second rate in a scenario, ``ceil`` or ``peak``; ``None``: it has a single one."""

    def set(self, rate_bps: int | None, peak_bps: int | None) -> None:
        """Gives it new rates; ``None``: that rate stays."""
        if rate_bps is not None:
            self.plan["rate_bps"] = rate_bps
        if peak_bps is not None:
            self.plan[f"{self.peak}_bps"] = peak_bps

    def rates(self) -> dict[str, int | None]:
        """Its rates, as a change of a plan has them."""
        peak = None if self.peak is None else self.plan[f"{self.peak}_bps"]
        return {"rate_bps": self.plan["rate_bps"], "peak_bps": peak}

    def obstacle(self) -> str | None:
        """The mistake in its rates; ``None``: none."""
        rate, peak = self.plan["rate_bps"], self.rates()["peak_bps"]
        if rate == 0:
            return "at rate 0 nothing ever passes; expected a rate above 0"
        if peak is not None and peak < rate:
            return f"`{self.peak}` is then {peak / 1e6:g} Mb/s, below `rate`, which is {rate / 1e6:g} Mb/s"
        return None
