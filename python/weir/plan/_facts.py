"""Quantities computed from a plan: sizes of packets and queues, rates and round-trip times of paths.

All code takes these quantities from here, so that each has one definition.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from weir import _weir
from weir.plan._types import (
    CbrSource,
    CommandSource,
    DccpTransport,
    Flow,
    Link,
    MptcpTransport,
    Plan,
    Queue,
    QuicTransport,
    RateChange,
    SctpTransport,
    SharesChange,
    TcpTransport,
    TfrcTransport,
    TokenRates,
    TokenRatesChange,
    Transport,
    UdpTransport,
    UdtTransport,
)

__all__ = [
    "DCCP_HEADERS",
    "DCCP_OPTIONS",
    "IP_TCP_HEADERS",
    "LEAST_DCCP_BYTES",
    "LEAST_TFRC_BYTES",
    "QUIC_HEADERS",
    "TIMESTAMPS",
    "UDP_HEADERS",
    "UDT_HEADERS",
    "QueueClass",
    "base_rtt_ns",
    "bdp_packets",
    "bottleneck",
    "class_groups",
    "greatest_rate_bps",
    "guaranteed_shares",
    "header_bytes",
    "is_reverse",
    "kind_of",
    "leaves_switch",
    "line_bytes",
    "native_payload_bytes",
    "offered_bps",
    "option_bytes",
    "packet_bytes",
    "payload_bytes",
    "queue_bytes",
    "queue_changes",
    "queue_classes",
    "queue_packets",
    "recorded_links",
    "tcp_flows",
    "transit_ns",
    "wire_bytes",
]

_WHOLE_PPM = 1_000_000
IP_TCP_HEADERS = 40
"""Bytes of an IPv4 and a TCP header without options."""
DCCP_HEADERS = 36
"""Bytes of an IPv4 and a DCCP header without options (``HEADER_BYTES`` of ``crates/weir-agent/src/dccp.rs``)."""
DCCP_OPTIONS = 40 + 128
"""Bytes free in a packet of DCCP for options.

