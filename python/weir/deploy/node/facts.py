"""What a node is: addresses, congestion controls, protocols, and its environment for the archive."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import socket
import time
from pathlib import Path

from weir.deploy.node.base import Change, Refused, boot_id, execute

__all__ = ["do_address", "do_controls", "do_facts", "do_sockets", "do_ways"]

_ETHERNET_BYTES = 14
_ETHERNET = {"1", "772"}
"""Types of devices with Ethernet's header (``ARPHRD_ETHER``, ``ARPHRD_LOOPBACK`` in if_arp.h)."""


def do_address(asked: Change) -> Change:
    """The first IPv4 address of ``device``, or the device that has ``address``, with the bytes before an IP packet that
    its disciplines count.
    """
    if asked.get("device"):
        for word in execute("ip", "-4", "-o", "address", "show", "dev", asked["device"]).split():
            if "/" in word and word.count(".") == 3:
                return _address(word.partition("/")[0], asked["device"])
        raise Refused(f"{asked['device']} has no IPv4 address")
    words = execute("ip", "-4", "-o", "address", "show", "to", asked["address"]).split()
    return _address(asked["address"], words[1] if len(words) > 1 else None)


def _address(address: str, device: str | None) -> Change:
    kind = ""
    if device is not None:
        with contextlib.suppress(OSError):
            kind = Path("/sys/class/net", device, "type").read_text(encoding="ascii").strip()
    return {"address": address, "device": device, "header_bytes": _ETHERNET_BYTES if kind in _ETHERNET else 0}


def do_ways(asked: Change) -> Change:
    """How each of ``hosts``, an address and a device or ``null``, is reached: device, own address, router."""
    ways = []
    for to, by in asked["hosts"]:
        words = execute("ip", "-4", "-o", "route", "get", to, *(("oif", by) if by else ())).split()
        known = {name: words[words.index(name) + 1] for name in ("dev", "src", "via") if name in words[:-1]}
        ways.append({"device": known.get("dev"), "source": known.get("src"), "router": known.get("via")})
    return {"ways": ways}


def do_controls(asked: Change) -> Change:
    """The congestion controls of this kernel; modules of ``wanted`` that could be loaded are named by their kind."""
    values = {}
    for name in ("available", "allowed"):
        file = Path(f"/proc/sys/net/ipv4/tcp_{name}_congestion_control")
        values[name] = file.read_text(encoding="ascii").split() if file.exists() else []
    values["boot"] = [boot_id()]
    return values


_LACKING = {errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT, errno.EAFNOSUPPORT, errno.ENOPROTOOPT}


def do_sockets(asked: Change) -> Change:
    """Whether this kernel lacks each of ``sockets``, a type and a number of a protocol; sends nothing.

    A socket that is refused for another reason, such as a privilege, is not lacking.
    """
    return {"lacking": [_lacks(kind, number) for kind, number in asked["sockets"]]}


def _lacks(kind: int, number: int) -> bool:
    try:
        socket.socket(socket.AF_INET, kind, number).close()
    except OSError as error:
        return error.errno in _LACKING
    return False


def do_facts(asked: Change) -> Change:
    """The environment of the node, for the archive."""
    parameters = {}
    root = Path("/proc/sys")
    for path in sorted([*root.glob("net/ipv4/tcp_*"), *root.glob("net/core/*")]):
        if path.name.endswith("_key"):  # that of TCP Fast Open is a secret, and runs have none in their files
            continue
        with contextlib.suppress(OSError):
            parameters[str(path.relative_to(root)).replace("/", ".")] = " ".join(path.read_text().split())
    told = {}
    for name, command in {
        "addresses": ("ip", "-o", "address"),
        "links": ("ip", "-s", "-o", "link"),
        "routes": ("ip", "route"),
        "qdiscs": ("tc", "-s", "qdisc"),
    }.items():
        with contextlib.suppress(Refused):
            told[name] = execute(*command)
    if asked.get("device"):
        with contextlib.suppress(Refused):
            told["offloads"] = execute("ethtool", "-k", asked["device"])
    files = {}
    for name in ("/proc/cpuinfo", "/proc/meminfo", "/proc/cmdline", "/etc/os-release", "/proc/net/snmp"):
        with contextlib.suppress(OSError):
            files[name] = Path(name).read_text(encoding="utf-8", errors="replace")
    with contextlib.suppress(OSError):
        files["clocksource"] = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource").read_text()
    return {
        "host": socket.gethostname(),
        "kernel": platform.platform(),
        "uname": list(os.uname()),
        "python": platform.python_version(),
        "time": time.time(),
        "monotonic_ns": time.monotonic_ns(),
        "boot": boot_id(),
        "load": list(os.getloadavg()),
        "user": os.geteuid(),
        "parameters": parameters,
        "commands": told,
        "files": files,
    }
