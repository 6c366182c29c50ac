"""Changes of a node, as its program takes them (:mod:`weir.deploy.node`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["Change", "describe", "module", "offload", "qdisc", "route", "sysctl"]

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


def route(to: str, words: Sequence[str]) -> Change:
    """Settings of TCP for one peer, such as ``initcwnd 4``; the way to it remains."""
    return {"kind": "route", "to": to, "value": list(words)}


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
        case "route":
            return f"ip route replace {change['to']}/32 {' '.join(value)}"
        case "module":
            return f"modprobe {change['name']}"
        case _:
            return f"write {change.get('path')}"
