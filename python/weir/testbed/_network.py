"""The networks of a test bed: commands of ``ip`` and ``tc``, as pure functions, and their execution.

Control: an interface in each node, joined by a bridge in a namespace of its own, from which one interface leads to this
machine. Experiment: a TUN device in each node, to which the emulator attaches; or, if a node is to emulate the network,
an interface in each node, joined by another bridge. All but that one interface is invisible to this machine, and even
this one disappears with the bridges' namespace.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from weir.testbed._errors import BedError, TestbedError
from weir.testbed._linux import inside
from weir.testbed._shape import CONTROL, EXPERIMENT, INTERFACE, Node

__all__ = [
    "Parameters",
    "choose_control",
    "configure_experiment",
    "configure_host",
    "configure_node",
    "configure_switch",
    "interface_name",
    "make_controller",
    "parameters",
    "prepare",
    "remove_interface",
    "reset_node",
    "taken_interfaces",
    "taken_networks",
]

_CANDIDATES = tuple(
    ipaddress.IPv4Network(f"{first}.{second}.0.0/16")
    for first, seconds in (("10", range(128, 255)), ("172", range(16, 32)))
    for second in seconds
)
_QUEUE = 10_000
"""Packets that wait in a TUN device for the emulator."""
_CARD_MARGIN = 0.999
"""Share of a card's rate that its queue lets pass (:mod:`weir.hosts.wiring`)."""
_ETHERNET_BYTES = 14
"""Header of a packet that a token bucket counts where the interface is one of Ethernet."""
_COMMAND_S = 60.0
_KEPT = {"all", "default", "lo", INTERFACE, CONTROL}
"""Folders of parameters of a node whose devices are not removed."""
_RULES = (0, 32766, 32767)
"""Priorities of the rules that every namespace has (ip-rule(8))."""


def interface_name(number: int) -> str:
    """The name of this machine's interface to a test bed."""
    return f"weirbed{number}"


def choose_control(taken: Iterable[str], wanted: str | None = None) -> ipaddress.IPv4Network:
    """A network of control that no address and no route of this machine overlaps.

    Args:
        taken: Networks and addresses of this machine, as ``ip`` writes them; ``default`` is none.
        wanted: The user's choice, a /16.

    Raises:
        TestbedError: the user's choice is none, or is taken; or all are taken.
    """
    known = [ipaddress.IPv4Network(word, strict=False) for word in taken if word != "default"]
    known = [network for network in known if network.prefixlen > 0]
    if wanted is None:
        free = (c for c in _CANDIDATES if not any(c.overlaps(network) for network in known))
        if (found := next(free, None)) is not None:
            return found
        raise TestbedError(
            f"this machine has routes to {_CANDIDATES[0]} and all other networks that a test bed would take for "
            "control; --control chooses another, such as 192.168.0.0/16"
        )
    try:
        network = ipaddress.IPv4Network(wanted)
    except ValueError as error:
        raise TestbedError(f"--control: {error}; expected a network such as 10.200.0.0/16") from error
    if network.prefixlen != 16 or network.overlaps(EXPERIMENT):
        raise TestbedError(f"--control: {network}: expected a /16 other than {EXPERIMENT}, such as 10.200.0.0/16")
    for other in known:
        if network.overlaps(other):
            raise TestbedError(f"--control: {network} is taken: this machine has a route to {other}")
    return network


def taken_networks() -> list[str]:
    """Networks and addresses of this machine, all routing tables included.

    Raises:
        BedError: ``ip`` failed.
    """
    routes = json.loads(_run(["ip", "-4", "-json", "route", "show", "table", "all"]) or "[]")
    return [str(route["dst"]) for route in routes]


def taken_interfaces() -> set[str]:
    """Names of this machine's interfaces."""
    return {path.name for path in Path("/sys/class/net").iterdir()}


def prepare(network: int) -> None:
    """Sets the parameters of a new network namespace before it has an interface: no IPv6, which would send by itself.

    Raises:
        OSError: one cannot be set.
    """
    with inside(network):
        for name in ("all", "default"):
            path = Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6")
            if path.exists():
                path.write_text("1", encoding="ascii")


def configure_switch(switch: int, host: str, to_host: str, nodes: Sequence[Node], to_nodes: Sequence[str]) -> None:
    """Makes the bridge of control in the namespace ``switch``, with an interface to this machine and to each node.

    Args:
        switch: Descriptor of its namespace.
        host: Name of the interface at this machine's side.
        to_host: Path of this machine's network namespace.
        nodes: The nodes.
        to_nodes: Paths of their network namespaces.

    Raises:
        BedError: a command failed.
    """
    lines = ["link add name bridge type bridge", "link set bridge up"]
    ends = [(f"to-{node.name}", CONTROL, path) for node, path in zip(nodes, to_nodes, strict=True)]
    for name, peer, path in [("to-host", host, to_host), *ends]:
        lines.append(f"link add name {name} type veth peer name {peer} netns {path}")
        lines.append(f"link set {name} master bridge up")
    _batch("ip", lines, switch)


def configure_experiment(switch: int, nodes: Sequence[Node], to_nodes: Sequence[str], mtu_bytes: int) -> None:
    """Makes a bridge of the experiment in the namespace ``switch``, with an interface to each node.

    Args:
        switch: Descriptor of its namespace.
        nodes: The nodes.
        to_nodes: Paths of their network namespaces.
        mtu_bytes: Of all interfaces.

    Raises:
        BedError: a command failed.
    """
    lines = ["link add name experiment type bridge", f"link set experiment mtu {mtu_bytes} up"]
    for number, path in enumerate(to_nodes[: len(nodes)]):
        name = f"x{number}"
        lines.append(f"link add name {name} mtu {mtu_bytes} type veth peer name {INTERFACE} netns {path}")
        lines.append(f"link set {name} master experiment up")
    _batch("ip", lines, switch)


