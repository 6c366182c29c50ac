"""From a plan to a network made of the kernel's own queueing disciplines (``links: netem``): the commands.

Pure, like :mod:`weir.hosts.wiring`, whose hosts and settings of TCP it shares. Routers are namespaces, too.
What a directed link of the plan becomes, in the order in which a packet passes:

- where it leaves: **losses** (netem without delay), the **queue**, and the **rate**, a token bucket (tbf) whose bucket
  holds one packet, or what a late timer needs to catch up. A size table (stab) has all of them count bytes on the
  wire;
- where it arrives: the **delay line** (netem), on two devices of its own, to which what arrives is redirected. So the
  limit of the queue never counts what is in the delay line.

A link and the one in the opposite direction are the two ends of one pair of devices (veth). Packets are forwarded by
the routes that the paths of the flows need; where flows of the same two hosts part, by rules with their port.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from weir import queues
from weir._programs import find
from weir.hosts import qdiscs, wiring
from weir.hosts.impairments import delay_model, loss_model, microseconds
from weir.hosts.wiring import Command, Host, Wiring, WiringError
from weir.plan import (
    Link,
    Plan,
    header_bytes,
    kind_of,
    recorded_links,
    transit_ns,
    wire_bytes,
)

__all__ = ["Bottleneck", "Links", "obstacle", "queues_command", "queues_job", "wire_netem"]

_MAC = "02:00:00:00:00:01"
"""Address of every device. So the kernel, which without ARP takes its own for that of every neighbour, is right."""
_HEADER = 14
"""Bytes of an Ethernet header, which the length of a packet includes where it is queued."""
_LOSSES, _RATE = "1:", "2:"
"""Handles of the disciplines of a link, by which ``weir-agent queues`` tells them apart."""
_TTL = 255
_WORTH_NS = 50_000
"""A shorter delay has no line of its own: a pair of devices would cost more than it is worth."""
_SMALLEST = 40
"""IP bytes of the smallest packet, for the number that a delay line may hold."""
_SPARE = 10_000
"""Packets that a delay line has room for beyond what the rate can put into it."""
_FIRST_TABLE = 1000
"""Routing table of what goes by link 0 against the usual route."""


@dataclass(frozen=True)
class Bottleneck:
    """Where the rate, the queue and the losses of a link are."""

    link: int
    namespace: str
    device: str
    overhead_bytes: int
    mtu_bytes: int
    rate_bps: int
    flow: int | None
    """The flow whose packets all are that it can lose; none if there are several."""
    marks_word: int | None
    """Where its discipline counts marks (:attr:`weir.queues.Discipline.marks_word`)."""
    classes: tuple[qdiscs.Leaf, ...] = ()
    """The queues of its classes."""

    def to_job(self) -> dict[str, Any]:
        """As the program that reads their counters is told."""
        return {
            "link": self.link,
            "netns": f"/run/netns/{self.namespace}",
            "device": self.device,
            "overhead_bytes": self.overhead_bytes,
            "mtu_bytes": self.mtu_bytes,
            "rate_bps": self.rate_bps,
            "flow": self.flow,
            "marks_word": self.marks_word,
            "classes": [{"handle": leaf.handle << 16, "marks_word": leaf.marks_word} for leaf in self.classes],
        }


@dataclass(frozen=True)
class Links:
    """The hosts of a plan, and where its links are."""

    wiring: Wiring
    bottlenecks: tuple[Bottleneck, ...]
    """Those of the links that table ``links`` has."""
    late_ns: Mapping[int, int]
    """By how much the smallest packet comes later over a link than the plan has it: a delay line does not know sizes,
    and makes up for the transmission of a usual one."""


@dataclass(frozen=True)
class _End:
    """Where a directed link is: in the namespace of the node that it leaves, and of the one that it reaches."""

    number: int
    link: Link
    device: str
    arrival: str


def obstacle(plan: Plan) -> str | None:
    """What queueing disciplines of the kernel cannot do of ``plan``; ``None`` if they can do it all."""
    if plan.changes:
        return f"link {plan.links[plan.changes[0].link].name}: changes while the plan runs"
    if plan.measure.trace is not None:
        return "measure.trace: a trace of single packets"
    if plan.measure.delay_ns:
        return "measure.delay: the time that single packets take"
    if (switch := wiring.switch_of(plan)) is not None:
        return switch
    found = ((plan.links[number], _link_obstacle(plan.links[number])) for number in sorted(_used(plan)))
    return next((f"link {link.name}: {what}" for link, what in found if what), None)


def queues_command() -> list[str]:
    """The program that makes table ``links`` of the counters of disciplines.

    Raises:
        ProgramError: it is missing.
    """
    return [str(find("weir-agent")), "queues"]


def queues_job(plan: Plan, links: Links) -> dict[str, Any]:
    """Its job (``crates/weir-protocol/src/queues.rs``)."""
    return {
        "version": 1,
        "end_ns": plan.end_ns,
        "interval_ns": plan.measure.links_ns,
        "queues": [bottleneck.to_job() for bottleneck in links.bottlenecks],
    }


def _link_obstacle(link: Link) -> str | None:
    if (why := delay_model(link.delay).obstacle(link.delay)) is not None:
        return f"delay: {why}"
    if link.loss is not None and (why := loss_model(link.loss).obstacle(link.loss)) is not None:
        return f"loss: {why}"
    why = qdiscs.obstacle(link, on_wire=True)
    return None if why is None else f"queue: {why}"


def wire_netem(plan: Plan, tag: str, slack_ns: int) -> Links:
    """The network of ``plan``; ``tag`` makes its names unique on the machine.

    The buckets of the links hold what passes in ``slack_ns``, but no less than a packet: timers that are late by less
    cost no rate. 0 is exact where timers are.

    Raises:
        WiringError: the kernel cannot do what the plan asks, on its links or in its hosts.
    """
    if (why := obstacle(plan)) is not None:
        raise WiringError(f"links: netem lacks this: {why}. `links: emulator` has it")
    bare = wiring.wire(plan, tag)
    ends = _ends(plan)
    hosts = tuple(replace(host, device=_device(host.node, ends)) for host in bare.hosts)
    names = {host.node: host.namespace for host in hosts}
    routers = sorted({node for end in ends.values() for node in (end.link.from_, end.link.to)} - set(names))
    names |= {node: f"weir-{tag}-r{node}" for node in routers}
    up: list[Command] = [("ip", "netns", "add", name) for name in names.values()]
    up += [command for command in bare.up if command[0] == "nsenter"]
    up += [command for node in sorted(names) for command in _settings(names[node], forward=node in routers)]
    up += _devices(plan, ends, names)
    up += [("ip", "-n", host.namespace, "address", "add", f"{host.address}/32", "dev", host.device) for host in hosts]
    up += _routing(plan, ends, names, bare)
    for end in ends.values():
        up += _disciplines(plan, end, names, slack_ns, bare.first_port)
    down = tuple(("ip", "netns", "del", name) for name in names.values())
    recorded = [number for number in recorded_links(plan) if number in ends]
    bottlenecks = tuple(_bottleneck(plan, ends[number], names) for number in recorded)
    warnings = (*bare.warnings, *_nameless(plan, bottlenecks))
    late = {number: _delayed_ns(plan, number) - end.link.delay.delay_ns for number, end in ends.items()}
    return Links(replace(bare, hosts=hosts, up=tuple(up), down=down, warnings=warnings), bottlenecks, late)


def _used(plan: Plan) -> set[int]:
    return {link for flow in plan.flows for link in (*flow.path, *flow.reverse_path)}


def _ends(plan: Plan) -> dict[int, _End]:
    """Every link that a flow uses: the devices it joins. A link and its opposite are one pair."""
    free: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    mates: dict[int, int] = {}
    for number in sorted(_used(plan)):
        link = plan.links[number]
        if waiting := free[link.to, link.from_]:
            mate = waiting.pop(0)
            mates |= {number: mate, mate: number}
        else:
            free[link.from_, link.to].append(number)
    return {
        number: _End(
            number,
            plan.links[number],
            f"weir{number}",
            f"weir{mates[number]}" if number in mates else f"weir{number}-end",
        )
        for number in sorted(_used(plan))
    }


def _device(node: int, ends: Mapping[int, _End]) -> str:
    """The first device of a host."""
    return next(
        end.device if end.link.from_ == node else end.arrival
        for end in ends.values()
        if node in (end.link.from_, end.link.to)
    )


def _settings(namespace: str, *, forward: bool) -> list[Command]:
    """The kernel's parameters that every node of such a network needs, before it has devices."""
    values = {
        "net.ipv6.conf.default.disable_ipv6": "1",
        "net.ipv4.conf.all.rp_filter": "0",  # packets do not arrive where their answers leave
        "net.ipv4.conf.default.rp_filter": "0",
        "net.ipv4.conf.all.send_redirects": "0",
        "net.ipv4.conf.default.send_redirects": "0",
        "net.ipv4.ip_default_ttl": str(_TTL),
        "net.ipv4.ip_forward": str(int(forward)),
    }
    return wiring.sysctl(f"/run/netns/{namespace}", values)


