"""Language definitions of workloads.

This module defines syntax and meaning; `_flows.py` compiles it into flows.
"""

# ruff: noqa: RUF009 - `key` makes a field of a dataclass, like `dataclasses.field`
from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from weir.language import units as _units
from weir.language.problem import NOWHERE, Invalid, Log, Mark, choose
from weir.language.scalars import BOOLEAN, DURATION, NAME, PACKET, RATE, SIZE, Definitions, Integer, Number
from weir.language.spec import ListOf, OneOrEach, Spec, Struct, key
from weir.language.tree import Map, Node, Scalar, Seq, describe

from ._distribution import Distribution, DistributionType
from ._dscp import DSCP
from ._lang_transport import Transport
from ._selector import Selector, SelectorType

__all__ = [
    "SIZES",
    "WAITS",
    "Between",
    "Bulk",
    "Cbr",
    "Datagrams",
    "Every",
    "On",
    "OnOff",
    "Profiled",
    "RateStep",
    "Starts",
    "Transfer",
    "Workload",
]

INSTANT = DURATION
SIZES = DistributionType(SIZE, "size", "{exponential: {mean: 1MB}}")
WAITS = DistributionType(DURATION, "duration", "{exponential: {mean: 1s}}")


@dataclass(frozen=True)
class Between:
    """Senders and receivers: a group of pairs of the topology, or the hosts at both ends."""

    pairs: Selector | None
    sources: tuple[Selector, ...] = ()
    sinks: tuple[Selector, ...] = ()
    mark: Mark = NOWHERE


@dataclass(frozen=True, kw_only=True)
class _Ends(Spec):
    """The hosts of both ends: equally many on both sides, or one on one side."""

    from_: tuple[Selector, ...] = key(OneOrEach(SelectorType("a host such as `h0`, or several: `h[0..3]`")), "Senders.")
    to: tuple[Selector, ...] = key(OneOrEach(SelectorType("a host such as `h0`, or several: `h[0..3]`")), "Receivers.")


class _BetweenType:
    what = "`pairs`, some of them (`pairs[0..4]`), `[from, to]`, or `{from: ..., to: ...}`"
    _group = SelectorType("a group of pairs such as `pairs` or `pairs[0..4]`")
    _host = SelectorType("a host such as `h0`, or several: `h[0..3]`")

    def parse(self, node: Node, log: Log) -> Between:
        if isinstance(node, Scalar):
            return Between(self._group.parse(node, log), mark=node.mark)
        if isinstance(node, Map):
            ends = Struct(_Ends).parse(node, log)
            return Between(None, ends.from_, ends.to, node.mark)
        if len(node.items) != 2:
            raise log.error(node.mark, f"expected `[from, to]`, found a list of {len(node.items)}")
        source, sink = ListOf(self._host).parse(node, log)
        return Between(None, (source,), (sink,), node.mark)

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {
            "anyOf": [
                self._group.schema(defs),
                ListOf(self._host, 2, 2).schema(defs),
                Struct(_Ends).schema(defs),
            ]
        }


@dataclass(frozen=True, kw_only=True)
class Every(Spec):
    """One flow after another: the first at `first`, each other `every` after the one before, plus `jitter`."""

    every: Distribution | None = key(WAITS, "Time between two flows.", default=None)
    first: int = key(INSTANT, "Instant of the first flow. Default: 0.", default=0)
    jitter: Distribution | None = key(WAITS, "Random offset of each flow's instant.", default=None)


@dataclass(frozen=True)
class Starts:
    """Instants of the flows of an entry: a list (one: for all), one after another, or drawn for each."""

    instants: tuple[int, ...] | None = None
    every: Every | None = None
    drawn: Distribution | None = None
    mark: Mark = NOWHERE


class _StartsType:
    what = "an instant such as `10s`, a list of them, `{every: 200s}`, or a distribution such as `{uniform: [0s, 10s]}`"
    _list = ListOf(INSTANT, 1, 100_000)

    def parse(self, node: Node, log: Log) -> Starts:
        if isinstance(node, Map):
            names = {e.key.text for e in node.entries}
            if names & {"every", "first", "jitter"} or not names & set(DistributionType.names()):
                return self._parse_every(node, log)
            return Starts(drawn=WAITS.parse(node, log), mark=node.mark)
        if isinstance(node, Scalar):
            if node.null:
                raise log.error(node.mark, f"expected {self.what}, found nothing")
            return Starts((INSTANT.parse(node, log),), mark=node.mark)
        return Starts(self._list.parse(node, log), mark=node.mark)

    @staticmethod
    def _parse_every(node: Map, log: Log) -> Starts:
        known = ["every", "first", "jitter"]
        unknown = [e.key for e in node.entries if e.key.text not in known]
        for name in unknown:
            log.error(
                name.mark, f"unknown key {describe(name)}{choose(name.text, [*known, *DistributionType.names()])}"
            )
        if unknown:
            raise Invalid
        return Starts(every=Struct(Every).parse_map(node, log), mark=node.mark)

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {"anyOf": [WAITS.schema(defs), Struct(Every).schema(defs)]}