def configure_host(name: str, control: ipaddress.IPv4Network, alias: str) -> None:
    """Gives this machine's interface to the nodes its address, the first of ``control``; ``alias`` names its owner.

    Raises:
        BedError: a command failed.
    """
    address = control.network_address + 1
    _batch(
        "ip",
        [
            f"link set {name} alias {alias} addrgenmode none up",
            f"address add {address}/{control.prefixlen} dev {name}",
        ],
    )


def make_controller(name: str, control: ipaddress.IPv4Network, alias: str, mtu_bytes: int) -> None:
    """Makes this machine's interface to the emulator, to which it is one more host; ``alias`` names its owner.

    Raises:
        BedError: a command failed.
    """
    address = control.network_address + 1
    lines = [
        f"tuntap add dev {name} mode tun vnet_hdr",
        f"link set {name} alias {alias} addrgenmode none mtu {mtu_bytes} txqueuelen {_QUEUE} up",
        f"address add {address}/32 dev {name}",
        f"route add {control} dev {name} src {address}",
    ]
    _batch("ip", lines)


def configure_node(
    network: int,
    node: Node,
    facts: dict[str, Any],
    experiment: ipaddress.IPv4Network,
    *,
    is_alone: bool,
    is_switched: bool,
    again: bool = False,
) -> None:
    """Configures the interfaces of ``node``.

    Args:
        network: Descriptor of its network namespace.
        node: The node.
        facts: ``mtu_bytes``, ``access_bps`` and ``overhead_bytes`` of its link.
        experiment: The network of the experiment.
        is_alone: Whether there is no network of control besides it.
        is_switched: Whether the interface of the experiment is there, and leads to a bridge.
        again: Whether the interfaces are there already.

    Raises:
        BedError: a command failed.
    """
    apart = [f"address add {node.control}/16 dev {CONTROL}", f"link set {CONTROL} up"]
    lines = [
        "link set lo up",
        *([] if is_alone else apart),
        *([] if again or is_switched else [f"tuntap add dev {INTERFACE} mode tun vnet_hdr"]),
        f"link set {INTERFACE} mtu {facts['mtu_bytes']} txqueuelen {_QUEUE} up",
    ]
    if is_switched:
        lines.append(f"address add {node.experiment}/{experiment.prefixlen} dev {INTERFACE}")
    else:
        lines.append(f"address add {node.experiment}/32 dev {INTERFACE}")
        lines.append(f"route add {experiment} dev {INTERFACE} src {node.experiment}")
    _batch("ip", lines, network)
    mtu = facts["mtu_bytes"]
    counted = mtu + (_ETHERNET_BYTES if is_switched else 0)
    rate = int(facts["access_bps"] * counted / (mtu + facts["overhead_bytes"]) * _CARD_MARGIN)
    burst = max(4 * counted, rate // 8 // 1000)
    limit = burst + 1000 * counted
    _batch("tc", [f"qdisc add dev {INTERFACE} root tbf rate {rate}bit burst {burst} limit {limit}"], network)


Parameters = dict[str, str]
"""Values of the kernel's parameters of a network namespace, by path."""


def parameters(network: int) -> Parameters:
    """The parameters of a network namespace, as they are now."""
    found = {}
    with inside(network):
        for path in Path("/proc/sys/net").rglob("*"):
            with contextlib.suppress(OSError, UnicodeDecodeError):  # a folder, or one that cannot be read
                found[str(path)] = path.read_text(encoding="ascii")
    return found


def reset_node(network: int, before: Parameters) -> None:
    """Makes the network of a node that has ended as a kernel that boots finds it, for :func:`configure_node`.

    Its own interfaces stay, because others hold their far ends: their addresses, routes, disciplines and parameters go,
    and other devices, rules and routing tables.

    Raises:
        BedError: a command failed.
    """
    with inside(network):
        for device in (INTERFACE, CONTROL):
            words = ["tc", "qdisc", "delete", "dev", device, "root"]
            subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_COMMAND_S, check=False)
            subprocess.run([*words[:-1], "ingress"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
            if Path(f"/proc/sys/net/ipv4/conf/{device}").exists():
                _run(["ip", "address", "flush", "dev", device])
        for device in {path.name for path in Path("/proc/sys/net/ipv4/conf").iterdir()} - _KEPT:
            remove_interface(device)
        for each in json.loads(_run(["ip", "-4", "-json", "rule"])):
            if each["priority"] not in _RULES:
                _run(["ip", "-4", "rule", "delete", "priority", str(each["priority"])])
        _run(["ip", "route", "flush", "table", "main"])
        for name, value in before.items():
            path = Path(name)
            with contextlib.suppress(OSError, UnicodeDecodeError):
                if path.read_text(encoding="ascii") != value:
                    path.write_text(value, encoding="ascii")


def remove_interface(name: str) -> None:
    """Removes this machine's interface to a test bed, if it is there; quietly."""
    words = ["ip", "link", "delete", name]
    subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_COMMAND_S, check=False)


def _batch(program: str, lines: Iterable[str], network: int | None = None) -> None:
    text = "\n".join(lines) + "\n"
    if network is None:
        _run([program, "-batch", "-"], text)
        return
    with inside(network):
        _run([program, "-batch", "-"], text)


def _run(command: list[str], text: str = "") -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=_COMMAND_S, check=False)
    if done.returncode != 0:
        given = f" (given {text.strip()!r})" if text else ""
        raise BedError(f"`{' '.join(command)}`{given} failed: {done.stderr.strip()}")
    return done.stdout