# Devices -------------------------------------------------------------------------------------------------------------


def _devices(plan: Plan, ends: Mapping[int, _End], names: Mapping[int, str]) -> list[Command]:
    up: list[Command] = [("ip", "-n", name, "link", "set", "lo", "up") for name in names.values()]
    made: set[tuple[str, str]] = set()
    for end in ends.values():
        start, stop = names[end.link.from_], names[end.link.to]
        if (stop, end.arrival) not in made:
            mtu = max(other.link.mtu_bytes for other in (end, *_opposite(end, ends)))
            up += _pair(start, end.device, stop, end.arrival, mtu)
            made |= {(start, end.device), (stop, end.arrival)}
        if _delayed_ns(plan, end.number) >= _WORTH_NS:
            up += _pair(stop, f"delay{end.number}", stop, f"late{end.number}", end.link.mtu_bytes)
    return up


def _opposite(end: _End, ends: Mapping[int, _End]) -> Iterator[_End]:
    yield from (
        other
        for other in ends.values()
        if other.device == end.arrival and other.link.from_ == end.link.to and other.arrival == end.device
    )


def _pair(start: str, device: str, stop: str, arrival: str, mtu: int) -> Iterator[Command]:
    """Two devices that are joined. No train of segments leaves them: each packet is alone, as on the wire."""
    shape = ("address", _MAC, "mtu", str(mtu))
    ip = ("ip", "-n", start)
    yield (*ip, "link", "add", device, *shape, "type", "veth", "peer", "name", arrival, *shape, "netns", stop)
    for namespace, name in ((start, device), (stop, arrival)):
        yield ("ip", "-n", namespace, "link", "set", name, "gso_max_segs", "1", "arp", "off", "up")


