"""Presets of switches: the two classes of LIP 2006-38, and its six switches.

The paper measures how they share an output port (tables 2 to 7). It gives the memory of two: the manufacturer's 512 KB
for the D-Link; for the Foundry, the smoothed round-trip time rises by 28 ms (section 5.2.2), 3.5 MB at 1 Gb/s. The
others have 1 MB here, an assumption. docs/scenario-language.md says where each figure comes from.

Three switches starve a flow, and share 800 + 800 Mb/s as 792 and 197: exactly what a full FIFO memory does to two
exact clocks, whose packets always find the same place free or taken. So these are FIFOs here, and a port with a clock
of its own makes the starved flow change. The class `bursty` has an arbiter that keeps to an input instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["PRESETS", "Preset"]


@dataclass(frozen=True)
class Preset:
    """A switch in the form of the plan, with a sentence about it."""

    doc: str
    memory: Mapping[str, Any]
    arbiter: Mapping[str, Any]
    resume_bytes: int = 0


_ASSUMED = {"kind": "shared", "bytes": 1_000_000, "alpha": None}
_FIFO = {"kind": "fifo"}
_RESUME = 64 * 1538
"""64 full packets: enough that the places are taken in the order of arrival, not by phase."""

PRESETS: dict[str, Preset] = {
    "bursty": Preset(
        "Class of LIP 2006-38 that forwards one input at a time: exponential times of 100 ms.",
        {"kind": "shared", "bytes": 1_000_000, "alpha": 1.0},
        {"kind": "bursty", "hold": {"kind": "exponential", "mean_ns": 100_000_000}},
    ),
    "fair": Preset(
        "Class of LIP 2006-38 that serves its inputs in turn.",
        {"kind": "shared", "bytes": 1_000_000, "alpha": 1.0},
        {"kind": "round_robin"},
    ),
    "foundry-x424": Preset(
        "Foundry FastIron Edge X424 (table 2).", {"kind": "shared", "bytes": 3_500_000, "alpha": None}, _FIFO
    ),
    "cisco-4948": Preset("Cisco 4948 (table 3).", _ASSUMED, _FIFO),
    "cisco-3750": Preset("Cisco 3750 (table 4).", _ASSUMED, _FIFO),
    "dlink-dgs1216t": Preset(
        "D-Link DGS1216T (table 5).",
        {"kind": "shared", "bytes": 512_000, "alpha": 1.0},
        {"kind": "round_robin"},
    ),
    "huawei-s5648": Preset("Huawei S5648 (table 6).", _ASSUMED, _FIFO, _RESUME),
    "dell-5224": Preset("Dell 5224 (table 7).", _ASSUMED, _FIFO, _RESUME),
}
