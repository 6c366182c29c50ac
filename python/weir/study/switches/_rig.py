"""What a tester does to a switch and sees of it: streams at constant rates, and each packet that comes out.

A tester knows when its senders sent each packet, when each packet came out of an output port, and the PAUSE frames that
its senders got. It does not see into the switch. Everything in this package is computed from that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Accuracy", "Instants", "Observation", "Rig", "Stream", "Trial", "as_sent", "gap_ns", "instants_of"]

Instants = npt.NDArray[np.int64]
"""Nanoseconds since the start of the trial."""


@dataclass(frozen=True)
class Stream:
    """Packets at a constant rate from an input port to an output port."""

    input: int
    output: int
    wire_bps: float
    """Rate on the wire, with preamble and gap."""
    ip_bytes: int = 1500
    start_ns: int = 0
    stop_ns: int = 0
    instants: Instants | None = field(default=None, compare=False)
    """When each packet is sent, instead of at the rate; only a model can do that."""


@dataclass(frozen=True)
class Trial:
    """Streams at the same time, and the time until the last packet must have come out."""

    streams: tuple[Stream, ...]
    end_ns: int


@dataclass(frozen=True)
class Observation:
    """A trial and what was seen of it."""

    trial: Trial
    sent: Sequence[Instants]
    """By stream: when the sender handed each packet to its port."""
    refused: Sequence[npt.NDArray[np.bool_]]
    """By stream: packets that the sender's own queue dropped; they never left."""
    received: Sequence[Instants]
    """By stream: when the last bit of each packet came out; -1 if it did not."""
    pauses: Sequence[tuple[int, int, bool]] = ()
    """PAUSE frames: instant, input, whether the sender had to stop."""
    late: bool = False
    """Whether a sender was late, so that a pause in the packets may be the sender's."""


def as_sent(seen: Observation) -> Trial:
    """The trial with the instants at which its packets were sent, for a model that gets the same ones."""
    sent = [times[~lost] for times, lost in zip(seen.sent, seen.refused, strict=True)]
    streams = [replace(stream, instants=times) for stream, times in zip(seen.trial.streams, sent, strict=True)]
    return replace(seen.trial, streams=tuple(streams))


def instants_of(stream: Stream) -> Instants:
    """The instants of a stream that has some."""
    assert stream.instants is not None
    return stream.instants


@dataclass(frozen=True)
class Accuracy:
    """How exactly a real sender kept to a rate."""

    asked_bps: float
    """On the wire, as the rate achieved."""
    achieved_bps: float
    late_median_ns: float
    """How late packets were sent."""
    late_p99_ns: float
    behind_ns: float = 0.0
    """How much later than asked it began, or by how much its packets took longer in all: the larger one."""
    allowed_ns: float = float("inf")
    """How much that may be."""


class Rig(Protocol):
    """A switch with testers at its ports. Every port has the same rate."""

    exact: bool
    """Whether instants are exact; those of a real clock are late now and then."""
    inputs: int
    """Ports with senders, numbered from 0."""
    outputs: int
    """Ports with receivers, numbered from 0."""
    rate_bps: float
    """Of a sender's port."""
    out_bps: float
    """Of an output port."""
    overhead_bytes: int
    """Bytes that a packet adds on the wire."""

    def senders(self, output: int) -> tuple[int, ...]:
        """The inputs that can send to an output; an interface cannot send to itself."""
        ...

    def observe(self, trial: Trial) -> Observation:
        """Executes a trial."""
        ...

    def counts(self, streams: Sequence[Stream], interval_ns: int, end_ns: int) -> npt.NDArray[np.int64]:
        """Executes a trial in which packets that come out are only counted: by stream and interval."""
        ...


def gap_ns(bytes_: float, bps: float) -> float:
    """The time of so many bytes at a rate, ns."""
    return bytes_ * 8e9 / bps