# Routes --------------------------------------------------------------------------------------------------------------


def _routing(plan: Plan, ends: Mapping[int, _End], names: Mapping[int, str], bare: Wiring) -> Iterator[Command]:
    """Routes to each host by the path of the first flow to it; rules for the flows that part from it.

    A route of a host carries what Linux takes of TCP from it (the initial window, ECN, quick acknowledgements).
    """
    words = wiring.route_options(plan)
    usual: dict[tuple[int, int], int] = {}
    extra: dict[tuple[int, int, int], None] = {}
    rules: list[Command] = []
    for flow, way, start, stop, path in _ways(plan):
        for number in path:
            node = ends[number].link.from_
            if usual.setdefault((node, stop), number) == number:
                continue
            extra[node, stop, number] = None
            source, target = bare.host(start).address, bare.host(stop).address
            kind = kind_of(plan.flows[flow].transport)
            protocol = {"quic": "udp", "tfrc": "udp", "udt": "udp", "mptcp": "tcp"}.get(kind, kind)
            port = ("dport" if way == "path" else "sport", str(bare.first_port + flow))
            rules.append(
                (
                    "ip",
                    "-n",
                    names[node],
                    "rule",
                    "add",
                    "from",
                    f"{source}/32",
                    "to",
                    f"{target}/32",
                    "ipproto",
                    protocol,
                    *port,
                    "lookup",
                    str(_FIRST_TABLE + number),
                )
            )
    for (node, stop), number in usual.items():
        yield _route(names[node], bare.host(stop), ends[number], words.get((node, stop), []))
    for node, stop, number in extra:
        table = ("table", str(_FIRST_TABLE + number))
        yield _route(names[node], bare.host(stop), ends[number], [*words.get((node, stop), []), *table])
    yield from rules


def _ways(plan: Plan) -> Iterator[tuple[int, str, int, int, tuple[int, ...]]]:
    """Each flow in each direction: its number, the name of the path, its first and last node, and its links."""
    for number, flow in enumerate(plan.flows):
        yield number, "path", flow.from_, flow.to, flow.path
        yield number, "reverse_path", flow.to, flow.from_, flow.reverse_path


def _route(namespace: str, target: Host, end: _End, words: list[str]) -> Command:
    return ("ip", "-n", namespace, "route", "add", f"{target.address}/32", "dev", end.device, *words)


# Disciplines ---------------------------------------------------------------------------------------------------------


