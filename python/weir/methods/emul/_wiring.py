"""From a plan to the hosts that execute it: names, addresses, and the commands that make and remove them.

Pure: nothing here knows a machine. ``emul`` executes the commands on this host, ``lab`` the same ones in its guest.
Each host of the plan that a flow uses becomes a network namespace with one TUN device, to which the emulator attaches;
the network itself - every link, queue and delay - is inside the emulator.

What Linux settles per host or per pair of hosts, and a plan per flow, must agree: SACK and timestamps belong to a
host, the initial window, ECN and quick acknowledgements to a route. A plan whose flows contradict each other there is
refused, and so is one that asks for what no Linux of today has (``stack: linux-2.6``).
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir.methods import MethodError

__all__ = ["DEVICE", "FIRST_PORT", "Command", "Host", "Wiring", "WiringError", "route_options", "sysctl", "wire"]

Command = tuple[str, ...]
"""A program and its arguments."""

DEVICE = "weir0"
FIRST_PORT = 10_000
"""Port of the first flow's receiver: below the ports that Linux gives to connecting sockets."""

_NETWORK = int(ipaddress.IPv4Address("10.0.0.0"))
_LAST_PORT = 65_535
_EPHEMERAL = 32_768
_MOST_BUFFER = (1 << 31) - 1
_LEAST_QUEUE = 10_000
"""Packets, or trains of segments, that wait in a device until the emulator takes them: what a gigabit sends in 120 ms,
so that none is lost when the emulator has to wait for a processor. Room in it costs 8 bytes, what waits there its size;
as the emulator takes everything at once, nothing waits when it is not late."""

_IPV6 = "net.ipv6."
"""Begin of the names of what only keeps IPv6 away: a kernel without it has none of them."""
_CARD_MARGIN = 0.999
"""Share of a card's rate that its queue lets pass: or what small packets cost on the wire would pile up behind it."""
_LEAST_BURST = 4
"""Packets of the MTU that a token bucket passes at once, at least."""

Flow = Mapping[str, Any]


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
        """Where ``ip netns`` keeps the namespace."""
        return f"/run/netns/{self.namespace}"

    def to_job(self) -> dict[str, Any]:
        """As it stands in a job (``crates/weir-run``)."""
        return {"node": self.node, "netns": self.path, "address": self.address, "device": self.device}


@dataclass(frozen=True)
class Wiring:
    """All hosts of a plan, and how to make and remove them."""

    hosts: tuple[Host, ...]
    up: tuple[Command, ...]
    """To be executed in this order; each must succeed."""
    down: tuple[Command, ...]
    """Removes all that ``up`` made. A command that finds nothing to remove may fail."""
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


def wire(plan: Mapping[str, Any], tag: str, *, alone: bool = False) -> Wiring:
    """The wiring of ``plan``; ``tag`` makes its names unique on the machine.

    Args:
        alone: Hosts send each packet alone, instead of trains of segments where TCP has several at once.

    Raises:
        WiringError: flows of one host, or between the same two, ask for what Linux does not tell apart; or one asks for
            what no Linux has.
    """
    flows: Sequence[Flow] = plan["flows"]
    _refuse_old_stacks(flows)
    nodes = sorted({node for flow in flows for node in (flow["from"], flow["to"])})
    hosts = tuple(_host(plan, node, tag) for node in nodes)
    switches = _switches(plan)
    by_node = {host.node: host for host in hosts}
    routes = route_options(plan)
    up: list[Command] = [("ip", "netns", "add", host.namespace) for host in hosts]
    for host in hosts:
        up += _settings(host, flows, switches[host.node])
        up += _link(plan, host, alone=alone)
        up += [_route(host, by_node[peer], words) for (node, peer), words in routes.items() if node == host.node]
        up += _card(plan, host)
    down = [("ip", "netns", "del", host.namespace) for host in hosts]
    return Wiring(hosts, tuple(up), tuple(down), _first_port(flows), ())


def _host(plan: Mapping[str, Any], node: int, tag: str) -> Host:
    address = str(ipaddress.IPv4Address(_NETWORK + 1 + node))
    mtu = max(plan["links"][link]["mtu_bytes"] for link in _first_links(plan["flows"], node))
    return Host(node, plan["nodes"][node]["name"], f"weir-{tag}-h{node}", address, DEVICE, mtu)


def _first_links(flows: Iterable[Flow], node: int) -> list[int]:
    """The links by which packets leave ``node``; or, if none does, by which they reach it."""
    leaving = [flow["path"][0] for flow in flows if flow["from"] == node]
    leaving += [flow["reverse_path"][0] for flow in flows if flow["to"] == node and flow["reverse_path"]]
    return leaving or [flow["path"][-1] for flow in flows if flow["to"] == node]


