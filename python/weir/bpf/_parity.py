"""Does a source do the same in the simulator and in the kernel?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from weir.bpf._pins import command
from weir.bpf._source import source_name

__all__ = ["Difference", "Parity", "parity"]


@dataclass(frozen=True)
class Difference:
    """Two builds of a source that differ."""

    flow: int
    call: int
    """The how many-th of the flow."""
    operation: str
    options: Mapping[str, int]
    what: str


@dataclass(frozen=True)
class Parity:
    """What a comparison found."""

    cc: str
    calls: int
    """Calls that were compared."""
    operations: Mapping[str, int]
    """Of those, by operation."""
    flows: int
    """Flows, each with its options."""
    unrecorded: int
    """Calls that were made but could not be recorded."""
    differences: tuple[Difference, ...]
    """Where the builds differ, at most one for each flow."""


def parity(cc: str, calls: int = 20_000, seed: int = 1) -> Parity:
    """Makes ``calls`` calls, drawn from ``seed``, on the native and the BPF build of ``cc``, and compares the state.

    Raises:
        BpfRequestError: no such congestion control, or a source that does not compile.
        BpfError: this host or its kernel cannot.
    """
    said = json.loads(command("parity", source_name(cc), "--calls", str(calls), "--seed", str(seed), "--any-outcome"))
    differences = tuple(Difference(**difference) for difference in said.pop("differences"))
    return Parity(**said, differences=differences)
