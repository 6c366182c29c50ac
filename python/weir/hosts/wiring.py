"""From a plan to the hosts that execute it: names, addresses, and the commands that create and remove them.

Pure: independent of any machine. ``emul`` executes the commands on this host, ``lab`` the same ones in its guest. Each
host of the plan that a flow uses becomes a network namespace with one TUN device, to which the emulator attaches; the
network itself - every link, queue and delay - is inside the emulator.

Settings that Linux has per host or per pair of hosts, and a plan per flow, must agree: SACK and timestamps belong to a
host; the initial window, ECN and quick acknowledgements to a route. A plan with contradicting flows is refused, and so
is one with settings that no current Linux has (``stack: linux-2.6``).
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir._errors import MethodError
from weir.cc import controls_that
from weir.plan import (
    CbrSource,
    CommandSource,
    Flow,
    Plan,
    TcpTransport,
    UdpTransport,
    UdtTransport,
    greatest_rate_bps,
    kind_of,
    packet_bytes,
    queue_bytes,
    tcp_flows,
)

__all__ = [
    "DEVICE",
    "FIRST_PORT",
    "Command",
    "Host",
    "Wiring",
    "WiringError",
    "card",
    "largest_packet",
    "mtu",
    "refuse_other_stacks",
    "route_options",
    "switch_of",
    "switches",
    "sysctl",
    "wire",
]

Command = tuple[str, ...]
"""A program and its arguments."""

DEVICE = "weir0"
FIRST_PORT = 10_000
"""Port of the first flow's receiver: below the ports that Linux gives to connecting sockets."""

_NETWORK = int(ipaddress.IPv4Address("10.0.0.0"))
_LAST_PORT = 65_535
_EPHEMERAL = 32_768
_MAX_BUFFER = (1 << 31) - 1
_MIN_QUEUE = 10_000
"""Packets, or trains of segments, that wait in a device for the emulator: those that a gigabit link sends in 120 ms, so
that none is lost while the emulator waits for a processor. A free place costs 8 bytes. The emulator takes everything at
once, so nothing waits while it is on time.
"""

_IPV6 = "net.ipv6."
"""Prefix of parameters that only disable IPv6: a kernel without IPv6 has none of them."""
_CARD_MARGIN = 0.999
"""Share of a card's rate that its queue lets pass if the host sends packets of several sizes; otherwise the wire
overhead of the small ones would pile up behind it.
"""
_MIN_BURST = 4
"""Minimum burst of a token bucket, in packets of the MTU."""


class WiringError(MethodError):
    """Linux cannot be set up as the plan asks."""


@dataclass(frozen=True)
class Host:
    """A host of the plan, as a network namespace."""

    node: int
    name: str
    """Its name in the plan."""
    namespace: str
    address: str
    device: str
    mtu_bytes: int

    @property
    def path(self) -> str:
        """The path of the namespace for ``ip netns``."""
        return f"/run/netns/{self.namespace}"

    def to_job(self) -> dict[str, Any]:
        """The host's form in a job (``crates/weir-protocol``)."""
        return {"node": self.node, "netns": self.path, "address": self.address, "device": self.device}


@dataclass(frozen=True)
class Wiring:
    """All hosts of a plan, with the commands to create and remove them."""

    hosts: tuple[Host, ...]
    up: tuple[Command, ...]
    """To be executed in this order; each must succeed."""
    down: tuple[Command, ...]
    """Removes everything that ``up`` creates. A command that finds nothing to remove may fail."""
    first_port: int
    warnings: tuple[str, ...]

    def host(self, node: int) -> Host:
        """The host at ``node``.

        Raises:
            KeyError: no flow begins or ends there.
        """
        found = next((host for host in self.hosts if host.node == node), None)
        if found is None:
            raise KeyError(node)
        return found


