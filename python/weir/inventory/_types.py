"""What an inventory says, as data: nodes, sets of them, connections, roles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from weir.inventory._errors import InventoryError
from weir.language import NOWHERE, Mark, Problem
from weir.plan import Plan
from weir.reserve import Request

__all__ = ["STAGES", "Connection", "EmulatorNode", "Hook", "Inventory", "Network", "Node", "NodeSet", "Part", "Role"]

Network = Literal["existing", "emulated"]
"""Links as they are, or with the delay, rate and loss that the scenario asks for."""
STAGES = ("deploy", "configure", "collect", "clean")
"""Stages of an experiment for which an inventory may name executables."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A machine, and how it is reached.

    What is ``None`` is left to the configuration of ``ssh``. Paths are absolute, or relative to the working directory.
    """

    name: str
    """Unique in its inventory; by default its address."""
    set: str
    """Alias of its set."""
    address: str
    """Name or address for ``ssh``."""
    port: int | None = None
    user: str | None = None
    key: str | None = None
    """Path of a private key."""
    jump: tuple[str, ...] = ()
    """Hosts on the way to it, in order: ``user@host:port``."""
    known_hosts: str | None = None
    """Path of the file with its host key."""
    interface: str | None = None
    """Interface of the experiment; ``None``: that of the route to the other nodes."""
    experiment_address: str | None = None
    """Address for the traffic of the experiment; ``None``: that of :attr:`interface`."""
    rate_bps: int | None = None
    """Rate of its link, bits per second."""
    python: str = "python3"
    """Python 3.8 or later, there."""

    @property
    def where(self) -> tuple[str, int | None, tuple[str, ...]]:
        """What no two nodes share: address, port, way."""
        return self.address, self.port, self.jump


@dataclass(frozen=True, kw_only=True)
class NodeSet:
    """Nodes under an alias: given, or to be reserved."""

    alias: str
    template: Node
    """What all nodes of the set have in common; its name and address are empty."""
    nodes: tuple[Node, ...] = ()
    """Empty as long as they are not reserved."""
    reserve: Request | None = None
    mark: Mark = field(default=NOWHERE, compare=False, repr=False)

    @property
    def size(self) -> int:
        """Number of nodes, reserved or still to be."""
        return len(self.nodes) or (0 if self.reserve is None else self.reserve.nodes)

    @property
    def rate_bps(self) -> int | None:
        """Rate of the nodes' links, bits per second."""
        return self.template.rate_bps

    def node(self, address: str, name: str | None = None) -> Node:
        """A node of this set, as its reservation gave it."""
        return replace(self.template, address=address, name=name or address)


@dataclass(frozen=True, kw_only=True)
class Connection:
    """What is between two sets: for the picture, the checks, the bounds of what can be measured."""

    between: tuple[str, str]
    rate_bps: int | None = None
    """Bits per second."""
    rtt_ns: int | None = None
    """Round-trip time between nodes of one set and the other, ns."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some nodes of a set: from number ``first`` to ``last``, from 1, both included."""

    set: str
    first: int
    last: int

    def __len__(self) -> int:
        """Number of nodes."""
        return self.last - self.first + 1

    def __str__(self) -> str:
        """As an inventory has it."""
        return f"{self.set}[{self.first}]" if self.first == self.last else f"{self.set}[{self.first}..{self.last}]"


@dataclass(frozen=True, kw_only=True)
class Role:
    """Hosts of a scenario, and the nodes that take their place, in order."""

    name: str
    parts: tuple[Part, ...]
    mark: Mark = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class EmulatorNode:
    """The node between the others, on which the emulator is the network."""

    part: Part
    """The node."""
    interfaces: Mapping[str, str] = field(default_factory=dict)
    """Its interface to the nodes of a set, by alias; of others, that by which it reaches them."""
    mark: Mark = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Hook:
    """An executable that this machine runs at a stage of an experiment (:mod:`weir.stages`)."""

    command: tuple[str, ...]
    """It and its arguments; the first is an absolute path, or a name to be found in ``PATH``."""
    limit_s: float
    """Time after which it is ended, seconds."""
    mark: Mark = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """The machines of an experiment. Sets, roles and nodes are in the order of the file."""

    file: str
    """Its name in problems: the path as given, or another name in angle brackets."""
    sets: Mapping[str, NodeSet]
    connections: tuple[Connection, ...] = ()
    roles: tuple[Role, ...] = ()
    network: Network = "existing"
    emulator: EmulatorNode | None = None
    """With an emulated network, the node that is it."""
    hooks: Mapping[str, tuple[Hook, ...]] = field(default_factory=dict)
    """By stage; a stage without any is missing."""
    mark: Mark = field(default=NOWHERE, compare=False, repr=False)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes that are known; those of a set that is not reserved are missing."""
        return tuple(node for each in self.sets.values() for node in each.nodes)

    @property
    def unreserved(self) -> tuple[NodeSet, ...]:
        """The sets whose nodes a reservation must give first."""
        return tuple(each for each in self.sets.values() if each.reserve is not None and not each.nodes)

    def with_nodes(self, alias: str, nodes: Iterable[Node]) -> Inventory:
        """A copy in which the set ``alias`` has ``nodes``, as its reservation gave them.

        Raises:
            KeyError: there is no such set.
            InventoryError: two nodes of the copy are one, or have one name.
        """
        given = tuple(replace(node, set=alias) for node in nodes)
        copy = replace(self, sets={**self.sets, alias: replace(self.sets[alias], nodes=given)})
        names = [node.name for node in copy.nodes]
        places = [node.where for node in copy.nodes]
        if len(set(names)) < len(names) or len(set(places)) < len(places):
            twice = next(node for node in given if names.count(node.name) > 1 or places.count(node.where) > 1)
            message = f"node `{twice.name}` ({twice.address}), which set `{alias}` was given, is in the inventory twice"
            raise InventoryError([self.problem(message, self.sets[alias].mark)])
        return copy

    def nodes_of(self, part: Part) -> tuple[Node, ...]:
        """The nodes of a part, as far as they are known."""
        return self.sets[part.set].nodes[part.first - 1 : part.last]

    @property
    def between(self) -> Node | None:
        """The node whose emulator is the network; ``None``: there is none, or it is not reserved yet."""
        return next(iter(() if self.emulator is None else self.nodes_of(self.emulator.part)), None)

    def connection(self, one: str, other: str) -> Connection | None:
        """What is between two sets, in either order; ``None`` if the inventory does not say."""
        return next((each for each in self.connections if sorted(each.between) == sorted((one, other))), None)

    def bind(self, plan: Plan) -> dict[int, Node]:
        """The node that takes the place of each host of ``plan``, by the host's index.

        Hosts without any flow may have none.

        Raises:
            InventoryError: a role is unknown or has too few nodes, a host has no node or two, a node has two hosts, or
                a set was not reserved yet.
        """
        from weir.inventory._bind import bind

        return bind(self, plan)

    def problem(self, message: str, mark: Mark) -> Problem:
        """A problem of this file."""
        return Problem(mark.file or self.file, mark.line, mark.column, message)