def _disciplines(plan: Plan, end: _End, names: Mapping[int, str], slack_ns: int, first_port: int) -> Iterator[Command]:
    link = end.link
    sizes = ("stab", "overhead", str(link.overhead_bytes - _HEADER), "linklayer", "ethernet")
    qdisc = ("tc", "-n", names[link.from_], "qdisc", "add", "dev", end.device)
    if link.loss is None:
        yield (*qdisc, "root", "handle", _RATE, *sizes, *_bucket(link, slack_ns))
    else:
        limit = ("limit", str(_SPARE))
        yield (*qdisc, "root", "handle", _LOSSES, *sizes, "netem", *limit, *loss_model(link.loss).netem(link.loss))
        yield (*qdisc, "parent", f"{_LOSSES}1", "handle", _RATE, *_bucket(link, slack_ns))
    # A token bucket dequeues only packets that it has seen in the queue. RED would never learn that it is empty, so its
    # average would not decay. A band of strict priority in between dequeues whenever the bucket looks.
    made = qdiscs.commands(link, f"parent {_RATE}1", first_port, on_wire=True, in_bucket=True)
    yield from (("tc", "-n", names[link.from_], what, "add", "dev", end.device, *words.split()) for what, words in made)
    if _delayed_ns(plan, end.number) >= _WORTH_NS:
        yield from _delay_line(plan, end, names[link.to])


def _bucket(link: Link, slack_ns: int) -> tuple[str, ...]:
    packet = wire_bytes(link, link.mtu_bytes)
    burst = max(packet, link.rate_bps * slack_ns // 8_000_000_000)
    # The limit is that of the queue below, which takes the place of the one that the bucket comes with.
    return ("tbf", "rate", f"{link.rate_bps}bit", "burst", str(burst), "limit", str(packet))


def _delay_line(plan: Plan, end: _End, namespace: str) -> Iterator[Command]:
    device, tc = f"delay{end.number}", ("tc", "-n", namespace)
    yield (*tc, "qdisc", "add", "dev", end.arrival, "ingress")
    redirect = ("action", "mirred", "egress", "redirect", "dev", device)
    yield (*tc, "filter", "add", "dev", end.arrival, "ingress", "protocol", "ip", "matchall", *redirect)
    limit = ("limit", str(_most_delayed(end.link)))
    yield (*tc, "qdisc", "add", "dev", device, "root", "netem", *limit, *_delay(plan, end))


def _delayed_ns(plan: Plan, number: int) -> int:
    """The delay of a link and what its token bucket takes off: it lets a packet go when its transmission begins."""
    link = plan.links[number]
    if any(number in flow.path for flow in plan.flows):
        return transit_ns(link, link.mtu_bytes)
    return transit_ns(link, max(header_bytes(flow.transport) for flow in plan.flows if number in flow.reverse_path))


def _delay(plan: Plan, end: _End) -> tuple[str, ...]:
    delay = end.link.delay
    return ("delay", microseconds(_delayed_ns(plan, end.number)), *delay_model(delay).netem(delay))


def _most_delayed(link: Link) -> int:
    """Packets that a delay line may hold: of the smallest kind, as fast as they come."""
    longest = link.delay.delay_ns + delay_model(link.delay).spread_ns(link.delay)
    return link.rate_bps * longest // 8_000_000_000 // wire_bytes(link, _SMALLEST) + _SPARE


def _bottleneck(plan: Plan, end: _End, names: Mapping[int, str]) -> Bottleneck:
    """Where the counters of a link are, and whose packets it carries."""
    users = {number for number, _, _, _, path in _ways(plan) if end.number in path}
    data = [number for number, flow in enumerate(plan.flows) if end.number in flow.path]
    only = data[0] if len(users) == 1 and data and data[0] in users else None
    facts = end.link
    return Bottleneck(
        end.number,
        names[facts.from_],
        end.device,
        facts.overhead_bytes,
        facts.mtu_bytes,
        facts.rate_bps,
        only,
        queues.of(facts.queue).marks_word,
        qdiscs.leaves(facts),
    )


def _nameless(plan: Plan, bottlenecks: Iterable[Bottleneck]) -> tuple[str, ...]:
    data = {number for flow in plan.flows for number in flow.path}
    shared = [plan.links[one.link].name for one in bottlenecks if one.link in data and one.flow is None]
    if not shared:
        return ()
    few = ", ".join(shared[:3]) + (", ..." if len(shared) > 3 else "")
    return (
        f"links: netem counts the packets that a link loses or marks, not whose they are: table flows has none of "
        f"those of {few} in lost_packets and marked_packets",
    )