STARTS = _StartsType()
_LEVEL = Number(0, 100)


@dataclass(frozen=True, kw_only=True)
class Workload(Spec):
    """The common keys of all workload entries."""

    name: str = key(NAME, "Unique name. The flows are `name[0]`, `name[1]` and so on.")
    between: Between = key(
        _BetweenType(),
        "End points: `pairs` or some of them (`pairs[0..4]`), two hosts (`[a, b]`), or `{from: ..., to: ...}`.",
    )
    flows: int | None = key(
        Integer(1, 100_000, "a number of flows"),
        "Number of flows, dealt to the pairs in turn. Default: one for each pair.",
        default=None,
    )
    streams: int = key(
        Integer(1, 1000, "a number of streams"),
        "Parallel streams of each flow, N_s of the thesis; 1. Sizes and rates are those of each stream, but `total`.",
        default=1,
    )
    start: Starts = key(
        STARTS,
        "Start: one instant for all flows, a list with one for each, `{every: 200s, first: 10s}`, or a distribution.",
        default=Starts((0,)),
    )
    until: int | None = key(INSTANT, "Instant at which all flows stop.", default=None)
    stop: Starts | None = key(STARTS, "Instants at which the flows stop, written like `start`.", default=None)
    duration: tuple[int, ...] | None = key(
        OneOrEach(DURATION), "How long each flow lasts from its start.", default=None
    )
    reverse: bool = key(
        BOOLEAN, "Send from sink to source. With `background`, this is the papers' reverse traffic.", default=False
    )
    background: bool = key(BOOLEAN, "Background traffic, which metrics ignore.", default=False)
    congestion_level: float | None = key(
        _LEVEL,
        "Congestion level C_g: as many sources are active as reach this share of the bottleneck by their mean rates.",
        default=None,
    )
    background_level: float | None = key(
        _LEVEL, "Background traffic B_g as a share of the bottleneck; implies `background`.", default=None
    )
    reverse_level: float | None = key(
        _LEVEL, "Reverse traffic R as a share of the bottleneck; implies `reverse` and `background`.", default=None
    )
    transport: Transport = key(Struct(Transport), "Settings of the transport of this entry.", default=Transport())
    dscp: int = key(DSCP, "Differentiated-services code point, by number or name (`ef`). Default: 0.", default=0)

    @property
    def udp_only(self) -> bool:
        """Whether it sends only datagrams and has no TCP settings."""
        return False

    @property
    def parallel(self) -> int:
        """Number of parallel connections, or streams of datagrams, of each flow."""
        return self.streams

    @property
    def levels(self) -> dict[str, float]:
        """The traffic levels given."""
        names = ("congestion_level", "background_level", "reverse_level")
        return {n: getattr(self, n) for n in names if getattr(self, n) is not None}


@dataclass(frozen=True, kw_only=True)
class RateStep(Spec):
    """A step of a rate profile: from an instant on, the packets leave at a rate."""

    at_: int = key(INSTANT, "Time since the start of the flow. The first step is at 0, the default.", default=0)
    rate: int | None = key(RATE, "Rate of the IP packets, headers included. This or `wire_rate`.", default=None)
    wire_rate: int | None = key(
        RATE,
        "Rate on the wire of the first link, with preamble, header, FCS and gap of each packet. This or `rate`.",
        default=None,
    )

    @property
    def given(self) -> str:
        """The key that gives the rate."""
        return "rate" if self.wire_rate is None else "wire_rate"


class _ProfileType:
    what = "a rate, or a list of steps such as `[{rate: 300Mbps}, {at: 20s, rate: 700Mbps}]`"
    _steps = ListOf(Struct(RateStep), 1, 10_000)

    def parse(self, node: Node, log: Log) -> tuple[RateStep, ...]:
        if isinstance(node, Scalar) and not node.null:
            return (RateStep(rate=RATE.parse(node, log), mark=node.mark, marks={"rate": node.mark}),)
        if not isinstance(node, Seq):
            raise log.error(node.mark, f"expected {self.what}, found {describe(node)}")
        steps = self._steps.parse(node, log)
        if steps[0].at_:
            raise log.error(steps[0].at("at"), "a profile begins with the flow: its first step is `at: 0s`")
        for before, step in pairwise(steps):
            if step.at_ <= before.at_:
                text = f"expected ascending instants, found {_units.show_duration(step.at_)}"
                raise log.error(step.at("at"), f"{text} after {_units.show_duration(before.at_)}")
        return steps

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {"anyOf": [RATE.schema(defs), self._steps.schema(defs)]}


