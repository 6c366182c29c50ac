"""Which method executes a plan when nobody says: the best that this machine has for it.

The rules, in their order:

1. ``lab``, the real Linux kernel with the same result every time, where it takes no more than a minute;
2. ``sim``, where it can execute the plan: it knows neither programs of others nor the kernel's congestion controls;
3. ``lab``, however long it takes;
4. ``emul``, as root only: its results are this machine's, on a day like this.

Nothing here measures: what a method foresees are orders of magnitude.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from weir.methods import MethodError

__all__ = ["MOST_S", "ORDER", "Choice", "Foreseeing", "Prospect", "Remarking", "Weighing", "choose", "span"]

ORDER = ("lab", "sim", "emul")
"""The methods among which is chosen, the one that says most about reality first."""
MOST_S = 60.0
"""What a method may take, by its own estimate, to be preferred to a faster one."""

_WHAT = {
    "lab": "real Linux in virtual time",
    "sim": "the packet-level simulator",
    "emul": "this host's Linux in real time",
}


@runtime_checkable
class Foreseeing(Protocol):
    """A method that says beforehand whether and how fast it executes a plan."""

    def obstacle(self, plan: Mapping[str, Any]) -> str | None:
        """Why it cannot execute ``plan``, on a machine that has all it needs; ``None`` if it can."""

    def foreseen_s(self, plan: Mapping[str, Any], packets: int) -> float:
        """Wall time of ``plan`` on one processor, with so many data packets; an order of magnitude."""


@runtime_checkable
class Remarking(Protocol):
    """A method that has something to say of a plan beforehand, which ``weir check`` and ``weir plan`` print."""

    def remarks(self, plan: Mapping[str, Any], packets: int) -> Iterator[str]:
        """What a user should know before it executes ``plan``, with so many data packets; nothing if all is usual."""


@runtime_checkable
class Weighing(Protocol):
    """A method that needs another amount of memory than the simulator."""

    def memory_bytes(self, plan: Mapping[str, Any]) -> int:
        """Memory of ``plan`` at most, bytes; an order of magnitude."""


@dataclass(frozen=True)
class Prospect:
    """What is to be expected of a method for a scenario."""

    method: str
    obstacle: str | None
    """Why it cannot; ``None`` if it can."""
    seconds: float = 0.0
    """Wall time of all cells, on all processors that may be used."""


@dataclass(frozen=True)
class Choice:
    """The method, and why."""

    method: str
    reason: str


def choose(prospect: Callable[[str], Prospect]) -> Choice:
    """The method by the rules of this module; ``prospect`` is asked only for what the rules come to.

    Raises:
        MethodError: none can; the message has the reason of each.
    """
    lab = prospect("lab")
    if lab.obstacle is None and lab.seconds <= MOST_S:
        return Choice("lab", _WHAT["lab"])
    sim = prospect("sim")
    if sim.obstacle is None:
        why = f"the lab would take about {span(lab.seconds)}" if lab.obstacle is None else f"no lab: {lab.obstacle}"
        return Choice("sim", f"{_WHAT['sim']}; {why}")
    if lab.obstacle is None:
        return Choice("lab", f"{_WHAT['lab']}; the simulator cannot: {sim.obstacle}")
    emul = prospect("emul")
    if emul.obstacle is None:
        return Choice("emul", f"{_WHAT['emul']}; the simulator cannot: {sim.obstacle}; no lab: {lab.obstacle}")
    reasons = "".join(f"\n  {one.method}: {one.obstacle}" for one in (sim, lab, emul))
    raise MethodError(f"no method of this machine can execute this:{reasons}")


def span(seconds: float) -> str:
    """``12 s``, ``3 min`` or ``1.5 h``."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
