"""Language definitions of networks: topologies.

This module defines syntax and meaning; `_topologies.py` builds nodes and links.
"""

# ruff: noqa: RUF009 - `key` makes a field of a dataclass, like `dataclasses.field`
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weir.language.scalars import BOOLEAN, DELAY, MTU, NAME, OVERHEAD, PROBABILITY, RATE, AmountType, Integer, Number
from weir.language.spec import ListOf, MapOf, OneOf, OneOrEach, Spec, Struct, key
from weir.language.units import Amount

from ._lang_links import LinkSpec
from ._lang_queues import QUEUE_SIZE, packets
from ._lang_switch import SWITCH, Switch

__all__ = ["TOPOLOGY", "Access", "Dumbbell", "Graph", "GraphLink", "Hierarchical", "Level", "ParkingLot", "Star"]


@dataclass(frozen=True, kw_only=True)
class Access(Spec):
    """The links of the hosts; values for all pairs, or lists with one for each."""

    rate: tuple[int, ...] | None = key(
        OneOrEach(RATE), "Rate of both directions; from the host if `down` is given.", default=None
    )
    down: tuple[int, ...] | None = key(
        OneOrEach(RATE),
        "Rate towards the host if it differs, as on DSL and satellite links (thesis, table 4.VII).",
        default=None,
    )
    delay: tuple[int, ...] | None = key(OneOrEach(DELAY), "One-way propagation delay. Default: 0.", default=None)
    queue: Amount = key(
        AmountType("packets"),
        "Transmit queue of the host (`txqueuelen`), and of the router towards the host. Default: 1000 packets.",
        default=packets(1000),
    )
    clocks: float = key(
        PROBABILITY,
        "Largest deviation of the hosts' clocks, drawn for each host: it sends at its rate times 1 plus or minus this. "
        "Default: 0. Ethernet allows 0.01 %. With exact clocks, senders of equal rates stay in phase for ever, and a "
        "full queue may always drop the packets of the same senders.",
        default=0.0,
    )


_RTT_DOC = (
    "Two-way propagation time of a pair, access links included: one for all pairs, or a list with one for each. The "
    "rest of the shortest, beyond the links' own delays, goes to the bottleneck; a longer one's to the receiver's "
    "access link."
)
_MTU_DOC = "Largest IP packet on every link. Default: 1500 B."
_OVERHEAD_DOC = "Bytes added to each IP packet on the wire. Default: 38 for Ethernet (preamble, header, FCS and gap)."
_PAIR_COUNT = Integer(1, 20_000, "a number of pairs")


@dataclass(frozen=True, kw_only=True)
class _Common(Spec):
    mtu: int = key(MTU, _MTU_DOC, default=1500)
    overhead: int = key(OVERHEAD, _OVERHEAD_DOC, default=38)


@dataclass(frozen=True, kw_only=True)
class _Paired(_Common):
    pairs: int | None = key(
        _PAIR_COUNT, "Number of pairs of source and sink, `src0` to `dst0` and so on.", default=None
    )
    multiplexing: int | None = key(_PAIR_COUNT, "Another name for `pairs`: the multiplexing factor M.", default=None)
    access: Access | None = key(Struct(Access), "Links of the hosts, on both sides.", default=None)
    sink_access: Access | None = key(Struct(Access), "Links of the sinks, if they differ from `access`.", default=None)
    aggregation: float | None = key(
        Number(0, 1e9, positive=True),
        "The aggregation level K = C / Ca, which gives the access rate Ca from the bottleneck's capacity C.",
        default=None,
    )
    bottleneck: LinkSpec | None = key(Struct(LinkSpec), "The shared link, in the direction of the sinks.", default=None)
    capacity: int | None = key(RATE, "The capacity C: another name for `bottleneck.rate`.", default=None)
    buffer: Amount | None = key(
        QUEUE_SIZE, "The buffer B: another name for a drop-tail `bottleneck.queue`.", default=None
    )
    reverse: LinkSpec | None = key(
        Struct(LinkSpec), "The shared link in the direction of the sources, if it differs.", default=None
    )
    rtt: tuple[int, ...] | None = key(OneOrEach(DELAY), _RTT_DOC, default=None)
    rtt_spread: tuple[float, ...] | None = key(
        ListOf(Number(1, 1000), 1, 20_000),
        "Factors of `rtt`, one for each pair: `[1, 1.5, 2]`. A sweep can thus vary `rtt` although pairs differ.",
        default=None,
    )


@dataclass(frozen=True, kw_only=True)
class Dumbbell(_Paired):
    """Pairs of source and sink on either side of one shared link.

    Links: `bottleneck`, `bottleneck.reverse`, `src0->left`, `right->dst0` and so on.
    """