def wire(plan: Plan, tag: str, *, alone: bool = False) -> Wiring:
    """The wiring of ``plan``; ``tag`` makes its names unique on the machine.

    Args:
        alone: Hosts send each packet separately, instead of in trains of segments when TCP has several at once.

    Raises:
        WiringError: flows of one host, or between the same two, ask for settings that Linux cannot separate; or one
            asks for a setting that no Linux has.
    """
    refuse_other_stacks(plan)
    nodes = sorted({node for flow in plan.flows for node in (flow.from_, flow.to)})
    hosts = tuple(_host(plan, node, tag) for node in nodes)
    connection = switches(plan)
    by_node = {host.node: host for host in hosts}
    routes = route_options(plan)
    up: list[Command] = [("ip", "netns", "add", host.namespace) for host in hosts]
    for host in hosts:
        up += _settings(plan, host, connection[host.node])
        up += _link(plan, host, alone=alone)
        up += [_route(host, by_node[peer], words) for (node, peer), words in routes.items() if node == host.node]
        up += _card(plan, host)
    down = [("ip", "netns", "del", host.namespace) for host in hosts]
    return Wiring(hosts, tuple(up), tuple(down), _first_port(plan), ())


def _host(plan: Plan, node: int, tag: str) -> Host:
    address = str(ipaddress.IPv4Address(_NETWORK + 1 + node))
    return Host(node, plan.nodes[node].name, f"weir-{tag}-h{node}", address, DEVICE, mtu(plan, node))


def _first_links(flows: Iterable[Flow], node: int) -> list[int]:
    """The links by which packets leave ``node``; or, if none does, by which they reach it."""
    leaving = [flow.path[0] for flow in flows if flow.from_ == node]
    leaving += [flow.reverse_path[0] for flow in flows if flow.to == node and flow.reverse_path]
    return leaving or [flow.path[-1] for flow in flows if flow.to == node]


def _first_port(plan: Plan) -> int:
    if FIRST_PORT + len(plan.flows) > _EPHEMERAL:
        most = _EPHEMERAL - FIRST_PORT
        raise WiringError(f"the plan has {len(plan.flows)} flows; this method has ports for {most}")
    return FIRST_PORT


def _link(plan: Plan, host: Host, *, alone: bool) -> list[Command]:
    """The commands that create the device of ``host``."""
    limits = (plan.links[link].queue.limit.packets for link in _first_links(plan.flows, host.node))
    queue = max(_MIN_QUEUE, *(limit or 0 for limit in limits))
    ip = ("ip", "-n", host.namespace)
    segments = ("gso_max_segs", "1") if alone else ()
    return [
        (*ip, "link", "set", "lo", "up"),
        (*ip, "tuntap", "add", "dev", host.device, "mode", "tun", "vnet_hdr"),
        (*ip, "link", "set", host.device, "mtu", str(host.mtu_bytes), "txqueuelen", str(queue), *segments, "up"),
        (*ip, "address", "add", f"{host.address}/32", "dev", host.device),
        (*ip, "route", "add", "default", "dev", host.device),
    ]


def _card(plan: Plan, host: Host) -> list[Command]:
    """The command for the queue that represents the network card of ``host``; empty if it has no card."""
    words = card(plan, host.node)
    return [("tc", "-n", host.namespace, "qdisc", "add", "dev", host.device, "root", *words)] if words else []


