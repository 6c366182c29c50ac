"""From the text of an inventory to its types."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from weir.inventory import _language as lang
from weir.inventory._errors import InventoryError
from weir.inventory._ranges import MAX_NODES, count, expand
from weir.inventory._types import STAGES, Connection, EmulatorNode, Hook, Inventory, Network, Node, NodeSet, Part, Role
from weir.language import (
    MAX_BYTES,
    About,
    Enough,
    Entry,
    Invalid,
    Log,
    Map,
    Mark,
    Problem,
    Scalar,
    Seq,
    choose,
    describe,
    gather,
    read,
)
from weir.language import Node as Tree

__all__ = ["load", "parse"]

_ABOUT = About("an inventory", "inventories", "`sets`")
_SECRETS = re.compile("pass(word|wd|phrase)?|secret|token|credentials?|private_?key", re.IGNORECASE)
_NO_SECRETS = (
    "an inventory has no secrets, because it is copied into runs: let `ssh-agent` hold the key, or name a key file "
    "with `key`"
)
_LIMIT_S, _MAX_LIMIT_S = 600.0, 86_400.0
_ALIAS = re.compile("[A-Za-z][A-Za-z0-9_-]*")
_PART = re.compile(r"([^\[]+)(?:\[([0-9]+)(?:\.\.([0-9]+))?\])?")


def load(path: str | os.PathLike[str]) -> Inventory:
    """Reads and checks an inventory file.

    Raises:
        InventoryError: it cannot be read, or has errors; all of them are in ``problems``.
    """
    file = os.fspath(path)
    try:
        with Path(file).open("rb") as stream:
            text = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as e:
        reason = getattr(e, "strerror", None) or str(e)
        raise InventoryError([Problem(file, 1, 1, f"cannot be read: {reason}")]) from None
    return parse(text, file)


def parse(text: str | bytes, file: str = "<text>") -> Inventory:
    """Reads and checks an inventory like :func:`load`; ``file`` is its name in problems.

    Raises:
        InventoryError: there are errors; all of them are in ``problems``.
    """
    log = Log(file, _ABOUT)
    found: Inventory | None = None
    with suppress(Invalid, Enough):
        found = _Reader(log, file).inventory(text)
    if found is None or log.failed:
        raise InventoryError(log.problems)
    return found


def _without_secrets(tree: Tree, log: Log) -> Tree:
    """``tree`` without its secrets, each of which is an error, so that they hide no other."""
    match tree:
        case Seq():
            return Seq(tree.mark, tuple(_without_secrets(item, log) for item in tree.items))
        case Map():
            refused = [entry for entry in tree.entries if _SECRETS.fullmatch(entry.key.text.replace("-", "_"))]
            for entry in refused:
                log.error(entry.key.mark, f"{describe(entry.key)} is not allowed: {_NO_SECRETS}")
            # A mapping may be a set with such an alias, which others name.
            kept = [entry for entry in tree.entries if entry not in refused or isinstance(entry.value, Map)]
            return Map(tree.mark, tuple(Entry(entry.key, _without_secrets(entry.value, log)) for entry in kept))
        case _:
            return tree


def _named_sets(tree: Map) -> Iterator[Scalar]:
    """Where roles, connections and the emulator name parts of sets, as far as an inventory with errors shows that."""
    yield from _scalars(entry.value for entry in _entries(tree.get("roles")))
    for connection in _items(tree.get("connections")):
        yield from _scalars(entry.value for entry in _entries(connection) if entry.key.text == "between")
    emulator = tree.get("emulator")
    if emulator is not None:
        yield from _scalars([emulator, *(entry.value for entry in _entries(emulator) if entry.key.text == "node")])


def _entries(tree: Tree | None) -> tuple[Entry, ...]:
    return tree.entries if isinstance(tree, Map) else ()


def _items(tree: Tree | None) -> tuple[Tree, ...]:
    return tree.items if isinstance(tree, Seq) else ()


def _scalars(several: Iterable[Tree]) -> Iterator[Scalar]:
    """The single values, and those in lists."""
    for tree in several:
        yield from (one for one in (tree, *_items(tree)) if isinstance(one, Scalar))


class _Reader:
    """Makes an inventory of its tree; what is wrong is in the log."""

    def __init__(self, log: Log, file: str) -> None:
        self.log = log
        self.file = file
        self.folder = Path() if file.startswith("<") else Path(file).parent
        self.left = MAX_NODES
        self.names: dict[str, Mark] = {}
        self.places: dict[Any, Mark] = {}

    def inventory(self, text: str | bytes) -> Inventory:
        tree = read(text, self.log)
        if not isinstance(tree, Map):
            raise self.log.error(tree.mark, f"expected a mapping with `sets`, found {describe(tree)}")
        tree = _without_secrets(tree, self.log)
        assert isinstance(tree, Map)
        try:
            root = lang.ROOT.parse(tree, self.log)
            sets = self.sets(root)
        except Invalid:
            self.refuse_unknown_sets(tree)
            raise
        network: Network = "emulated" if root.network == "emulated" else "existing"
        return Inventory(
            file=self.file,
            sets=sets,
            connections=tuple(self.connection(spec, sets) for spec in root.connections),
            roles=self.roles(root, sets),
            network=network,
            hooks=self.hooks(root.hooks),
            emulator=self.emulator(root, sets),
            mark=root.mark,
        )

    def refuse_unknown_sets(self, tree: Map) -> None:
        """Reports sets that are named but not there, in an inventory that has other errors."""
        aliases = [entry.key.text for entry in _entries(tree.get("sets"))]
        for named in _named_sets(tree):
            found = _PART.fullmatch(named.text)
            if aliases and found is not None and _ALIAS.fullmatch(found[1]) and found[1] not in aliases:
                self.log.error(named.mark, f"`{found[1]}` is not a set{choose(found[1], aliases)}")

    # Sets and nodes.

    def sets(self, root: lang.Root) -> dict[str, NodeSet]:
        """All sets; an error in one does not hide those in others."""
        if not root.sets:
            raise self.log.error(root.at("sets"), "there is no set; expected `ALIAS: {nodes: [...]}`")
        made = gather([partial(self.node_set, alias, spec) for alias, spec in root.sets.items()])
        return {each.alias: each for each in made}

    def node_set(self, alias: str, spec: lang.SetSpec) -> NodeSet:
        template = self.settings(Node(name="", set=alias, address=""), spec)
        if spec.nodes and spec.reserve is not None:
            self.log.error(spec.at("reserve"), "give `nodes` or `reserve`, not both")
        if not spec.nodes and spec.reserve is None:
            self.log.error(spec.mark, f"set `{alias}` has no nodes; expected `nodes: [...]` or `reserve: {{...}}`")
        nodes = tuple(node for each in spec.nodes for node in self.nodes(template, each))
        nodes = self.experiment(nodes, spec)
        self.left -= 0 if spec.reserve is None else spec.reserve.nodes
        if self.left < 0:
            raise self.log.error(spec.at("reserve"), f"more than {MAX_NODES} nodes")
        return NodeSet(alias=alias, template=template, nodes=nodes, reserve=spec.reserve, mark=spec.mark)

    def settings(self, node: Node, spec: lang.SetSpec | lang.NodeSpec) -> Node:
        """``node`` with what ``spec`` says of reaching it, except its address for the experiment."""
        values: dict[str, Any] = {
            "user": spec.user,
            "port": spec.port,
            "key": self.path(spec.key_),
            "jump": spec.jump or None,
            "known_hosts": self.path(spec.known_hosts),
            "interface": spec.interface,
            "rate_bps": spec.rate,
            "python": spec.python,
        }
        return replace(node, **{name: value for name, value in values.items() if value is not None})

    def path(self, text: str | None) -> str | None:
        """The path of a file that the inventory names."""
        if text is None:
            return None
        return str(self.folder / Path(text).expanduser())

    def names_of(self, text: str, mark: Mark) -> list[str]:
        try:
            if count(text) > self.left:
                raise self.log.error(mark, f"more than {MAX_NODES} nodes")
            return expand(text)
        except ValueError as error:
            raise self.log.error(mark, str(error)) from None

    def nodes(self, template: Node, spec: lang.NodeSpec) -> list[Node]:
        addresses = self.names_of(spec.address, spec.at("address"))
        self.left -= len(addresses)
        if spec.name is not None and len(addresses) > 1:
            self.log.error(spec.at("name"), f"one name for {len(addresses)} nodes; leave it out, or write them out")
        common = self.settings(template, spec)
        made = [replace(common, address=address, name=spec.name or address) for address in addresses]
        if spec.experiment_address is not None:
            own = self.names_of(spec.experiment_address, spec.at("experiment_address"))
            made = self.paired(made, own, spec.at("experiment_address"))
        for node in made:
            self.once(self.names, node.name, f"name `{node.name}`", spec.mark)
            self.once(self.places, node.where, f"address `{node.address}`", spec.mark)
        return made

    def once(self, known: dict[Any, Mark], value: Any, what: str, mark: Mark) -> None:
        if value in known:
            self.log.error(mark, f"two nodes have the {what}; the first is at line {known[value].line}")
        known.setdefault(value, mark)

    def experiment(self, nodes: tuple[Node, ...], spec: lang.SetSpec) -> tuple[Node, ...]:
        if spec.experiment_address is None:
            return nodes
        mark = spec.at("experiment_address")
        if spec.reserve is not None:
            raise self.log.error(mark, "which nodes are reserved is not known; give `interface` instead")
        if any(node.experiment_address is not None for node in nodes):
            raise self.log.error(mark, "a node of this set has its own; give one or the other")
        return tuple(self.paired(list(nodes), self.names_of(spec.experiment_address, mark), mark))

    def paired(self, nodes: list[Node], addresses: list[str], mark: Mark) -> list[Node]:
        if len(addresses) != len(nodes):
            raise self.log.error(mark, f"{len(addresses)} addresses for {len(nodes)} nodes; expected one for each")
        return [replace(node, experiment_address=own) for node, own in zip(nodes, addresses, strict=True)]

    # Connections and roles.

    def connection(self, spec: lang.ConnectionSpec, sets: dict[str, NodeSet]) -> Connection:
        one, other = spec.between
        for alias in spec.between:
            if alias not in sets:
                self.log.error(spec.at("between"), f"`{alias}` is not a set{choose(alias, sets)}")
        return Connection(between=(one, other), rate_bps=spec.rate, rtt_ns=spec.rtt)

    def roles(self, root: lang.Root, sets: dict[str, NodeSet]) -> tuple[Role, ...]:
        roles = []
        for name, written in (root.roles or {}).items():
            parts = tuple(part for each in written if (part := self.part(each, sets)) is not None)
            roles.append(Role(name=name, parts=parts, mark=written[0].mark))
        return tuple(roles)

    def part(self, written: lang.Written, sets: dict[str, NodeSet]) -> Part | None:
        found = _PART.fullmatch(written.text)
        assert found is not None, "the language has matched it"
        alias = found[1]
        if alias not in sets:
            self.log.error(written.mark, f"`{alias}` is not a set{choose(alias, sets)}")
            return None
        size = sets[alias].size
        first = int(found[2] or 1)
        last = int(found[3] or found[2] or size)
        if not 1 <= first <= last <= size:
            self.log.error(written.mark, f"`{written.text}`: set `{alias}` has the nodes 1 to {size}")
            return None
        return Part(set=alias, first=first, last=last)

    # The emulator.

    def emulator(self, root: lang.Root, sets: dict[str, NodeSet]) -> EmulatorNode | None:
        spec = root.emulator
        if spec is None:
            return None
        if root.network != "emulated":
            self.log.error(spec.mark, "an existing network has no emulator; expected `network: emulated` with it")
        for alias in spec.interfaces or {}:
            if alias not in sets:
                self.log.error(spec.at("interfaces"), f"`{alias}` is not a set{choose(alias, sets)}")
        part = self.part(spec.node, sets)
        if part is None:
            return None
        if len(part) != 1:
            text = f"`{spec.node.text}` are {len(part)} nodes; expected one, such as `{part.set}[{part.first}]`"
            raise self.log.error(spec.node.mark, text)
        return EmulatorNode(part=part, interfaces=dict(spec.interfaces or {}), mark=spec.mark)

    # Hooks.

    def hooks(self, spec: lang.HooksSpec | None) -> dict[str, tuple[Hook, ...]]:
        named = {stage: getattr(spec, stage, ()) for stage in STAGES}
        return {stage: tuple(self.hook(one) for one in several) for stage, several in named.items() if several}

    def hook(self, spec: lang.HookSpec) -> Hook:
        program, *arguments = spec.run
        limit_s = _LIMIT_S if spec.limit is None else spec.limit / 1e9
        if not 1 <= limit_s <= _MAX_LIMIT_S:
            self.log.error(spec.at("limit"), "expected a time from 1s to 24h")
        if "/" in program:
            program = str((self.folder / Path(program).expanduser()).absolute())
        return Hook(command=(program, *arguments), limit_s=limit_s, mark=spec.mark)
