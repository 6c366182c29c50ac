"""A method that is the simulator on a machine too small for long paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir.methods import Capacity, Need
from weir.methods.sim import Sim

LONGEST_NS = 15_000_000
"""One-way delay of the bottleneck that it carries."""


class SmallMachine(Sim):
    """The simulator, which says that it does not carry what takes long."""

    name = "small"

    def capacity(self, plan: Mapping[str, Any]) -> Capacity:
        """One need: the delay of the bottleneck."""
        link = next(link for link in plan["links"] if link["name"] == "bottleneck")
        return Capacity((Need("nanoseconds", link["delay"]["delay_ns"], LONGEST_NS, "ns"),), "made up")