def _first_port(flows: Sequence[Flow]) -> int:
    if FIRST_PORT + len(flows) > _EPHEMERAL:
        most = _EPHEMERAL - FIRST_PORT
        raise WiringError(f"the plan has {len(flows)} flows; this method has ports for {most}")
    return FIRST_PORT


def _link(plan: Mapping[str, Any], host: Host, *, alone: bool) -> list[Command]:
    """The commands that make the device of ``host``."""
    limits = (plan["links"][link]["queue"]["limit"].get("packets") for link in _first_links(plan["flows"], host.node))
    queue = max(_LEAST_QUEUE, *(limit or 0 for limit in limits))
    ip = ("ip", "-n", host.namespace)
    segments = ("gso_max_segs", "1") if alone else ()
    return [
        (*ip, "link", "set", "lo", "up"),
        (*ip, "tuntap", "add", "dev", host.device, "mode", "tun", "vnet_hdr"),
        (*ip, "link", "set", host.device, "mtu", str(host.mtu_bytes), "txqueuelen", str(queue), *segments, "up"),
        (*ip, "address", "add", f"{host.address}/32", "dev", host.device),
        (*ip, "route", "add", "default", "dev", host.device),
    ]


def _card(plan: Mapping[str, Any], host: Host) -> list[Command]:
    """The command that makes the queue which stands for the network card of ``host``; none if it has no card.

    A TCP sender of Linux keeps no more than a millisecond of data in the queues of its own host (TCP small queues), and
    a full queue tells it at once. A TUN device forgets whose a packet is when it takes it, so that neither works
    there. In a token bucket at the card's rate before it both do. The bucket counts IP bytes, whatever the segments of
    a train; the emulator accounts those on the wire.
    """
    numbers = sorted(set(_first_links(plan["flows"], host.node)))
    cards = [plan["links"][link] for link in numbers if plan["links"][link].get("host_nic")]
    if not cards:
        return []
    size = max((_packet_bytes(flow) for flow in plan["flows"] if flow["from"] == host.node), default=host.mtu_bytes)
    rate = sum(_greatest_rate(plan, link) for link in numbers if plan["links"][link].get("host_nic"))
    share = size / (size + min(card["overhead_bytes"] for card in cards))
    rate_bps = int(rate * share * _CARD_MARGIN)
    burst = max(_LEAST_BURST * host.mtu_bytes, rate_bps // 8 // 1000)
    limit = max(_queue_bytes(card["queue"]["limit"], host.mtu_bytes) for card in cards)
    bucket = ("tbf", "rate", f"{rate_bps}bit", "burst", str(burst), "limit", str(burst + limit))
    return [("tc", "-n", host.namespace, "qdisc", "add", "dev", host.device, "root", *bucket)]


def _packet_bytes(flow: Flow) -> int:
    """IP bytes of a full packet of ``flow``."""
    transport = flow["transport"]
    if transport["protocol"] == "tcp":
        return int(transport["mss_bytes"]) + 40 + (12 if transport["timestamps"] else 0)
    return int(transport["payload_bytes"]) + 28


def _greatest_rate(plan: Mapping[str, Any], link: int) -> int:
    """The greatest rate that a link ever has."""
    changes = [
        int(c["change"]["rate_bps"]) for c in plan["changes"] if c["link"] == link and c["change"]["kind"] == "rate"
    ]
    return max([int(plan["links"][link]["rate_bps"]), *changes])


def _queue_bytes(limit: Mapping[str, int | None], packet: int) -> int:
    sizes = [size for size in (limit.get("bytes"), (limit.get("packets") or 0) * packet) if size]
    return min(sizes)


def sysctl(namespace: str, values: Mapping[str, str]) -> list[Command]:
    """The commands that set the kernel's parameters in ``namespace``; a kernel may lack those of IPv6 alone."""
    start = ("nsenter", f"--net={namespace}", "sysctl", "-q")
    wanted = [f"{key}={value}" for key, value in values.items() if not key.startswith(_IPV6)]
    unwanted = [f"{key}={value}" for key, value in values.items() if key.startswith(_IPV6)]
    return [(*start, "-e", "-w", *unwanted), (*start, "-w", *wanted)]


def _settings(host: Host, flows: Sequence[Flow], switches: Mapping[str, str]) -> list[Command]:
    """The commands that set the kernel's parameters in ``host``."""
    sent = [flow["transport"] for flow in flows if flow["from"] == host.node and _is_tcp(flow)]
    received = [flow["transport"] for flow in flows if flow["to"] == host.node and _is_tcp(flow)]
    values = {
        "net.ipv6.conf.all.disable_ipv6": "1",  # it would ask for routers and neighbours
        "net.ipv4.conf.all.rp_filter": "0",
        "net.ipv4.tcp_no_metrics_save": "1",
        "net.ipv4.tcp_ecn": "2",  # accepts it where the peer asks; a route asks
        "net.ipv4.tcp_ecn_fallback": "0",
        **switches,
    }
    if sent:
        values["net.ipv4.tcp_wmem"] = _memory(transport["send_buffer_bytes"] for transport in sent)
    if received:
        values["net.ipv4.tcp_rmem"] = _memory(transport["receive_buffer_bytes"] for transport in received)
    return sysctl(host.path, values)


def _memory(buffers: Iterable[int]) -> str:
    """``min default max`` for a buffer of so many bytes of payload, at once: half of the memory is for headers."""
    most = min(2 * max(buffers), _MOST_BUFFER)
    return f"4096 {max(most, 4096)} {max(most, 4096)}"


def _switches(plan: Mapping[str, Any]) -> dict[int, dict[str, str]]:
    """The options of a TCP connection that Linux switches per host, for each host of ``plan``."""
    found: defaultdict[int, dict[str, str]] = defaultdict(dict)
    for option, name in (("sack", "net.ipv4.tcp_sack"), ("timestamps", "net.ipv4.tcp_timestamps")):
        for node, on in _negotiated(plan, option).items():
            found[node][name] = str(int(on))
    return found


def _negotiated(plan: Mapping[str, Any], option: str) -> dict[int, bool]:
    """For each host whether ``option`` is on: a connection has it if both ends have it.

    Raises:
        WiringError: a flow without it begins and ends at hosts that other flows need it at.
    """
    flows = [flow for flow in plan["flows"] if _is_tcp(flow)]
    needed = {node: flow for flow in flows if flow["transport"][option] for node in (flow["from"], flow["to"])}
    state = {node: node in needed for flow in flows for node in (flow["from"], flow["to"])}
    for flow in flows:
        if not flow["transport"][option] and flow["from"] in needed and flow["to"] in needed:
            other = needed[flow["from"]]["name"]
            raise WiringError(
                f"flow {flow['name']} has no {option} and flow {other} has, at the same host "
                f"{plan['nodes'][flow['from']]['name']}: Linux switches it for all connections of a host. "
                "Give them hosts of their own"
            )
    return state


def route_options(plan: Mapping[str, Any]) -> dict[tuple[int, int], list[str]]:
    """For each pair of hosts the settings of TCP that Linux takes from a route.

    Raises:
        WiringError: flows between the same two hosts differ in one.
    """
    found: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    parts: tuple[tuple[str, Callable[[Flow], bool], Callable[[Any], list[str]]], ...] = (
        ("initial_window", lambda _: True, lambda window: ["initcwnd", str(window)]),
        ("ecn", _sender_begins, lambda on: ["features", "ecn"] if on else []),
        ("ack", lambda _: False, lambda ack: ["quickack", "1"] if ack == "every" else []),
    )
    for option, of_sender, words in parts:
        for pair, value in _agreed(plan, option, of_sender).items():
            found[pair] += words(value)
    return found


def _sender_begins(flow: Flow) -> bool:
    """Whether the end that sends the data asks for the connection; a program may be asked for them by its peer."""
    source = flow["source"]
    return not (source["kind"] == "command" and source.get("sender", "command") == "peer")


def _agreed(plan: Mapping[str, Any], option: str, of_sender: Callable[[Flow], bool]) -> dict[tuple[int, int], Any]:
    """The value of ``option`` for each (host, peer) whose route has it: the sender's to the receiver, or back."""
    found: dict[tuple[int, int], Any] = {}
    first: dict[tuple[int, int], Flow] = {}
    for flow in plan["flows"]:
        if not _is_tcp(flow):
            continue
        pair = (flow["from"], flow["to"]) if of_sender(flow) else (flow["to"], flow["from"])
        value = flow["transport"][option]
        if found.setdefault(pair, value) != value:
            raise WiringError(
                f"flows {first[pair]['name']} and {flow['name']} between the same two hosts differ in {option} "
                f"({found[pair]} and {value}): Linux has one for all connections between them. "
                "Give them hosts of their own"
            )
        first.setdefault(pair, flow)
    return found


def _route(host: Host, peer: Host, words: Sequence[str]) -> Command:
    return ("ip", "-n", host.namespace, "route", "add", f"{peer.address}/32", "dev", host.device, *words)


def _refuse_old_stacks(flows: Iterable[Flow]) -> None:
    """Raises WiringError if a flow asks for the TCP of long ago."""
    old = [flow["name"] for flow in flows if _is_tcp(flow) and flow["transport"]["stack"] == "linux-2.6"]
    if old:
        few = ", ".join(old[:3]) + (", ..." if len(old) > 3 else "")
        raise WiringError(
            f"stack: linux-2.6 ({few}): no kernel of today has it (RACK, proportional rate reduction and small queues "
            "cannot be switched off); the simulator has. `transport.stack: linux` is the kernel's own"
        )


def _is_tcp(flow: Flow) -> bool:
    return bool(flow["transport"]["protocol"] == "tcp")
