"""The language's words for switches: memory, arbiter, forwarding, PAUSE.

Only what may be written and what it means; `_switch.py` writes it into plans.
"""

# ruff: noqa: RUF009 - `key` makes a field of a dataclass, like `dataclasses.field`
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weir.language.problem import Log
from weir.language.scalars import DURATION, SIZE, Choice, Definitions, Integer, Number, Text
from weir.language.spec import MapOf, OneOf, ShapeOf, Short, Spec, Struct, key
from weir.language.tree import Node, Scalar

from ._switch_presets import PRESETS

__all__ = [
    "SWITCH",
    "Bursty",
    "Exponential",
    "Fifo",
    "Fixed",
    "Islip",
    "Mixed",
    "Pareto",
    "Partitioned",
    "Pause",
    "Pim",
    "RoundRobin",
    "Shared",
    "Switch",
    "Weighted",
    "is_file",
]

_ALPHA = Number(0, 1e6, positive=True)
_ALPHA_DOC = "A queue holds at most this times the free shared memory (Choudhury and Hahne 1998). Default: no limit."


@dataclass(frozen=True, kw_only=True)
class Shared(Spec):
    """One memory for all queues."""

    size: int = key(SIZE, "Size of the memory.")
    alpha: float | None = key(_ALPHA, _ALPHA_DOC, default=None)


@dataclass(frozen=True, kw_only=True)
class Partitioned(Spec):
    """A memory for each queue."""

    size: int = key(SIZE, "Size of each queue's memory.")


@dataclass(frozen=True, kw_only=True)
class Mixed(Spec):
    """A memory for each queue, and a shared one for what does not fit."""

    reserved: int = key(SIZE, "Size of each queue's own memory.")
    shared: int = key(SIZE, "Size of the shared memory.")
    alpha: float | None = key(_ALPHA, _ALPHA_DOC, default=None)


_MEMORY: OneOf[Spec] = OneOf(
    "a memory",
    {"shared": Struct(Shared), "partitioned": Struct(Partitioned), "mixed": Struct(Mixed)},
    Short(Shared, "size", SIZE),
    "the size of a shared one such as `512KiB`",
)


@dataclass(frozen=True, kw_only=True)
class Fixed(Spec):
    """Always the same time."""

    time: int = key(DURATION, "The time.")


@dataclass(frozen=True, kw_only=True)
class Exponential(Spec):
    """Exponentially distributed times."""

    mean: int = key(DURATION, "Their mean.")


@dataclass(frozen=True, kw_only=True)
class Pareto(Spec):
    """Pareto distributed times."""

    mean: int = key(DURATION, "Their mean.")
    shape: float = key(Number(1, 1000, positive=True), "Their shape, above 1. Default: 1.5.", default=1.5)


_HOLD: OneOf[Spec] = OneOf(
    "a law of times",
    {"fixed": Struct(Fixed), "exponential": Struct(Exponential), "pareto": Struct(Pareto)},
    Short(Fixed, "time", DURATION),
    "a fixed time such as `100ms`",
)


@dataclass(frozen=True, kw_only=True)
class Fifo(Spec):
    """The packet that arrived first: one queue for each output port."""


@dataclass(frozen=True, kw_only=True)
class RoundRobin(Spec):
    """A packet from each input port in turn."""


@dataclass(frozen=True, kw_only=True)
class Weighted(Spec):
    """Input ports get bytes in proportion to their weights: self-clocked fair queueing."""

    weights: dict[str, int] = key(
        MapOf(Integer(1, 1_000_000, "a weight"), "a neighbour of the switch"),
        "By the name of the node at the other end of the input's link. Others have 1.",
    )


_ITERATIONS = Integer(1, 64, "a number of iterations")


@dataclass(frozen=True, kw_only=True)
class Islip(Spec):
    """iSLIP for whole packets: inputs and outputs are matched by pointers that turn."""

    iterations: int = key(_ITERATIONS, "Rounds of request, grant and accept. Default: 4.", default=4)


@dataclass(frozen=True, kw_only=True)
class Pim(Spec):
    """Parallel iterative matching for whole packets: inputs and outputs are matched at random."""

    iterations: int = key(_ITERATIONS, "Rounds of request, grant and accept. Default: 4.", default=4)


@dataclass(frozen=True, kw_only=True)
class Bursty(Spec):
    """Forwards one input port for a time, then another one at random; the others get what it leaves."""

    hold: Spec = key(_HOLD, "The law of the times.")


_ARBITER: OneOf[Spec] = OneOf(
    "an arbiter",
    {
        "fifo": Struct(Fifo),
        "round_robin": Struct(RoundRobin),
        "weighted": Struct(Weighted),
        "islip": Struct(Islip),
        "pim": Struct(Pim),
        "bursty": Struct(Bursty),
    },
)


@dataclass(frozen=True, kw_only=True)
class Pause(Spec):
    """IEEE 802.3 flow control: the switch stops the sender of an input port whose packets fill the memory."""

    high: int = key(SIZE, "Bytes of the input in the memory at which its sender stops.")
    low: int = key(SIZE, "Bytes at which it continues.")


_FILE = Text("the name of a file", r"[^\x00-\x1f]+", 1000)
_PRESET = Choice("a preset of a switch", {name: preset.doc for name, preset in PRESETS.items()})
_FORWARDING = Choice(
    "a way of forwarding",
    {
        "store_and_forward": "A packet is forwarded when its last bit has arrived.",
        "cut_through": "A packet is forwarded when its first 64 bytes have arrived.",
    },
)


@dataclass(frozen=True, kw_only=True)
class Switch(Spec):
    """A switch: its memory, arbiter and options. What is not given is as in the preset or the file."""

    preset: str | None = key(_PRESET, "A known switch or class of switches.", default=None)
    file: str | None = key(
        _FILE,
        "A file with these keys, as `weir switch characterise` writes it; relative to the scenario.",
        default=None,
    )
    memory: Spec | None = key(_MEMORY, "The memory, in bytes on the wire.", default=None)
    resume: int | None = key(
        SIZE,
        "After it has dropped a packet, a queue takes the next one when it has this much room. Default: 0.",
        default=None,
    )
    arbiter: Spec | None = key(_ARBITER, "The choice among waiting packets. Default: `fifo`.", default=None)
    forwarding: str | None = key(_FORWARDING, "Default: `store_and_forward`.", default=None)
    jitter: int | None = key(
        DURATION,
        "Largest time in the fabric, uniformly distributed; packets of an input port stay in order. Default: 0.",
        default=None,
    )
    pause: Pause | None = key(Struct(Pause), "IEEE 802.3 flow control. Default: none.", default=None)


class _Shorthand:
    what = f"{_PRESET.what}, or a file such as `./switch.yaml`"

    def parse(self, node: Node, log: Log) -> Switch:
        if isinstance(node, Scalar) and is_file(node.text):
            return Switch(mark=node.mark, marks={"file": node.mark}, file=_FILE.parse(node, log))
        return Switch(mark=node.mark, marks={"preset": node.mark}, preset=_PRESET.parse(node, log))

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {"anyOf": [_PRESET.schema(defs), {**_FILE.schema(defs), "pattern": r"/|\.ya?ml$"}]}


def is_file(word: str) -> bool:
    """Whether a word names a file, not a preset."""
    return "/" in word or word.endswith((".yaml", ".yml"))


SWITCH: ShapeOf[Switch] = ShapeOf(
    "a switch: the name of a preset, a file, or a mapping", scalar=_Shorthand(), mapping=Struct(Switch)
)
