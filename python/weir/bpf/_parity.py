"""Tests whether a source behaves equally in the simulator and in the kernel."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from weir.bpf._pins import command
from weir.bpf._source import source_name

__all__ = ["Difference", "Parity", "parity"]


@dataclass(frozen=True)
class Difference:
    """A difference between the two builds of a source."""

    flow: int
    call: int
    """Number of the call within the flow."""
    operation: str
    options: Mapping[str, int]
    what: str


@dataclass(frozen=True)
class Parity:
    """The result of a comparison."""

    cc: str
    calls: int
    """Number of compared calls."""
    operations: Mapping[str, int]
    """Number of compared calls, by operation."""
    flows: int
    """Number of flows, each with its options."""
    unrecorded: int
    """Number of calls that were made but could not be recorded."""
    differences: tuple[Difference, ...]
    """Differences between the builds, at most one per flow."""


def parity(cc: str, calls: int = 20_000, seed: int = 1) -> Parity:
    """Makes ``calls`` calls, drawn from ``seed``, on the native and the BPF build of ``cc``, and compares the state.

    Raises:
        BpfRequestError: the congestion control does not exist, or its source does not compile.
        BpfError: this host or its kernel cannot load it.
    """
    said = json.loads(command("parity", source_name(cc), "--calls", str(calls), "--seed", str(seed), "--any-outcome"))
    differences = tuple(Difference(**difference) for difference in said.pop("differences"))
    return Parity(**said, differences=differences)
