"""The shape of a test bed: its sites, nodes, names, addresses and links. Pure: independent of any machine."""

from __future__ import annotations

import ipaddress
import re
import string
from dataclasses import dataclass, fields

from weir.testbed._errors import TestbedError

__all__ = [
    "BETWEEN",
    "CONTROL",
    "CONTROLLER",
    "EXPERIMENT",
    "FIRST_PORT",
    "INTERFACE",
    "MAX_NODES",
    "MAX_PER_SITE",
    "MAX_SITES",
    "LinkOptions",
    "Node",
    "Shape",
    "check_name",
]

INTERFACE = "weir0"
"""The interface of the experiment in each node."""
CONTROL = "control0"
"""The interface of control in each node."""
BETWEEN = "Between"
"""The set of the node that emulates the network of experiments; the node has this name in lower case."""
CONTROLLER = "controller"
"""This machine in the emulator's plan, if there is one network only."""
EXPERIMENT = ipaddress.IPv4Network("10.0.0.0/16")
"""Addresses of the experiment; they exist inside of the nodes only."""
FIRST_PORT = 1024
"""Port of the first route in the emulator's job; a port only chooses between equal routes here."""

MAX_SITES = len(string.ascii_lowercase)
MAX_PER_SITE = 254
MAX_NODES = 256
"""The emulator has a route for each pair of nodes, and a port for each route."""

_BETWEEN_SITE = 255
"""The number in its addresses, which no site has."""

_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")


def check_name(name: str) -> str:
    """``name``, if a test bed may have it: it names a folder, too.

    Raises:
        TestbedError: it may not.
    """
    if _NAME.fullmatch(name) is None:
        raise TestbedError(
            f"--name: {name!r} cannot name a test bed; expected up to 32 lower-case letters, digits and hyphens, "
            "the first a letter"
        )
    return name


@dataclass(frozen=True)
class Node:
    """A node of a test bed."""

    name: str
    """Such as ``a1``."""
    set: str
    """Its set in the inventory, such as ``A``: one set for each site."""
    control: str
    """Its address for SSH."""
    experiment: str
    """Its address for the traffic of the experiment."""


@dataclass(frozen=True)
class Shape:
    """How many sites a test bed has, and how many nodes each of them."""

    sites: int
    nodes: int
    emulator: bool = False
    """Whether one more node is between them, for the emulator of an experiment."""

    def __post_init__(self) -> None:
        """Checks the numbers.

        Raises:
            TestbedError: a test bed cannot be so large or so small.
        """
        if not 1 <= self.sites <= MAX_SITES:
            raise TestbedError(f"--sites: {self.sites} sites; expected 1 to {MAX_SITES}")
        if not 1 <= self.nodes <= MAX_PER_SITE:
            raise TestbedError(f"--nodes: {self.nodes} nodes at each site; expected 1 to {MAX_PER_SITE}")
        if not 2 <= self.sites * self.nodes <= MAX_NODES:
            raise TestbedError(
                f"--nodes: {self.sites} x {self.nodes} nodes; expected 2 to {MAX_NODES} nodes in the whole test bed"
            )

    @property
    def count(self) -> int:
        """How many nodes it has in all."""
        return self.sites * self.nodes + self.emulator

    @property
    def sets(self) -> tuple[str, ...]:
        """The names of the sites' sets: ``A``, ``B``, ..."""
        return tuple(string.ascii_uppercase[: self.sites])

    def lay_out(
        self, control: ipaddress.IPv4Network, experiment: ipaddress.IPv4Network = EXPERIMENT
    ) -> tuple[Node, ...]:
        """All nodes, site by site, with addresses of the networks ``control`` and ``experiment``, each a /16.

        Node ``i`` of site ``s`` has the last two octets ``s.i`` in both networks, counted from 1. The node of
        the emulator is the last.
        """
        places = [
            (f"{name.lower()}{number}", name, (site << 8) + number)
            for site, name in enumerate(self.sets, 1)
            for number in range(1, self.nodes + 1)
        ]
        if self.emulator:
            places.append((BETWEEN.lower(), BETWEEN, (_BETWEEN_SITE << 8) + 1))
        return tuple(
            Node(name, site, str(control.network_address + at), str(experiment.network_address + at))
            for name, site, at in places
        )


@dataclass(frozen=True)
class LinkOptions:
    """The links, each part as text of the scenario language; ``None``: not given."""

    rtt: str | None = None
    """Round-trip time between sites, such as ``18ms``, which is the default."""
    rate: str | None = None
    """Rate of the link between two sites, such as ``1Gbps``, which is the default."""
    queue: str | None = None
    """Queue before it; one bandwidth-delay product."""
    loss: str | None = None
    """Random losses on it, from the first site to the second; none."""
    access: str | None = None
    """Rate of a node's link; 1 Gb/s."""
    mtu: str | None = None
    """Largest IP packet; 1500 B."""

    def over(self, other: LinkOptions) -> LinkOptions:
        """These options, completed by those of ``other``."""
        return LinkOptions(**{f.name: getattr(self, f.name) or getattr(other, f.name) for f in fields(self)})