Linux leaves 40 free with CCID 2, and 32 with CCID 3. With data in the other 128 (``DCCP_FEATNEG_OVERHEAD``), it gives
up repeating the confirmations of the handshake, and the receiver resets the connection if the one packet that had them
is lost.
"""
LEAST_DCCP_BYTES = 64
"""Least payload of a DCCP datagram (``LEAST_DCCP_BYTES`` of ``crates/weir-plan``)."""
LEAST_TFRC_BYTES = 64
"""Least payload of a TFRC datagram (``LEAST_TFRC_BYTES`` of ``crates/weir-plan``)."""
UDT_HEADERS = 44
"""Bytes of an IPv4, a UDP and a UDT header (``UDT_HEADERS`` of ``crates/weir-plan``)."""
UDP_HEADERS = 28
"""Bytes of an IPv4 and a UDP header."""
QUIC_HEADERS = 33
"""Bytes of a full QUIC packet beside the payload (``HEADER_BYTES`` of ``crates/weir-quic``)."""
NATIVE_HEADERS = {"mptcp": 76, "sctp": 48}
"""Bytes of the headers of a full packet (``header_bytes`` of ``crates/weir-agent/src/native.rs``)."""
TIMESTAMPS = 12
"""Bytes of the TCP option timestamps with its padding (RFC 7323)."""
_S = 1_000_000_000


def kind_of(part: Struct) -> str:
    """The kind of a part of a plan: ``red`` of a queue, ``cbr`` of a source, ``tcp`` of a transport.

    Raises:
        TypeError: the part has only one kind.
    """
    tag = part.__struct_config__.tag
    if not isinstance(tag, str):
        raise TypeError(f"{type(part).__name__} has no kind")
    return tag


def tcp_flows(plan: Plan) -> Iterator[tuple[Flow, TcpTransport]]:
    """Each flow over TCP, in the order of the plan, and its transport."""
    for flow in plan.flows:
        if isinstance(flow.transport, TcpTransport):
            yield flow, flow.transport


def native_payload_bytes(protocol: str, mtu: int) -> int:
    """Payload of a full packet of ``mptcp`` or ``sctp``, bytes; SCTP fills a chunk to a multiple of 4."""
    room = mtu - NATIVE_HEADERS[protocol]
    return room // 4 * 4 if protocol == "sctp" else room


def payload_bytes(transport: Transport) -> int:
    """Payload of a full packet, bytes."""
    match transport:
        case TcpTransport():
            return transport.mss_bytes
        case QuicTransport():
            return transport.payload_bytes - QUIC_HEADERS
    return transport.payload_bytes


def header_bytes(transport: Transport) -> int:
    """IP and transport headers of a full packet, bytes. SACK blocks are not counted."""
    match transport:
        case QuicTransport():
            return UDP_HEADERS + QUIC_HEADERS
        case UdpTransport() | TfrcTransport():
            return UDP_HEADERS
        case DccpTransport():
            return DCCP_HEADERS
        case UdtTransport():
            return UDT_HEADERS
        case MptcpTransport() | SctpTransport():
            return NATIVE_HEADERS[kind_of(transport)]
    return IP_TCP_HEADERS + option_bytes(transport)


def option_bytes(transport: TcpTransport) -> int:
    """TCP options of a full packet, bytes. SACK blocks are not counted."""
    return TIMESTAMPS if transport.timestamps else 0


def packet_bytes(transport: Transport) -> int:
    """IP bytes of a full packet."""
    return payload_bytes(transport) + header_bytes(transport)


def wire_bytes(link: Link, ip_bytes: int) -> int:
    """Bytes that a packet of ``ip_bytes`` takes on ``link``."""
    return ip_bytes + link.overhead_bytes


def queue_bytes(queue: Queue, packet: int) -> int | None:
    """Capacity of ``queue`` in bytes.

    Args:
        queue: The queue.
        packet: Bytes that one packet counts if the limit is in packets; bytes on the wire, to compare with a
            limit in bytes.

    Returns:
        The smaller of both limits; ``None`` without a limit.
    """
    limit = queue.limit
    sizes = [] if limit.bytes is None else [limit.bytes]
    sizes += [] if limit.packets is None else [limit.packets * packet]
    return min(sizes, default=None)


def queue_classes(queue: Queue, rate_bps: int | None = None) -> tuple[tuple[str, int | None], ...]:
    """The classes of a scheduler in the order of table ``classes``: name, and guaranteed share of the link.

    A class whose queue is a scheduler too is replaced by that one's classes: ``outer.inner``. Shares are parts of a
    million: by weight, among classes that take turns by quantum, or by rate. ``None``: the scheduler guarantees no
    share. Empty for a queue without classes.

    Args:
        queue: The queue.
        rate_bps: Rate of the link; without it, classes with a rate have no share.
    """
    return tuple((one.name, one.share) for one in _classes(queue, _WHOLE_PPM, rate_bps) if not one.group)


def class_groups(queue: Queue, rate_bps: int | None = None) -> tuple[QueueClass, ...]:
    """The classes that `queue_classes` replaces by those inside, each before those in it."""
    return tuple(one for one in _classes(queue, _WHOLE_PPM, rate_bps) if one.group)


def guaranteed_shares(plan: Plan, link: int) -> tuple[tuple[int, Mapping[str, int | None]], ...]:
    """The share of each class of a link's queue, as in `queue_classes` and `class_groups`: at the begin, and after each
    change of weights, quanta, rates of classes or the link's rate. Instants and shares.
    """
    queues = dict(queue_changes(plan, link))
    rates = {0: plan.links[link].rate_bps}
    rates |= {c.at_ns: c.change.rate_bps for c in plan.changes if c.link == link and isinstance(c.change, RateChange)}
    queue, rate_bps = plan.links[link].queue, rates[0]
    found = []
    for at_ns in sorted({*queues, *rates}):
        queue, rate_bps = queues.get(at_ns, queue), rates.get(at_ns, rate_bps)
        found.append((at_ns, {one.name: one.share for one in _classes(queue, _WHOLE_PPM, rate_bps)}))
    return tuple(found)


@dataclasses.dataclass(frozen=True)
class QueueClass:
    """A class of a scheduler."""

    name: str
    share: int | None
    """Guaranteed share of the link, as in `queue_classes`."""
    members: range
    """The numbers in table ``classes``: its own, or those of the classes inside."""
    group: bool = False
    """Whether its queue has classes."""
    overbooked: int = 0
    """What the classes inside are promised together, if they are promised parts of the link and it is more than
    ``share``: then none has a guarantee. Parts of a million, else 0."""


def _classes(queue: Queue, whole: int | None, rate_bps: int | None, first: int = 0) -> list[QueueClass]:
    """The classes of a queue that is guaranteed the share ``whole`` of a link of ``rate_bps``.

    The first one has the number ``first``.
    """
    if own := _own_classes().get(kind_of(queue)):
        return [QueueClass(name, None, range(first + k, first + k + 1)) for k, name in enumerate(own)]
    inside = getattr(queue, "queue", None)
    if inside is not None:
        return _classes(inside, whole, rate_bps, first)  # a shaper has the classes of the queue inside
    found: list[QueueClass] = []
    classes = getattr(queue, "classes", ())
    for one, share in zip(classes, _shares(queue, whole, rate_bps), strict=True):
        inner = _classes(one.queue, share, rate_bps, first)
        after = max((each.members.stop for each in inner), default=first + 1)
        found.append(QueueClass(one.name, share, range(first, after), bool(inner), _overbooked(one.queue, share)))
        found += [dataclasses.replace(each, name=f"{one.name}.{each.name}") for each in inner]
        first = after
    return found


def _shares(queue: Queue, whole: int | None, rate_bps: int | None) -> list[int | None]:
    """The share of the link that each class of a queue is guaranteed, which itself is guaranteed ``whole``."""
    classes, round_bytes = getattr(queue, "classes", ()), _round_bytes(queue)
    if any(hasattr(one, "rate_bps") for one in classes):
        return _shares_by_rate(queue, whole, rate_bps)
    weights = [getattr(one, "weight_ppm", None) for one in classes]
    if round_bytes:
        weights = [_WHOLE_PPM * one.quantum_bytes // round_bytes for one in classes]
    if _weights_of_link(queue):
        return weights if not _overbooked(queue, whole) else [None for _ in classes]
    return [None if whole is None or weight is None else whole * weight // _WHOLE_PPM for weight in weights]


def _shares_by_rate(queue: Queue, whole: int | None, rate_bps: int | None) -> list[int | None]:
    """As `_shares`, of classes with a rate: none, if these add up to more than the queue has."""
    rates = [one.rate_bps for one in getattr(queue, "classes", ())]
    if whole is None or rate_bps is None:
        return [None for _ in rates]
    if rate_bps == 0:  # the link is stopped
        return [0 for _ in rates]
    most = (whole + 1) * rate_bps // _WHOLE_PPM  # shares are rounded down
    if (own := getattr(queue, "rate_bps", None)) is not None:
        most = min(most, own)
    return [rate * _WHOLE_PPM // rate_bps if sum(rates) <= most else None for rate in rates]


def _overbooked(queue: Queue, whole: int | None) -> int:
    """As `QueueClass.overbooked`, of the classes of ``queue``."""
    total = sum(one.weight_ppm for one in getattr(queue, "classes", ())) if _weights_of_link(queue) else 0
    return total if total > (whole or 0) else 0


def _weights_of_link(queue: Queue) -> bool:
    """Whether weights are parts of the link also within another scheduler: credits grow with what the link can send."""
    return hasattr(queue, "burst_bytes") and any(hasattr(one, "weight_ppm") for one in getattr(queue, "classes", ()))


def _round_bytes(queue: Queue) -> int:
    """What the classes of a queue send in a round, if all of them do nothing but take turns; else 0."""
    classes = getattr(queue, "classes", ())
    return sum(one.quantum_bytes for one in classes) if all(_takes_turns(one) for one in classes) else 0


def _takes_turns(one: Struct) -> bool:
    """Whether a class has a quantum, and neither a rate nor strict priority beside it."""
    return hasattr(one, "quantum_bytes") and not hasattr(one, "rate_bps") and not getattr(one, "strict", False)


def queue_changes(plan: Plan, link: int) -> tuple[tuple[int, Queue], ...]:
    """The queue of a link at the begin, and after each change of the shares of its classes or the rates of its token
    buckets: instants and queues.
    """
    queue = plan.links[link].queue
    found = [(0, queue)]
    for entry in plan.changes:
        if entry.link != link:
            continue
        match entry.change:
            case SharesChange(shares=shares):
                pairs = zip(getattr(queue, "classes", ()), shares, strict=False)
                queue = replace(queue, classes=tuple(_with_share(one, share) for one, share in pairs))
            case TokenRatesChange(rates=rates):
                queue = _with_token_rates(queue, iter(rates))
            case _:
                continue
        found.append((entry.at_ns, queue))
    return tuple(found)


def _with_token_rates(queue: Queue, rates: Iterator[TokenRates]) -> Queue:
    """A queue whose token buckets, and those of the queues inside, have other rates, in the order of the plan."""
    if getattr(queue, "rate_bps", None) is not None:
        queue = _refilled(queue, next(rates))
    if (inside := getattr(queue, "queue", None)) is not None:
        queue = replace(queue, queue=_with_token_rates(inside, rates))
    classes = []
    for one in getattr(queue, "classes", ()):
        own = _refilled(one, next(rates)) if hasattr(one, "rate_bps") else one
        classes.append(replace(own, queue=_with_token_rates(own.queue, rates)))
    return replace(queue, classes=tuple(classes)) if classes else queue


def _refilled(part: Any, rates: TokenRates) -> Any:
    """A queue or class whose token bucket has other rates."""
    peak = next((name for name in ("ceil_bps", "peak_bps") if hasattr(part, name)), None)
    return replace(part, rate_bps=rates.rate_bps, **({} if peak is None else {peak: rates.peak_bps}))


def _with_share(one: Struct, share: int) -> Struct:
    """A class with another weight or quantum."""
    return replace(one, **{"weight_ppm" if hasattr(one, "weight_ppm") else "quantum_bytes": share})


@cache
def _own_classes() -> Mapping[str, tuple[str, ...]]:
    """The classes of queues that sort packets by themselves, without classes in the plan."""
    return {one["name"]: tuple(one["classes"]) for one in msgspec.json.decode(_weir.elements()) if one["classes"]}


def queue_packets(queue: Queue, packet: int) -> int:
    """Capacity of ``queue`` in packets: its limit in packets, or the packets of ``packet`` bytes within its limit.

    At least one.
    """
    return queue.limit.packets or max(1, (queue.limit.bytes or 0) // packet)


def bottleneck(plan: Plan, path: Iterable[int]) -> Link:
    """The slowest link of a path, the first of equals.

    Raises:
        ValueError: the path is empty.
    """
    return min((plan.links[link] for link in path), key=lambda link: link.rate_bps)


def offered_bps(plan: Plan, flow: Flow) -> int:
    """The highest rate that ``flow`` can reach: that of its slowest link, source or profile, whichever is lowest."""
    source = flow.source.rate_bps if isinstance(flow.source, CbrSource | CommandSource) else None
    if isinstance(flow.transport, TcpTransport | UdtTransport) and flow.transport.profile:
        source = max(step.rate_bps for step in flow.transport.profile)
    path = bottleneck(plan, flow.path).rate_bps
    return path if source is None else min(path, source)


def greatest_rate_bps(plan: Plan, link: int) -> int:
    """The highest rate that a link ever has, including its changes."""
    changed = [c.change.rate_bps for c in plan.changes if c.link == link and isinstance(c.change, RateChange)]
    return max(plan.links[link].rate_bps, *changed) if changed else plan.links[link].rate_bps


def transit_ns(link: Link, ip_bytes: int) -> int:
    """Time of a packet of ``ip_bytes`` through ``link`` with an empty queue: transmission and mean delay, ns.

    Raises:
        ZeroDivisionError: the link's rate is 0.
    """
    return link.delay.delay_ns + wire_bytes(link, ip_bytes) * 8 * _S // link.rate_bps


def line_bytes(link: Link) -> float:
    """Bytes on the wire in the delay line of ``link`` when it is loaded at the link's rate."""
    return link.rate_bps / 8e9 * link.delay.delay_ns