@dataclass(frozen=True, kw_only=True)
class Level(Spec):
    """One level of aggregation: every router above it has so many branches, each over a link of its own."""

    branches: int = key(
        Integer(1, 1000, "a number of branches"), "Number of branches of each router of the level above."
    )
    link: LinkSpec = key(Struct(LinkSpec), "The link of a branch; its queue applies to both directions.")


@dataclass(frozen=True, kw_only=True)
class Hierarchical(_Paired):
    """A dumbbell whose sides are trees: levels of aggregation between the hosts and the shared link.

    Consecutive pairs are on different leaves, so that the first n pairs are spread over the tree.
    """

    levels: tuple[Level, ...] = key(ListOf(Struct(Level), 1, 8), "Levels from the shared link outwards, on both sides.")


@dataclass(frozen=True, kw_only=True)
class ParkingLot(_Common):
    """A chain of bottlenecks: `pairs` cross all of them, `cross` traffic one each.

    Links: `bottleneck0`, `bottleneck0.reverse` and so on. Groups of pairs: `pairs`, `cross` (all, bottleneck by
    bottleneck), `cross0` (those of the first bottleneck) and so on.
    """

    bottlenecks: int = key(Integer(1, 100, "a number of bottlenecks"), "Number of bottlenecks.")
    bottleneck: tuple[LinkSpec, ...] = key(OneOrEach(Struct(LinkSpec), 100), "The bottlenecks: one for all, or a list.")
    pairs: int = key(_PAIR_COUNT, "Number of pairs across all bottlenecks.", default=1)
    cross: int = key(Integer(0, 1000, "a number of pairs"), "Number of pairs across each bottleneck.", default=1)
    access: Access = key(Struct(Access), "Links of the hosts.")
    rtt: tuple[int, ...] | None = key(
        OneOrEach(DELAY),
        "Two-way propagation time of `pairs`; the rest is spread over the bottlenecks.",
        default=None,
    )
    cross_rtt: int | None = key(
        DELAY, "Two-way propagation time of cross pairs. Default: the sum of their links' delays.", default=None
    )


@dataclass(frozen=True, kw_only=True)
class Star(_Common):
    """Hosts `h0`, `h1` and so on around `hub`: a router with queues at its ports `hub->h0` and so on, or a switch."""

    hosts: int = key(Integer(2, 20_000, "a number of hosts"), "Number of hosts.")
    access: Access = key(Struct(Access), "Links of the hosts; `queue` is the host's queue.")
    port: LinkSpec | None = key(
        Struct(LinkSpec),
        "The hub's output ports, if they differ from `access`: rate, queue, losses.",
        default=None,
    )
    switch: Switch | None = key(
        SWITCH, "Makes the hub a switch, whose memory holds the packets instead of queues at the ports.", default=None
    )
    rtt: int | None = key(
        DELAY, "Two-way propagation time between any two hosts, a quarter on each link.", default=None
    )


@dataclass(frozen=True, kw_only=True)
class GraphLink(LinkSpec):
    """A link of a graph, with both directions unless `oneway`."""

    between: tuple[str, ...] = key(ListOf(NAME, 2, 2), "Its ends, from and to.")
    name: str | None = key(
        NAME, "Its name; the other direction is `name.reverse`. Default: `a->b` and `b->a`.", default=None
    )
    oneway: bool = key(BOOLEAN, "Only the direction from the first to the second end.", default=False)
    host_queue: Amount = key(
        AmountType("packets"),
        "Transmit queue of a host at an end of this link (`txqueuelen`). Default: 1000 packets. A router's queue is "
        "`queue`; without it, a router has the same towards a host.",
        default=packets(1000),
    )
    reverse: LinkSpec | None = key(Struct(LinkSpec), "The other direction, if it differs.", default=None)


@dataclass(frozen=True, kw_only=True)
class Graph(_Common):
    """Any nodes and links. Packets take the path with the least delay, then the fewest links, then the first one."""

    hosts: tuple[str, ...] = key(ListOf(NAME, 2, 20_000), "Names of the hosts.")
    routers: tuple[str, ...] = key(ListOf(NAME, 0, 20_000), "Names of the routers.", default=())
    switches: Mapping[str, Switch] | None = key(
        MapOf(SWITCH, "the name of a switch"),
        "Switches by name. Links that leave one have no queue: its memory holds their packets.",
        default=None,
    )
    links: tuple[GraphLink, ...] = key(ListOf(Struct(GraphLink), 1, 100_000), "The links.")
    rtt: int | None = key(DELAY, "The RTT for `bdp` as the size of a queue.", default=None)


TOPOLOGY: OneOf[Spec] = OneOf(
    "a topology",
    {
        "dumbbell": Struct(Dumbbell),
        "hierarchical": Struct(Hierarchical),
        "parking_lot": Struct(ParkingLot),
        "star": Struct(Star),
        "graph": Struct(Graph),
    },
)