def card(plan: Plan, node: int, header_bytes: int = 0) -> tuple[str, ...]:
    """The queue that represents the network card of the host at ``node``, in the words of ``tc``; empty if it has none.

    A TCP sender of Linux keeps no more than a millisecond of data in the queues of its own host (TCP small queues), and
    a full queue informs it at once. A TUN device drops the packet's owner when it takes a packet, so neither works
    there. With a token bucket at the card's rate in front, both do. On a TUN device the bucket counts IP bytes,
    whatever the segments of a train; the emulator counts those on the wire.

    Args:
        plan: The plan.
        node: The host.
        header_bytes: Header that the device puts before an IP packet, which its disciplines count, too: 14 bytes of
            Ethernet, none of a TUN device.
    """
    numbers = [link for link in sorted(set(_first_links(plan.flows, node))) if plan.links[link].host_nic]
    cards = [plan.links[link] for link in numbers]
    if not cards:
        return ()
    mtu_bytes, size = mtu(plan, node), largest_packet(plan, node)
    rate = sum(greatest_rate_bps(plan, link) for link in numbers)
    share = size / (size + min(card.overhead_bytes for card in cards))
    margin = 1.0 if len(numbers) == 1 and _sends_one_size(plan.flows, node) else _CARD_MARGIN
    rate_bps = int(rate * share * margin * (size + header_bytes) / size)
    burst = max(_MIN_BURST * (mtu_bytes + header_bytes), rate_bps // 8 // 1000)
    limit = max(queue_bytes(card.queue, mtu_bytes) or 0 for card in cards)
    return ("tbf", "rate", f"{rate_bps}bit", "burst", str(burst), "limit", str(burst + limit))


def largest_packet(plan: Plan, node: int) -> int:
    """IP bytes of the largest packet of the flows from ``node``, for which its card is set; without flows, its MTU."""
    return max((packet_bytes(flow.transport) for flow in plan.flows if flow.from_ == node), default=mtu(plan, node))


def _sends_one_size(flows: Iterable[Flow], node: int) -> bool:
    """Whether ``node`` sends datagrams of one size at constant rates, and nothing else.

    Their receivers answer nothing, so that each packet has the same overhead on the wire.
    """
    own = [flow for flow in flows if node in (flow.from_, flow.to)]
    sizes = {packet_bytes(flow.transport) for flow in own if flow.from_ == node}
    return len(sizes) == 1 and all(
        isinstance(flow.source, CbrSource) and isinstance(flow.transport, UdpTransport) for flow in own
    )


def mtu(plan: Plan, node: int) -> int:
    """The MTU of the device of the host at ``node``, bytes."""
    return max(plan.links[link].mtu_bytes for link in _first_links(plan.flows, node))


def sysctl(namespace: str, values: Mapping[str, str]) -> list[Command]:
    """The commands that set the kernel's parameters in ``namespace``; a kernel may lack only those of IPv6."""
    start = ("nsenter", f"--net={namespace}", "sysctl", "-q")
    wanted = [f"{key}={value}" for key, value in values.items() if not key.startswith(_IPV6)]
    unwanted = [f"{key}={value}" for key, value in values.items() if key.startswith(_IPV6)]
    return [(*start, "-e", "-w", *unwanted), (*start, "-w", *wanted)]


def _settings(plan: Plan, host: Host, switches: Mapping[str, str]) -> list[Command]:
    """The commands that set the kernel's parameters in ``host``."""
    sent = [tcp.send_buffer_bytes for flow, tcp in tcp_flows(plan) if flow.from_ == host.node]
    received = [tcp.receive_buffer_bytes for flow, tcp in tcp_flows(plan) if flow.to == host.node]
    values = {
        "net.ipv6.conf.all.disable_ipv6": "1",  # it would send router and neighbour solicitations
        "net.ipv4.conf.all.rp_filter": "0",
        "net.ipv4.tcp_no_metrics_save": "1",
        "net.ipv4.tcp_ecn": "2",  # accepts it if the peer asks; a route asks
        "net.ipv4.tcp_ecn_fallback": "0",
        **switches,
    }
    if sent:
        values["net.ipv4.tcp_wmem"] = _memory(sent)
    if received:
        values["net.ipv4.tcp_rmem"] = _memory(received)
    return sysctl(host.path, values)


def _memory(buffers: Iterable[int]) -> str:
    """``min default max`` for a buffer of ``buffers`` bytes of payload: half of the memory is for headers."""
    most = min(2 * max(buffers), _MAX_BUFFER)
    return f"4096 {max(most, 4096)} {max(most, 4096)}"


_SWITCHES: Sequence[tuple[str, str, Callable[[TcpTransport], bool]]] = (
    ("sack", "net.ipv4.tcp_sack", lambda tcp: tcp.sack),
    ("timestamps", "net.ipv4.tcp_timestamps", lambda tcp: tcp.timestamps),
)
"""Each connection option that Linux switches per host: its name in a plan, its parameter, its value."""


def switches(plan: Plan) -> dict[int, dict[str, str]]:
    """The TCP connection options that Linux switches per host, for each host of ``plan``: parameters by name.

    Raises:
        WiringError: flows of one host need different ones.
    """
    found: defaultdict[int, dict[str, str]] = defaultdict(dict)
    for option, name, of in _SWITCHES:
        for node, on in _negotiated(plan, option, of).items():
            found[node][name] = str(int(on))
    return found


def _negotiated(plan: Plan, option: str, of: Callable[[TcpTransport], bool]) -> dict[int, bool]:
    """For each host whether ``option`` is on: a connection has it if both ends have it.

    Raises:
        WiringError: a flow without it begins and ends at hosts at which other flows need it.
    """
    needed = {node: flow for flow, tcp in tcp_flows(plan) if of(tcp) for node in (flow.from_, flow.to)}
    state = {node: node in needed for flow, _ in tcp_flows(plan) for node in (flow.from_, flow.to)}
    for flow, tcp in tcp_flows(plan):
        if not of(tcp) and flow.from_ in needed and flow.to in needed:
            other = needed[flow.from_].name
            raise WiringError(
                f"flow {flow.name} has no {option} and flow {other} has, at the same host "
                f"{plan.nodes[flow.from_].name}: Linux switches it for all connections of a host. "
                "Give them hosts of their own"
            )
    return state


@dataclass(frozen=True)
class _RouteOption:
    """A setting of TCP that Linux takes from a route."""

    name: str
    of: Callable[[TcpTransport], object]
    """Its value."""
    of_sender: Callable[[Flow], bool]
    """Whether the sender's route to the receiver has it, instead of the route back."""
    words: Callable[[TcpTransport], list[str]]


def _sender_begins(flow: Flow) -> bool:
    """Whether the sender of the data requests the connection; a program's peer may request both."""
    return not (isinstance(flow.source, CommandSource) and flow.source.sender == "peer")


_ROUTE_OPTIONS = (
    _RouteOption(
        "initial_window",
        lambda tcp: tcp.initial_window,
        lambda _: True,
        lambda tcp: ["initcwnd", str(tcp.initial_window)],
    ),
    _RouteOption("ecn", lambda tcp: tcp.ecn, _sender_begins, lambda tcp: ["features", "ecn"] if tcp.ecn else []),
    _RouteOption(
        "ack", lambda tcp: tcp.ack, lambda _: False, lambda tcp: ["quickack", "1"] if tcp.ack == "every" else []
    ),
)


def route_options(plan: Plan) -> dict[tuple[int, int], list[str]]:
    """For each pair of hosts the settings of TCP that Linux takes from a route.

    Raises:
        WiringError: flows between the same two hosts differ in one.
    """
    found: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    for option in _ROUTE_OPTIONS:
        for pair, tcp in _agreed(plan, option).items():
            found[pair] += option.words(tcp)
    return found


def _agreed(plan: Plan, option: _RouteOption) -> dict[tuple[int, int], TcpTransport]:
    """For each (host, peer) whose route has ``option``, the transport of its first flow.

    Raises:
        WiringError: another flow there has another value.
    """
    first: dict[tuple[int, int], tuple[Flow, TcpTransport]] = {}
    for flow, tcp in tcp_flows(plan):
        pair = (flow.from_, flow.to) if option.of_sender(flow) else (flow.to, flow.from_)
        other, agreed = first.setdefault(pair, (flow, tcp))
        if option.of(agreed) != option.of(tcp):
            raise WiringError(
                f"flows {other.name} and {flow.name} between the same two hosts differ in {option.name} "
                f"({option.of(agreed)} and {option.of(tcp)}): Linux has one for all connections between them. "
                "Give them hosts of their own"
            )
    return {pair: tcp for pair, (_, tcp) in first.items()}


def _route(host: Host, peer: Host, words: Sequence[str]) -> Command:
    return ("ip", "-n", host.namespace, "route", "add", f"{peer.address}/32", "dev", host.device, *words)


def switch_of(plan: Plan) -> str | None:
    """The first switch of ``plan``, in words, for links that have no memory and arbiter; ``None`` without one."""
    found = next((node.name for node in plan.nodes if node.switch is not None), None)
    return None if found is None else f"switch `{found}`: a memory and an arbiter"


def refuse_other_stacks(plan: Plan) -> None:
    """Raises WiringError if a flow asks for a TCP that no kernel of today has, or a host for other components."""
    limited = next((node.name for node in plan.nodes if node.capacity is not None), None)
    if limited is not None:
        raise WiringError(
            f"host `{limited}`: disk, processor, memory and bus of a real machine are its own; weir has the `hosts` of "
            "a scenario in the simulator only (`sim`)"
        )
    old = [flow.name for flow, tcp in tcp_flows(plan) if tcp.stack != "linux"]
    if old:
        few = ", ".join(old[:3]) + (", ..." if len(old) > 3 else "")
        stack = next(tcp.stack for _, tcp in tcp_flows(plan) if tcp.stack != "linux")
        raise WiringError(
            f"stack: {stack} ({few}): no kernel of today has it (RACK, proportional rate reduction and small queues "
            "cannot be switched off); the simulator has. `transport.stack: linux` is the kernel's own"
        )
    new = [flow.name for flow, tcp in tcp_flows(plan) if tcp.accecn]
    if new:
        few = ", ".join(new[:3]) + (", ..." if len(new) > 3 else "")
        raise WiringError(f"accecn ({few}): weir negotiates accurate ECN (RFC 9768) in the simulator only")
    for flow, tcp in tcp_flows(plan):
        classic = next((q for at in flow.path if not getattr(q := plan.links[at].queue, "any_ect", True)), None)
        if tcp.ecn and tcp.cc in controls_that("needs_accecn") and classic is not None:
            raise WiringError(
                f"{tcp.cc} ({flow.name}): it sends ECT(1) in the simulator only. A kernel sends ECT(0), which "
                f"`{kind_of(classic)}` takes for classic traffic; `any_ect: true` puts it into the low-latency queue"
            )
    known = [flow.name for flow, tcp in tcp_flows(plan) if tcp.initial_ssthresh]
    if known:
        few = ", ".join(known[:3]) + (", ..." if len(known) > 3 else "")
        raise WiringError(
            f"initial_ssthresh ({few}): Linux of today gives new connections no threshold, whatever their route says; "
            "the simulator does"
        )
    following = [
        flow.name for flow in plan.flows if isinstance(flow.transport, UdtTransport) and flow.transport.profile
    ]
    if following:
        few = ", ".join(following[:3]) + (", ..." if len(following) > 3 else "")
        raise WiringError(
            f"profile ({few}): weir follows rate profiles of UDT in the simulator only (`sim`), those of TCP here"
        )
    for key, name in (("jump_start", "Jump Start"), ("quick_start_bps", "Quick-Start (RFC 4782)")):
        begun = [flow.name for flow, tcp in tcp_flows(plan) if getattr(tcp, key)]
        if begun:
            few = ", ".join(begun[:3]) + (", ..." if len(begun) > 3 else "")
            raise WiringError(
                f"{key.removesuffix('_bps')} ({few}): no kernel has {name}; weir has it in the simulator only (`sim`)"
            )
