"""The language's words for links: queues, losses, delays.

Only what may be written and what it means; `_network.py` writes it into plans.
"""

# ruff: noqa: RUF009 - `key` makes a field of a dataclass, like `dataclasses.field`
from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from ._problem import Log
from ._scalars import (
    BOOLEAN,
    DELAY,
    MTU,
    OVERHEAD,
    PACKET,
    PROBABILITY,
    RATE,
    AmountType,
    Choice,
    Definitions,
    Integer,
    Number,
)
from ._spec import ListOf, OneOf, OneOrEach, Spec, Struct, key
from ._units import Amount
from ._yaml import Map, Node

__all__ = [
    "DSCP",
    "LOSS",
    "QUEUE",
    "QUEUE_SIZE",
    "Bernoulli",
    "Codel",
    "Droptail",
    "FqCodel",
    "GilbertElliott",
    "Jitter",
    "LinkSpec",
    "LossList",
    "NoLoss",
    "Pie",
    "Red",
    "Reorder",
    "Wred",
    "WredClass",
    "packets",
]

QUEUE_SIZE = AmountType("bytes", "packets", "ns", "bdp")
_ECN = "Mark packets that can carry ECN instead of dropping them."


def packets(n: int) -> Amount:
    """A size of so many packets."""
    return Amount(Fraction(n), "packets")


@dataclass(frozen=True, kw_only=True)
class Droptail(Spec):
    """First in, first out; what does not fit is dropped."""

    size: Amount = key(
        QUEUE_SIZE,
        "Limit, in bytes on the wire (`64KiB`), packets (`100packets`), time at the rate of the link (`100ms`), or "
        "multiples of the bandwidth-delay product (`0.5bdp`). The packet in transmission is not counted.",
    )
    least: Amount | None = key(
        AmountType("packets"),
        "At least so much, where `size` comes to less: a tenth of a short path's bandwidth-delay product is no packet.",
        default=None,
    )


@dataclass(frozen=True, kw_only=True)
class Red(Spec):
    """Random early detection (Floyd and Jacobson, 1993)."""

    size: Amount = key(QUEUE_SIZE, "Hard limit.")
    min: Amount = key(QUEUE_SIZE, "Lower threshold of the average queue: below it nothing is dropped.")
    max: Amount = key(QUEUE_SIZE, "Upper threshold of the average queue.")
    max_p: float = key(PROBABILITY, "Drop probability at the upper threshold.", default=0.1)
    weight: float = key(Number(0, 1, positive=True), "Weight of the averaging filter, w_q.", default=0.002)
    gentle: bool = key(
        BOOLEAN, "Climb from `max_p` to 1 between `max` and twice `max`, instead of jumping.", default=True
    )
    ecn: bool = key(BOOLEAN, _ECN, default=False)


DSCP_NAMES = {
    "default": 0,
    "cs1": 8,
    "af11": 10,
    "af12": 12,
    "af13": 14,
    "cs2": 16,
    "af21": 18,
    "af22": 20,
    "af23": 22,
    "cs3": 24,
    "af31": 26,
    "af32": 28,
    "af33": 30,
    "cs4": 32,
    "af41": 34,
    "af42": 36,
    "af43": 38,
    "cs5": 40,
    "ef": 46,
    "cs6": 48,
    "cs7": 56,
}


class DscpType:
    """A differentiated-services code point, by number or name."""

    what = "a code point from 0 to 63, or a name such as `af11` or `ef`"

    def __init__(self) -> None:
        self._number = Integer(0, 63, "a code point")
        self._name = Choice("a code point", dict.fromkeys(DSCP_NAMES, ""))

    def parse(self, node: Node, log: Log) -> int:
        text = getattr(node, "text", "")
        if text.lstrip("+-").isdigit():
            return self._number.parse(node, log)
        return DSCP_NAMES[self._name.parse(node, log)]

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {"anyOf": [self._number.schema(defs), self._name.schema(defs)]}


DSCP = DscpType()


@dataclass(frozen=True, kw_only=True)
class WredClass(Spec):
    """One class of a weighted RED queue: which code points, and their drop curve."""

    dscp: tuple[int, ...] | None = key(
        OneOrEach(DSCP, 64),
        "Code points of this class; without it, the class of all code points not named.",
        default=None,
    )
    min: Amount = key(QUEUE_SIZE, "Lower threshold of the average queue.")
    max: Amount = key(QUEUE_SIZE, "Upper threshold of the average queue.")
    max_p: float = key(PROBABILITY, "Drop probability at the upper threshold.", default=0.1)


