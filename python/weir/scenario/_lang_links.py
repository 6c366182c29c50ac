"""The language's words for links: losses, delays, and the link itself.

Only what may be written and what it means; `_network.py` writes it into plans.
"""

# ruff: noqa: RUF009 - `key` makes a field of a dataclass, like `dataclasses.field`
from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from ._lang_queues import QUEUE
from ._problem import Log
from ._scalars import BOOLEAN, DELAY, MTU, OVERHEAD, PROBABILITY, RATE, Choice, Definitions, Integer
from ._spec import ListOf, OneOf, Spec, Struct, key
from ._yaml import Map, Node

__all__ = ["LOSS", "Bernoulli", "GilbertElliott", "Jitter", "LinkSpec", "LossList", "NoLoss", "Reorder"]


@dataclass(frozen=True, kw_only=True)
class Bernoulli(Spec):
    """Each packet is lost with the same probability."""

    p: float = key(PROBABILITY, "Probability.")


@dataclass(frozen=True, kw_only=True)
class GilbertElliott(Spec):
    """A two-state Markov chain with one step for each packet (Gilbert 1960, Elliott 1963)."""

    p: float = key(PROBABILITY, "Probability of going from the good state to the bad one.")
    r: float = key(PROBABILITY, "Probability of going from the bad state to the good one.")
    good: float = key(PROBABILITY, "Loss probability in the good state.", default=0.0)
    bad: float = key(PROBABILITY, "Loss probability in the bad state.", default=1.0)


@dataclass(frozen=True, kw_only=True)
class LossList(Spec):
    """These packets of the link are lost, counted from 1 over data packets only."""

    packets: tuple[int, ...] = ()

    @cached_property
    def listed(self) -> list[int]:
        """The packets as a list, which all links and changes with these losses share."""
        return list(self.packets)


@dataclass(frozen=True, kw_only=True)
class NoLoss(Spec):
    """No losses."""


class _BernoulliShorthand:
    what = PROBABILITY.what

    def parse(self, node: Node, log: Log) -> Spec:
        return Bernoulli(mark=node.mark, marks={"p": node.mark}, p=PROBABILITY.parse(node, log))

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return PROBABILITY.schema(defs)


class _BernoulliType:
    """``bernoulli: 1%``, or a mapping with ``p``."""

    what = f"{PROBABILITY.what}, or a mapping with `p`"

    def parse(self, node: Node, log: Log) -> Spec:
        return Struct(Bernoulli).parse(node, log) if isinstance(node, Map) else _BernoulliShorthand().parse(node, log)

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {"anyOf": [*PROBABILITY.schema(defs)["anyOf"], Struct(Bernoulli).schema(defs)]}


class _LossListType:
    what = "a list of packet numbers, ascending, from 1"
    _list = ListOf(Integer(1, 10**15, "a packet number"), 1, 100_000)

    def parse(self, node: Node, log: Log) -> Spec:
        packets = self._list.parse(node, log)
        if any(a >= b for a, b in pairwise(packets)):
            raise log.error(node.mark, f"expected {self.what}")
        return LossList(mark=node.mark, packets=packets)

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return self._list.schema(defs) | {"description": "Packet numbers, ascending, from 1, over data packets only."}


LOSS: OneOf[Spec] = OneOf(
    "a loss model",
    {
        "none": Struct(NoLoss),
        "bernoulli": _BernoulliType(),
        "gilbert_elliott": Struct(GilbertElliott),
        "list": _LossListType(),
    },
    _BernoulliShorthand(),
    "a probability such as `1%`",
)


@dataclass(frozen=True, kw_only=True)
class Jitter(Spec):
    """A random deviation of each packet's delay."""

    deviation: int = key(DELAY, "Standard deviation (normal) or half width (uniform).")
    distribution: str = key(
        Choice("a distribution of jitter", {"normal": "", "uniform": ""}), "Its distribution.", default="normal"
    )
    overtaking: bool = key(
        BOOLEAN,
        "Whether a packet may overtake another. Default: each waits until its predecessor has left.",
        default=False,
    )


@dataclass(frozen=True, kw_only=True)
class Reorder(Spec):
    """Randomly chosen packets take longer, so that others overtake them."""

    probability: float = key(PROBABILITY, "Probability that a packet is chosen.")
    extra: int = key(DELAY, "Additional delay of a chosen packet.")


@dataclass(frozen=True, kw_only=True)
class LinkSpec(Spec):
    """A link. What is not given in `reverse` is the same in both directions, except losses, jitter and reordering."""

    rate: int | None = key(RATE, "Rate of the transmitter.", default=None)
    delay: int | None = key(DELAY, "One-way propagation delay.", default=None)
    queue: Spec | None = key(QUEUE, "The queue before the transmitter.", default=None)
    loss: Spec | None = key(LOSS, "Losses before the queue.", default=None)
    jitter: Jitter | None = key(Struct(Jitter), "Random deviation of the delay.", default=None)
    reorder: Reorder | None = key(Struct(Reorder), "Reordering.", default=None)
    mtu: int | None = key(MTU, "Largest IP packet.", default=None)
    overhead: int | None = key(OVERHEAD, "Bytes added to each IP packet on the wire.", default=None)