def base_rtt_ns(plan: Plan, flow: Flow) -> int:
    """Round-trip time of a full packet and its acknowledgement through empty queues, ns, at least 1.

    For a datagram, the answer is assumed to have the size of its headers.
    """
    there = sum(transit_ns(plan.links[link], packet_bytes(flow.transport)) for link in flow.path)
    back = sum(transit_ns(plan.links[link], header_bytes(flow.transport)) for link in flow.reverse_path)
    return max(there + back, 1)


def bdp_packets(plan: Plan, flow: Flow) -> float:
    """Bandwidth-delay product of the flow's path, in full packets on its slowest link, at the base RTT."""
    slowest = bottleneck(plan, flow.path)
    wire_bits = 8 * wire_bytes(slowest, packet_bytes(flow.transport))
    return slowest.rate_bps * base_rtt_ns(plan, flow) / 1e9 / wire_bits


def recorded_links(plan: Plan) -> tuple[int, ...]:
    """Indices of the links in table ``links``."""
    return plan.measure.links or tuple(range(len(plan.links)))


def leaves_switch(plan: Plan, link: int) -> bool:
    """Whether packets wait for ``link`` in the memory of a switch, and never in the link's own queue."""
    node = plan.links[link].from_
    return node < len(plan.nodes) and plan.nodes[node].switch is not None


def is_reverse(flow: Flow) -> bool:
    """Whether ``flow`` sends from sink to source."""
    return flow.reverse or flow.role == "reverse"