@dataclass(frozen=True, kw_only=True)
class Profiled(Workload):
    """What may follow a rate profile."""

    profile: tuple[RateStep, ...] | None = key(
        _ProfileType(),
        "Rate profile: the packets of each stream leave one by one at these rates, even if the congestion control "
        "permits more. One rate, or steps at times since the start of the flow. TCP and UDT. Default: none.",
        default=None,
    )


@dataclass(frozen=True, kw_only=True)
class Bulk(Profiled):
    """A TCP flow that sends as much as possible until it stops."""


@dataclass(frozen=True, kw_only=True)
class Transfer(Profiled):
    """Transfers of given sizes over TCP, one after another."""

    size: Distribution | None = key(
        SIZES,
        "Size of a transfer, of each stream alone: `streams: 4, size: 3TB` sends 12 TB. This or `total`.",
        default=None,
    )
    total: Distribution | None = key(
        SIZES,
        "Size of a transfer over all its parallel streams, each of which sends an equal part: `streams: 4, total: 3TB` "
        "sends 3 TB. This or `size`.",
        default=None,
    )
    count: int | None = key(
        Integer(1, 1_000_000, "a number of transfers"),
        "Transfers of each flow. Default: 1, or with a `wait` as many as fit.",
        default=None,
    )
    wait: Distribution | None = key(WAITS, "Time between the end of a transfer and the next.", default=None)
    keep_connection: bool = key(
        BOOLEAN, "Use one connection for all transfers of a flow, instead of one for each.", default=False
    )

    @property
    def sizes(self) -> Distribution:
        """`size` or `total`, whichever is given."""
        found = self.size if self.total is None else self.total
        assert found is not None  # checked before
        return found


@dataclass(frozen=True, kw_only=True)
class Datagrams(Workload):
    """What sends IP packets at a rate."""

    rate: tuple[int, ...] | None = key(
        OneOrEach(RATE), "Rate of the IP packets, headers included: one for all flows, or a list.", default=None
    )
    packet: int | None = key(PACKET, "Size of the IP packets, headers included. Default: the path's MTU.", default=None)


@dataclass(frozen=True)
class On:
    """Payload of an ON period: sizes over TCP, or durations over UDP."""

    tcp: bool
    distribution: Distribution


class _OnType:
    what = f"{SIZES.what}; or the same with durations, for UDP"

    def parse(self, node: Node, log: Log) -> On:
        udp = any(_is_duration(text) for text in _texts(node))
        return On(not udp, (WAITS if udp else SIZES).parse(node, log))

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {"anyOf": [SIZES.schema(defs), WAITS.schema(defs)]}


def _texts(node: Node) -> Iterator[str]:
    match node:
        case Scalar():
            yield node.text
        case Map():
            for entry in node.entries:
                yield from _texts(entry.value)
        case _:
            for item in node.items:
                yield from _texts(item)


def _is_duration(text: str) -> bool:
    return re.fullmatch(rf"[0-9.]+([eE][-+]?[0-9]+)? ?({'|'.join(_units.DURATION.units)})", text[:80]) is not None


@dataclass(frozen=True, kw_only=True)
class OnOff(Datagrams):
    """A source that alternates between on and off. It sends `on` bytes over TCP, or UDP at `rate` for the time `on`."""

    on: On = key(_OnType(), "Amount while on: a size (TCP), or a duration (UDP).")
    off: Distribution = key(WAITS, "Duration of an OFF period.")
    keep_connection: bool = key(
        BOOLEAN, "TCP: use one connection for all transfers of a flow, instead of one for each.", default=False
    )

    @property
    def udp_only(self) -> bool:
        return not self.on.tcp


@dataclass(frozen=True, kw_only=True)
class Cbr(Datagrams):
    """Datagrams at a constant bit rate."""

    wire_rate: tuple[int, ...] | None = key(
        OneOrEach(RATE),
        "Instead of `rate`: the rate on the wire of the first link, preamble, header, FCS and gap of each packet "
        "included, one for all flows, or a list. 1Gbps of packets of 1500 B are 975.29 Mb/s of IP packets.",
        default=None,
    )
    periods: tuple[int, ...] | None = key(
        ListOf(DURATION, 1, 100_000), "ON and OFF periods in turn, beginning with ON. Default: always on.", default=None
    )

    @property
    def udp_only(self) -> bool:
        return True