@dataclass(frozen=True, kw_only=True)
class Wred(Spec):
    """Weighted RED: one average queue, and a drop curve for each class of packets."""

    size: Amount = key(QUEUE_SIZE, "Hard limit.")
    classes: tuple[WredClass, ...] = key(ListOf(Struct(WredClass), 1, 64), "The classes.")
    weight: float = key(Number(0, 1, positive=True), "Weight of the averaging filter, w_q.", default=0.002)
    gentle: bool = key(
        BOOLEAN, "Climb from `max_p` to 1 between `max` and twice `max`, instead of jumping.", default=True
    )
    ecn: bool = key(BOOLEAN, _ECN, default=False)


@dataclass(frozen=True, kw_only=True)
class Codel(Spec):
    """Controlled delay (RFC 8289)."""

    size: Amount = key(QUEUE_SIZE, "Hard limit; 1000 packets, as in Linux.", default=packets(1000))
    target: int = key(DELAY, "Acceptable standing delay; 5 ms.", default=5_000_000)
    interval: int = key(DELAY, "Window of the minimum; 100 ms.", default=100_000_000)
    ecn: bool = key(BOOLEAN, _ECN, default=False)


@dataclass(frozen=True, kw_only=True)
class FqCodel(Spec):
    """Flow queue CoDel (RFC 8290)."""

    size: Amount = key(QUEUE_SIZE, "Hard limit over all flows; 10240 packets, as in Linux.", default=packets(10_240))
    buckets: int = key(Integer(1, 65_536), "Number of hash buckets; 1024.", default=1024)
    quantum: int = key(PACKET, "Bytes a flow may send a round; 1514.", default=1514)
    target: int = key(DELAY, "Acceptable standing delay; 5 ms.", default=5_000_000)
    interval: int = key(DELAY, "Window of the minimum; 100 ms.", default=100_000_000)
    ecn: bool = key(BOOLEAN, _ECN, default=False)


@dataclass(frozen=True, kw_only=True)
class Pie(Spec):
    """Proportional integral controller enhanced (RFC 8033)."""

    size: Amount = key(QUEUE_SIZE, "Hard limit; 1000 packets, as in Linux.", default=packets(1000))
    target: int = key(DELAY, "Delay aimed at; 15 ms.", default=15_000_000)
    update: int = key(DELAY, "Time between two updates of the probability; 15 ms.", default=15_000_000)
    alpha: float = key(Number(0, 1000), "Weight of the deviation from the target, in 1/s; 0.125.", default=0.125)
    beta: float = key(Number(0, 1000), "Weight of the change of the delay, in 1/s; 1.25.", default=1.25)
    ecn: bool = key(BOOLEAN, _ECN, default=False)


class _DroptailShorthand:
    """``queue: 100ms`` for ``queue: {droptail: {size: 100ms}}``."""

    what = QUEUE_SIZE.what

    def parse(self, node: Node, log: Log) -> Spec:
        return Droptail(mark=node.mark, marks={"size": node.mark}, size=QUEUE_SIZE.parse(node, log))

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return QUEUE_SIZE.schema(defs)


QUEUE: OneOf[Spec] = OneOf(
    "a queue",
    {
        "droptail": Struct(Droptail),
        "red": Struct(Red),
        "wred": Struct(Wred),
        "codel": Struct(Codel),
        "fq_codel": Struct(FqCodel),
        "pie": Struct(Pie),
    },
    _DroptailShorthand(),
    "the size of a drop-tail queue such as `100ms`",
)


@dataclass(frozen=True, kw_only=True)
class Bernoulli(Spec):
    """Each packet is lost with the same probability."""

    p: float = key(PROBABILITY, "Probability.")


@dataclass(frozen=True, kw_only=True)
class GilbertElliott(Spec):
    """A two-state Markov chain, stepped once a packet (Gilbert 1960, Elliott 1963)."""

    p: float = key(PROBABILITY, "Probability of going from the good state to the bad one.")
    r: float = key(PROBABILITY, "Probability of going from the bad state to the good one.")
    good: float = key(PROBABILITY, "Loss probability in the good state.", default=0.0)
    bad: float = key(PROBABILITY, "Loss probability in the bad state.", default=1.0)


@dataclass(frozen=True, kw_only=True)
class LossList(Spec):
    """These packets of the link are lost, counted from 1 over data packets only."""

    packets: tuple[int, ...] = ()


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
    """A random deviation of the delay, drawn for each packet."""

    deviation: int = key(DELAY, "Standard deviation (normal) or half width (uniform).")
    distribution: str = key(
        Choice("a distribution of jitter", {"normal": "", "uniform": ""}), "Its distribution.", default="normal"
    )
    overtaking: bool = key(
        BOOLEAN,
        "Whether a packet may overtake another; without, each is held until its predecessor left.",
        default=False,
    )


@dataclass(frozen=True, kw_only=True)
class Reorder(Spec):
    """Packets chosen at random take longer, so that others overtake them."""

    probability: float = key(PROBABILITY, "Probability that a packet is chosen.")
    extra: int = key(DELAY, "Delay added to a chosen packet.")


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
