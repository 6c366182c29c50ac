"""Which node takes the place of which host of a scenario."""

from __future__ import annotations

import re

from weir.inventory._errors import InventoryError
from weir.inventory._types import Inventory, Node, Role
from weir.language import Problem, choose, listing
from weir.plan import Plan

__all__ = ["bind", "roles_of", "used_hosts"]

_NUMBERED = re.compile(r"(.*?[^0-9.])[0-9][0-9.]*")
_MEANT = {"sources": "src", "sinks": "dst", "cross_sources": "xsrc", "cross_sinks": "xdst"}
"""What the ends of pairs are called, and how the names of such hosts begin."""
_INDEXED = re.compile(r"(.+?)\[([0-9]+)(?:\.\.([0-9]+))?\]")


def used_hosts(plan: Plan) -> set[int]:
    """Indices of the hosts at which a flow begins or ends."""
    return {end for flow in plan.flows for end in (flow.from_, flow.to)}


def roles_of(plan: Plan) -> dict[str, list[int]]:
    """The roles of a plan's hosts, each with its hosts by index, in order.

    ``hosts`` are all. Hosts that are numbered under one name are a role of that name: ``src`` for ``src0``, ``src1``
    and so on. ``sources`` and ``sinks`` are the ends of pairs, ``cross_sources`` and ``cross_sinks`` of cross pairs.
    ``GROUP.senders`` and ``GROUP.receivers`` are those of a workload entry. Each host is a role under its own name.
    """
    hosts = {number: node.name for number, node in enumerate(plan.nodes) if node.kind == "host"}
    roles: dict[str, list[int]] = {"hosts": list(hosts)}
    for number, name in hosts.items():
        found = _NUMBERED.fullmatch(name)
        if found:
            roles.setdefault(found[1], []).append(number)
    roles = {meant: roles[begin] for meant, begin in _MEANT.items() if begin in roles} | roles
    for flow in plan.flows:
        for role, host in ((f"{flow.group}.senders", flow.from_), (f"{flow.group}.receivers", flow.to)):
            members = roles.setdefault(role, [])
            if host not in members:
                members.append(host)
    for number, name in hosts.items():
        roles[name] = [number]
    return roles


def bind(inventory: Inventory, plan: Plan) -> dict[int, Node]:
    """See :meth:`weir.inventory.Inventory.bind`."""
    binding = _Binding(inventory, plan)
    for role in inventory.roles:
        binding.add(role)
    binding.require_all()
    if binding.problems:
        raise InventoryError(binding.problems)
    return dict(sorted(binding.bound.items()))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class _Binding:
    """Nodes by host, and what is wrong with them."""

    def __init__(self, inventory: Inventory, plan: Plan) -> None:
        self.inventory = inventory
        self.plan = plan
        self.known = roles_of(plan)
        self.used = used_hosts(plan)
        self.bound: dict[int, Node] = {}
        self.by: dict[int, Role] = {}
        self.taken: dict[str, int] = {}
        self.problems: list[Problem] = []

    def add(self, role: Role) -> None:
        """Gives each host of ``role`` its node."""
        unreserved = {part.set for part in role.parts} & {each.alias for each in self.inventory.unreserved}
        if unreserved:
            self.refuse(role, f"{listing(sorted(unreserved), 'and')} has no nodes yet: reserve them first")
            return
        members = self.members(role)
        nodes = [node for part in role.parts for node in self.inventory.nodes_of(part)]
        needed = max((number + 1 for number, host in enumerate(members) if host in self.used), default=0)
        if len(nodes) < needed:
            has, given = _counted(needed, "host"), _counted(len(nodes), "node")
            self.refuse(role, f"`{role.name}` has {has} in this scenario, but {given}")
        for host, node in zip(members, nodes, strict=False):
            self.put(role, host, node)

    def members(self, role: Role) -> list[int]:
        """The hosts that a role names; none, and a problem, if the scenario has none of that name."""
        if role.name in self.known:
            return self.known[role.name]
        found = _INDEXED.fullmatch(role.name)
        if found is None or found[1] not in self.known:
            name = role.name if found is None else found[1]
            free = [known for known in self.known if known not in self.names()]
            self.refuse(role, f"`{name}` is not a role of this scenario{choose(name, self.known, free)}")
            return []
        members = self.known[found[1]]
        first, last = int(found[2]), int(found[3] or found[2])
        if not first <= last < len(members):
            self.refuse(role, f"`{role.name}`: `{found[1]}` has the hosts 0 to {len(members) - 1} in this scenario")
            return []
        return members[first : last + 1]

    def put(self, role: Role, host: int, node: Node) -> None:
        """Gives ``host`` its ``node``."""
        name = self.plan.nodes[host].name
        if host in self.bound:
            self.refuse(role, f"host `{name}` has the roles `{self.by[host].name}` and `{role.name}`; give it one node")
        elif self.is_between(node):
            self.refuse(role, f"node `{node.name}` is the emulator; it cannot be host `{name}`, too")
        elif node.name in self.taken:
            other = self.plan.nodes[self.taken[node.name]].name
            self.refuse(role, f"node `{node.name}` would be host `{other}` and host `{name}`; a node is one host")
        else:
            self.bound[host], self.by[host], self.taken[node.name] = node, role, host

    def is_between(self, node: Node) -> bool:
        """Whether the emulator is on ``node``."""
        between = self.inventory.between
        return between is not None and between.name == node.name

    def require_all(self) -> None:
        """Refuses hosts with flows and without a node."""
        missing = sorted(self.used - self.bound.keys())
        if not missing or self.problems:
            return
        names = listing([self.plan.nodes[host].name for host in missing], "and")
        has = listing([role for role in self.known if role not in self.names()], "and")
        message = f"no role gives a node to {names}; the scenario has the roles {has}, and each host by its name"
        mark = self.inventory.roles[0].mark if self.inventory.roles else self.inventory.mark
        self.problems.append(self.inventory.problem(message, mark))

    def names(self) -> set[str]:
        """Names of hosts, which are roles, too."""
        return {node.name for node in self.plan.nodes}

    def refuse(self, role: Role, message: str) -> None:
        """Records a problem at a role."""
        self.problems.append(self.inventory.problem(message, role.mark))
