"""Options of methods: choices of how a method executes a plan.

The language of scenarios takes its words, documentation and defaults from this table. A plan contains the choices
(``methods`` of ``crates/weir-plan``), because they may change results; a plan without them means the same defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["OPTIONS", "WHAT", "Option"]


@dataclass(frozen=True)
class Option:
    """One choice that a method leaves to a plan."""

    name: str
    doc: str
    values: Mapping[str, str]
    """The meaning of each value; empty: as its name says."""
    default: str
    kind: str
    """The kind of a value, for errors: ``a kind of links``."""
    late: bool = False
    """Whether it was added after plans were hashed: its default is then omitted."""


_EMULATOR = "the program weir-emu"
_NETEM = "the kernel's queueing disciplines between namespaces; refuses plans beyond their abilities"

OPTIONS: Mapping[str, tuple[Option, ...]] = {
    "emul": (
        Option(
            "links",
            "Implementation of the links. Default: emulator.",
            {"emulator": _EMULATOR, "netem": _NETEM},
            default="emulator",
            kind="a kind of links",
        ),
        Option(
            "offload",
            "How hosts send segments. Default: auto. With netem, each packet is alone.",
            {
                "auto": "`packets` up to 25 000 packets a second, which any machine carries, else `trains`",
                "packets": "single segments from the start",
                "trains": "trains of segments: more packets a second, in bursts of up to 64 KB",
            },
            default="auto",
            kind="a kind of offload",
            late=True,
        ),
    ),
    "lab": (
        Option(
            "links",
            "Implementation of the links. Default: auto.",
            {
                "auto": "`kernel` if it supports the whole plan, else `emulator`",
                "kernel": "weir's module in the lab's kernel",
                "emulator": _EMULATOR,
                "netem": _NETEM,
            },
            default="auto",
            kind="a kind of links",
        ),
        Option(
            "offload",
            "How hosts send segments. Default: packets. With weir-emu as links, `device` means `trains`.",
            {
                "packets": "single segments from the start",
                "trains": "trains of segments stay whole on every link: many times faster, in bursts of up to 64 KB",
                "device": "TCP makes trains, and the host's device splits them, as a usual network card does",
            },
            default="packets",
            kind="a kind of offload",
        ),
    ),
    "sim": (
        Option(
            "offload",
            "What the host of a paced flow sends at once. Default: packets.",
            {
                "packets": "single segments, as the hosts of `lab` and `emul` do by default",
                "device": "trains of a millisecond, two segments or more, as Linux makes them for a usual network card",
            },
            default="packets",
            kind="a kind of offload",
            late=True,
        ),
    ),
}
"""By method."""

WHAT: Mapping[str, str] = {
    "emul": "this host's Linux in real time",
    "lab": "Linux in virtual time",
    "sim": "the simulator",
}
"""A description of each method, for the language's documentation."""
