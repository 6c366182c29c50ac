"""Changes of a node, as its program takes them (:mod:`weir.deploy.node`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = [
    "Change",
    "describe",
    "entry",
    "host",
    "module",
    "offload",
    "qdisc",
    "route",
    "rule",
    "segments",
    "sysctl",
    "tun",
]

Change = Mapping[str, Any]
"""``kind``, ``value`` and what else its kind needs; JSON."""


def sysctl(name: str, value: str) -> Change:
    """A parameter of the kernel, such as ``net.ipv4.tcp_sack``; several values are separated by single spaces."""
    return {"kind": "sysctl", "name": name, "value": " ".join(value.split())}


def qdisc(device: str, words: Sequence[str]) -> Change:
    """The root queueing discipline of ``device``, in the words of ``tc``; none: the kernel's own choice."""
    return {"kind": "qdisc", "device": device, "value": list(words)}


def offload(device: str, name: str, *, on: bool) -> Change:
    """A feature of a network card by its long name, such as ``tcp-segmentation-offload``."""
    return {"kind": "offload", "device": device, "name": name, "value": "on" if on else "off"}


def segments(device: str, most: int) -> Change:
    """The most segments of TCP that ``device`` takes from a sender at once; 1: no trains."""
    return {"kind": "segments", "device": device, "value": most}


def route(to: str, words: Sequence[str], *, via: str | None = None, by: str | None = None) -> Change:
    """Settings of TCP for one peer, such as ``initcwnd 4``.

    Args:
        to: The peer's address.
        words: The settings, as ``ip`` takes them.
        via: Address of the neighbour to which its packets go; ``None``: the way to it remains.
        by: Device for its packets; ``None``: as the way is.
    """
    way = {name: value for name, value in (("via", via), ("by", by)) if value is not None}
    return {"kind": "route", "to": to, **way, "value": list(words)}


def tun(device: str, mtu_bytes: int, queue_packets: int, address: str | None = None) -> Change:
    """A TUN device for the emulator, the packets that wait in it at most, and an address of its own if it needs one."""
    own = {} if address is None else {"address": address}
    return {"kind": "tun", "device": device, **own, "value": {"mtu": mtu_bytes, "queue": queue_packets}}


def host(name: str, device: str, inner: str, netns: str | None = None) -> Change:
    """A network namespace ``name`` with a device ``inner`` on the interface ``device``, which may be in ``netns``."""
    where = {} if netns is None else {"netns": netns}
    return {"kind": "host", "name": name, "device": device, "inner": inner, **where, "value": True}


def entry(table: int, to: str, device: str, via: str | None = None) -> Change:
    """A route to a host in a routing table of its own, by the router ``via`` if there is one."""
    way = {"device": device} if via is None else {"device": device, "via": via}
    return {"kind": "entry", "table": table, "to": to, **way, "value": True}


def rule(from_: str, device: str, table: int, order: int) -> Change:
    """Packets of a host that come by ``device`` take the routing table ``table``; rules apply by their ``order``."""
    return {"kind": "rule", "from": from_, "device": device, "table": table, "order": order, "value": True}


def module(name: str) -> Change:
    """A module of the kernel that is to be loaded."""
    return {"kind": "module", "name": name, "value": True}


def describe(change: Change) -> str:
    """``change`` as a command, for people."""
    value = change["value"]
    match change["kind"]:
        case "sysctl":
            return f"sysctl -w {change['name']}='{value}'"
        case "qdisc":
            words = " ".join(value) if value else "the kernel's own"
            return f"tc qdisc replace dev {change['device']} root {words}"
        case "offload":
            return f"ethtool -K {change['device']} {change['name']} {value}"
        case "segments":
            return f"ip link set dev {change['device']} gso_max_segs {value}"
        case "route":
            way = [
                word for key, name in (("via", "via"), ("by", "dev")) if key in change for word in (name, change[key])
            ]
            return " ".join(["ip route replace", f"{change['to']}/32", *way, *value])
        case "tun":
            return f"ip tuntap add dev {change['device']} mode tun vnet_hdr"
        case "host":
            where = f"ip -n {change['netns']}" if "netns" in change else "ip"
            on = f"link add link {change['device']} name {change['inner']} netns {change['name']}"
            return f"ip netns add {change['name']}; {where} {on} type macvlan mode private"
        case "entry":
            by = f"via {change['via']} dev" if "via" in change else "dev"
            return f"ip route replace {change['to']}/32 {by} {change['device']} table {change['table']}"
        case "rule":
            which = f"from {change['from']} iif {change['device']} lookup {change['table']}"
            return f"ip rule add priority {change['order']} {which}"
        case "module":
            return f"modprobe {change['name']}"
        case _:
            return f"write {change.get('path')}"
