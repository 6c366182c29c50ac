"""A switch as it was seen from outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from weir.study.switches._arbiter import Law
from weir.study.switches._memory import MemoryFit, Resume
from weir.study.switches._service import Runs

__all__ = ["Class", "Fitted", "Pause", "class_of"]

Class = Literal["fair", "proportional", "bursty"]


@dataclass(frozen=True)
class Pause:
    """Flow control: bytes of an input at which its sender stops and continues."""

    high: int
    low: int


@dataclass(frozen=True)
class Fitted:
    """A switch as it was seen."""

    law: Law
    memory: MemoryFit
    resume: Resume
    forwarding: str
    """``store_and_forward`` or ``cut_through``."""
    jitter_ns: int
    pause: Pause | None
    starvation_ns: Mapping[str, float]
    """By pair of rates: the longest time without a packet of one of the inputs.

    Without trials in which a sender was late, because then the pause may be the sender's.
    """
    packets: int
    """Packets that came out and were counted."""
    notes: tuple[str, ...] = ()
    runs: Runs | None = None
    busy_ns: int = 0
    """How long the trials with two inputs at full rate lasted, so that the memory was full."""
    cut: bool = False
    """Whether runs of a bursty arbiter end before its time is over, so that its law is not known."""

    @property
    def kind(self) -> Class:
        """The class of the switch."""
        return class_of(self.law.kind)


def class_of(arbiter: str) -> Class:
    """The class of an arbiter: ``proportional`` shares by the offered rates (FIFO), ``bursty`` forwards one input at a
    time, ``fair`` serves all inputs in turn, by weight or at random.
    """
    if arbiter == "fifo":
        return "proportional"
    return "bursty" if arbiter == "bursty" else "fair"
