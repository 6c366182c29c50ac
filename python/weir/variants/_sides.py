"""What is compared: the kernel's congestion control, and weir's, by the paper and as Linux, there and simulated."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from weir import _weir
from weir.lab import BUILT_IN
from weir.variants.errors import VariantError

__all__ = ["AS_LINUX", "SIDES", "Side", "names"]

AS_LINUX = "as_linux"
"""The option with which a congestion control does what the kernel's does."""


@dataclass(frozen=True)
class Side:
    """One way to execute every cell."""

    name: str
    method: str
    kind: Literal["kernel", "paper", "as linux"]

    def congestion_control(self, name: str) -> Any:
        """``name`` as a scenario writes it for this side; none where there is no such thing."""
        if self.kind == "kernel":
            return f"linux:{name}"
        if self.kind == "paper":
            return name
        return {"name": name, AS_LINUX: True} if AS_LINUX in _registered()[name] else None

    def overrides(self, chosen: Sequence[str]) -> dict[str, str]:
        """What this side changes about the scenario; nothing, if it has none of the congestion controls."""
        there = {name: cc for name in chosen if (cc := self.congestion_control(name)) is not None}
        return {"sweep.transport.cc": json.dumps(there)} if there else {}


SIDES = (
    Side("kernel", "lab", "kernel"),
    Side("lab", "lab", "paper"),
    Side("lab as_linux", "lab", "as linux"),
    Side("sim", "sim", "paper"),
    Side("sim as_linux", "sim", "as linux"),
)
"""The kernel's own first: it is the reference."""


def names(chosen: Sequence[str] = ()) -> tuple[str, ...]:
    """The congestion controls that weir and the lab kernel both have; of those chosen, if any are.

    Raises:
        VariantError: one of those chosen is missing from either.
    """
    both = tuple(name for name in _registered() if name in BUILT_IN)
    for name in chosen:
        if name not in both:
            raise VariantError(f"{name}: not both in weir and in the lab's kernel; there are {', '.join(both)}")
    return tuple(name for name in both if name in chosen) if chosen else both


def _registered() -> dict[str, set[str]]:
    """The options of weir's congestion controls, by name."""
    return {cc["name"]: {option["name"] for option in cc["options"]} for cc in json.loads(_weir.cc_list())}
