"""The two hosts at the ends of the link: the one of the command, and its peer."""

from __future__ import annotations

from weir._owner import Tag
from weir.hosts.wiring import DEVICE, FIRST_PORT, Command, Host, Wiring

__all__ = ["wiring"]

_ADDRESSES = ("10.0.0.1", "10.0.0.2")
_NAMES = ("here", "peer")
_QUEUE = 10_000
"""Frames that wait in a device for the emulator; those that come while it does not run must not be lost."""


def wiring(tag: Tag, mtu_bytes: int) -> Wiring:
    """Namespaces ``weir-TAG-here`` and ``weir-TAG-peer``, with a device each and nothing else."""
    hosts = tuple(
        Host(node, name, f"weir-{tag}-{name}", address, DEVICE, mtu_bytes)
        for node, (name, address) in enumerate(zip(_NAMES, _ADDRESSES, strict=True))
    )
    up = [command for host in hosts for command in _make(host)]
    down = tuple(("ip", "netns", "del", host.namespace) for host in hosts)
    return Wiring(hosts, tuple(up), down, FIRST_PORT, ())


def _make(host: Host) -> list[Command]:
    ip = ("ip", "-n", host.namespace)
    enter = ("nsenter", f"--net={host.path}", "sysctl", "-q")
    return [
        ("ip", "netns", "add", host.namespace),
        # Before the device comes up: its address would be announced over the link.
        (*enter, "-e", "-w", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv4.tcp_no_metrics_save=1"),
        (*ip, "link", "set", "lo", "up"),
        (*ip, "tuntap", "add", "dev", host.device, "mode", "tun", "vnet_hdr"),
        (*ip, "link", "set", host.device, "mtu", str(host.mtu_bytes), "txqueuelen", str(_QUEUE), "up"),
        (*ip, "address", "add", f"{host.address}/32", "dev", host.device),
        (*ip, "route", "add", "default", "dev", host.device),
    ]
