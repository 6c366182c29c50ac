"""The language's words for options of methods: how one executes the experiment, where it has a choice."""

# ruff: noqa: RUF009 - `key` makes a field of a dataclass, like `dataclasses.field`
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._scalars import Choice
from ._spec import Spec, Struct, key

__all__ = ["Emul", "Lab", "Methods"]

_EMULATOR = "the program weir-emu"
_NETEM = "queueing disciplines of the kernel between namespaces; a plan they cannot carry out is refused"


@dataclass(frozen=True, kw_only=True)
class Emul(Spec):
    """Options of method `emul`, this host's Linux in real time."""

    links: str = key(
        Choice("a kind of links", {"emulator": _EMULATOR, "netem": _NETEM}),
        "What the links are; emulator.",
        default="emulator",
    )
    offload: str = key(
        Choice(
            "a kind of offload",
            {
                "auto": "`packets` up to 25 000 packets a second, which any machine carries, else `trains`",
                "packets": "each packet is alone from the start, as in the simulator",
                "trains": "hosts send trains of segments: more a second, in bursts of up to 64 KB",
            },
        ),
        "What the hosts do about segments; auto. On links of netem, each packet is alone.",
        default="auto",
    )


@dataclass(frozen=True, kw_only=True)
class Lab(Spec):
    """Options of method `lab`, Linux in virtual time."""

    links: str = key(
        Choice(
            "a kind of links",
            {
                "auto": "`kernel` where it can do all of the plan, else `emulator`",
                "kernel": "weir's own module of the lab kernel",
                "emulator": _EMULATOR,
                "netem": _NETEM,
            },
        ),
        "What the links are; auto.",
        default="auto",
    )
    offload: str = key(
        Choice(
            "a kind of offload",
            {
                "packets": "each packet is alone from the start, as in the simulator",
                "trains": "trains of segments stay whole on every link: many times faster, in bursts of up to 64 KB",
                "device": "TCP makes trains, and the host's device takes them apart, as a usual card does",
            },
        ),
        "What the hosts' devices do about segments; packets. Where weir-emu is the links, `device` is `trains`.",
        default="packets",
    )


@dataclass(frozen=True, kw_only=True)
class Methods(Spec):
    """Options of methods: how one executes the experiment, where it has a choice. They may change its results."""

    emul: Emul = key(Struct(Emul), "Options of `emul`.", default=Emul())
    lab: Lab = key(Struct(Lab), "Options of `lab`.", default=Lab())

    def plan(self) -> dict[str, Any]:
        """As it stands in a plan, whose hash names results: what came later is left out where it is the default."""
        emul = {} if self.emul.offload == "auto" else {"offload": self.emul.offload}
        return {
            "emul": {"links": self.emul.links, **emul},
            "lab": {"links": self.lab.links, "offload": self.lab.offload},
        }
