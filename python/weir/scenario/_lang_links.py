"""The language's words for links: losses, delays, and the link itself.

Only what may be written and what it means; `_network.py` writes it into plans.
"""

# ruff: noqa: RUF009 - `key` makes a field of a dataclass, like `dataclasses.field`
from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from weir.language.problem import Log
from weir.language.scalars import DELAY, MTU, OVERHEAD, PROBABILITY, RATE, Definitions
from weir.language.spec import OneOf, Short, Spec, Struct, key
from weir.language.tree import Map, Node
from weir.queues import Form

from ._declared import declared, mappings, titled, type_of
from ._lang_queues import QUEUE

__all__ = ["LOSS", "LOSS_FORMS", "Jitter", "LinkSpec", "LossList", "NoLoss", "Reorder"]


_LOSSES = mappings("loss")
LOSS_FORMS: dict[type[Spec], tuple[str, Form]] = {made: (kind, form) for made, kind, form in _LOSSES.values()}
"""Of each mapping of losses: their kind in plans, and its keys."""
_BERNOULLI = _LOSSES["bernoulli"][0]


@titled("loss", "list")
@dataclass(frozen=True, kw_only=True)
class LossList(Spec):
    packets: tuple[int, ...] = declared("loss", "list", "packets")

    @cached_property
    def listed(self) -> list[int]:
        """The packets as a list, which all links and changes with these losses share."""
        return list(self.packets)


@dataclass(frozen=True, kw_only=True)
class NoLoss(Spec):
    """No losses."""


_BERNOULLI_SHORT = Short(_BERNOULLI, "p", PROBABILITY)


class _BernoulliType:
    """``bernoulli: 1%``, or a mapping with ``p``."""

    what = f"{PROBABILITY.what}, or a mapping with `p`"

    def parse(self, node: Node, log: Log) -> Spec:
        return Struct(_BERNOULLI).parse(node, log) if isinstance(node, Map) else _BERNOULLI_SHORT.parse(node, log)

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {"anyOf": [*PROBABILITY.schema(defs)["anyOf"], Struct(_BERNOULLI).schema(defs)]}


class _LossListType:
    what = "a list of packet numbers, ascending, from 1"
    _key = _LOSSES["list"][2].keys[0]
    _list = type_of(_key)

    def parse(self, node: Node, log: Log) -> Spec:
        packets = self._list.parse(node, log)
        if any(a >= b for a, b in pairwise(packets)):
            raise log.error(node.mark, f"expected {self.what}")
        return LossList(mark=node.mark, packets=packets)

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return self._list.schema(defs) | {"description": self._key.meaning}


LOSS: OneOf[Spec] = OneOf(
    "a loss model",
    {
        "none": Struct(NoLoss),
        **{name: Struct(made) for name, (made, _, _) in _LOSSES.items()},
        "bernoulli": _BernoulliType(),
        "list": _LossListType(),
    },
    _BERNOULLI_SHORT,
    "a probability such as `1%`",
)


@titled("delay", "jitter")
@dataclass(frozen=True, kw_only=True)
class Jitter(Spec):
    deviation: int = declared("delay", "jitter", "deviation")
    distribution: str = declared("delay", "jitter", "distribution")
    overtaking: bool = declared("delay", "jitter", "overtaking")


@titled("delay", "reorder")
@dataclass(frozen=True, kw_only=True)
class Reorder(Spec):
    probability: float = declared("delay", "reorder", "probability")
    extra: int = declared("delay", "reorder", "extra")


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
