"""The language of inventories: keys, types, meanings."""

# ruff: noqa: RUF009 - `key` makes a field of a dataclass, like `dataclasses.field`
from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir import reserve
from weir.inventory._ranges import MAX_NODES, RANGE
from weir.language import (
    DELAY,
    DURATION,
    NAME,
    RATE,
    Choice,
    Definitions,
    Integer,
    ListOf,
    Log,
    Map,
    MapOf,
    Mark,
    Node,
    OneOrEach,
    Scalar,
    Seq,
    ShapeOf,
    Spec,
    Struct,
    Text,
    describe,
    key,
)
from weir.reserve import Request, RequestError, ReserveError

__all__ = [
    "ROOT",
    "ConnectionSpec",
    "EmulatorSpec",
    "HookSpec",
    "HooksSpec",
    "NodeSpec",
    "Root",
    "SetSpec",
    "Written",
    "schema",
]

_WHOLE = re.compile("[0-9]{1,18}")
_HOST = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]|:|" + RANGE + r")*"
_PLAIN_HOST = r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+\])"
_USER = r"[A-Za-z_][A-Za-z0-9_.-]*"
_PATH = r"""[^\x00-\x1f"$%\\]+"""

_ADDRESS = Text(
    "an address, such as `a1.example.org`, `10.0.0.2` or `a[1..12].example.org`", rf"(?:{_HOST}|{RANGE}{_HOST})", 255
)
_USER_NAME = Text("a user name", _USER, 64)
_FILE = Text('a path of a file, without `"`, `$`, `%` and `\\`', _PATH, 1000)
_JUMP = Text(
    "a host on the way, such as `me@gate.example.org:22`", rf"(?:{_USER}@)?{_PLAIN_HOST}(?::[0-9]{{1,5}})?", 255
)
_INTERFACE = Text("the name of an interface, such as `eth1`", r"[A-Za-z0-9_][A-Za-z0-9_.@-]*", 15)
_PORT = Integer(1, 65_535, "a port")
_PYTHON = Text("the name or path of a Python, such as `python3`", r"[A-Za-z0-9_/][A-Za-z0-9_./+-]*", 255)


@dataclass(frozen=True, kw_only=True)
class _Reach(Spec):
    """How nodes are reached, and their link."""

    user: str | None = key(_USER_NAME, "User on the node. Default: what `ssh` takes.", default=None)
    port: int | None = key(_PORT, "Port of its SSH server. Default: what `ssh` takes.", default=None)
    key_: str | None = key(_FILE, "Private key; relative to this file. Default: what `ssh` takes.", default=None)
    jump: tuple[str, ...] = key(
        OneOrEach(_JUMP, 4), "Hosts on the way to it, the first first. Default: what `ssh` takes.", default=()
    )
    known_hosts: str | None = key(
        _FILE, "File with the host keys; relative to this file. Default: those of `ssh`.", default=None
    )
    interface: str | None = key(_INTERFACE, "Interface of the experiment, if it is not that of control.", default=None)
    experiment_address: str | None = key(
        _ADDRESS,
        "Address for the traffic of the experiment; of a set a range with one for each node, such as `10.1.0.[1..12]`. "
        "Default: that of `interface`.",
        default=None,
    )
    rate: int | None = key(RATE, "Rate of the nodes' links.", default=None)
    python: str | None = key(_PYTHON, "Python 3.8 or later, there. Default: `python3`.", default=None)


@dataclass(frozen=True, kw_only=True)
class NodeSpec(_Reach):
    """A node that differs from its set."""

    address: str = key(_ADDRESS, "Its address for `ssh`.")
    name: str | None = key(NAME, "Its name in tables. Default: its address.", default=None)


class _NodeType:
    """A node: an address, or a mapping."""

    what = "a node such as `a1.example.org`, `a[1..12].example.org` or `{address: 10.0.0.2, port: 2222}`"

    def __init__(self) -> None:
        self._shape: ShapeOf[Any] = ShapeOf(self.what, scalar=_ADDRESS, mapping=Struct(NodeSpec))

    def parse(self, node: Node, log: Log) -> NodeSpec:
        value = self._shape.parse(node, log)
        return value if isinstance(value, NodeSpec) else NodeSpec(mark=node.mark, address=value)

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return self._shape.schema(defs)


class _Reservation:
    """What :func:`weir.reserve.parse` reads."""

    what = "a mapping with `by`, `nodes` and `time`"

    def parse(self, node: Node, log: Log) -> Request:
        if not isinstance(node, Map):
            raise log.error(node.mark, f"expected {self.what}, found {describe(node)}")
        try:
            return reserve.parse(_plain(node), None if log.file.startswith("<") else Path(log.file).parent)
        except RequestError as error:
            key = error.key.partition(".")[0]
            found = node.get(key)
            colon = "" if error.text.startswith("is ") else ":"
            words = f"`{error.key}`{colon} {error.text}" if error.key else error.text
            raise log.error(node.mark if found is None else found.mark, words) from None
        except ReserveError as error:
            raise log.error(node.mark, str(error)) from None

    def schema(self, defs: Definitions) -> dict[str, Any]:
        text = {"type": ["string", "number", "boolean"]}
        each: dict[str, dict[str, Any]] = {
            "by": {"type": "string"},
            "nodes": {"type": "integer", "minimum": 1, "maximum": MAX_NODES},
            "front_end": {"type": ["string", "object"]},
        }
        properties = {name: {**each.get(name, text), "description": doc} for name, doc in reserve.KEYS.items()}
        return {"type": "object", "properties": properties, "required": ["by"]}  # providers have keys of their own


def _plain(node: Node) -> Any:
    """A tree as plain values; numbers without quotes are numbers."""
    match node:
        case Map():
            return {entry.key.text: _plain(entry.value) for entry in node.entries}
        case Seq():
            return [_plain(item) for item in node.items]
        case Scalar():
            return int(node.text) if node.plain and _WHOLE.fullmatch(node.text) else node.text


@dataclass(frozen=True, kw_only=True)
class SetSpec(_Reach):
    """A set of nodes; several may be on one site."""

    nodes: tuple[NodeSpec, ...] = key(
        OneOrEach(_NodeType(), MAX_NODES), "Its nodes: addresses, ranges of them, or mappings.", default=()
    )
    reserve: Request | None = key(_Reservation(), "Instead of `nodes`: how to reserve them.", default=None)


@dataclass(frozen=True, kw_only=True)
class ConnectionSpec(Spec):
    """What is between two sets: for the picture, the checks, and the bounds of what can be measured."""

    between: tuple[str, ...] = key(ListOf(NAME, 2, 2), "Two sets.")
    rate: int | None = key(RATE, "Its rate.", default=None)
    rtt: int | None = key(DELAY, "Round-trip time between nodes of the two.", default=None)


_NUMBERS = r"(?:\[[0-9]{1,6}(?:\.\.[0-9]{1,6})?\])?"
_ROLE = r"[A-Za-z][A-Za-z0-9_.-]*" + _NUMBERS
_PART = Text("a set or a part of one, such as `ClusterA[1..5]`", r"[A-Za-z][A-Za-z0-9_-]*" + _NUMBERS, 100)


@dataclass(frozen=True)
class Written:
    """A text and its place."""

    mark: Mark
    text: str


class _Part:
    """A set or a part of one."""

    what = _PART.what

    def parse(self, node: Node, log: Log) -> Written:
        return Written(node.mark, _PART.parse(node, log))

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return _PART.schema(defs)


@dataclass(frozen=True, kw_only=True)
class EmulatorSpec(Spec):
    """The node between the others, whose emulator is the network."""

    node: Written = key(_Part(), "The node: a part of a set that is one node, such as `Between` or `ClusterA[12]`.")
    interfaces: dict[str, str] | None = key(
        MapOf(_INTERFACE, "a set"),
        "Its interface to the nodes of each set. Default: that by which it reaches them.",
        default=None,
    )


class _EmulatorType:
    """A node, or a mapping."""

    what = "a node such as `Between`, or `{node: Between, interfaces: {ClusterA: eth1}}`"

    def __init__(self) -> None:
        self._shape: ShapeOf[Any] = ShapeOf(self.what, scalar=_PART, mapping=Struct(EmulatorSpec))

    def parse(self, node: Node, log: Log) -> EmulatorSpec:
        value = self._shape.parse(node, log)
        return (
            value if isinstance(value, EmulatorSpec) else EmulatorSpec(mark=node.mark, node=Written(node.mark, value))
        )

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return self._shape.schema(defs)


_WORD = Text("a program or an argument, without control characters", r"[^\x00-\x1f\x7f]+", 1000)
_PROGRAM = Text("an executable, such as `./image.sh`", r"[^\x00-\x1f\x7f-][^\x00-\x1f\x7f]*", 1000)


@dataclass(frozen=True, kw_only=True)
class HookSpec(Spec):
    """An executable with arguments, or with a limit of its own."""

    run: tuple[str, ...] = key(
        OneOrEach(_WORD, 100),
        "The executable and its arguments; a path is relative to this file, and a name without `/` is found in `PATH`.",
    )
    limit: int | None = key(DURATION, "Time after which it is ended, at most 24h. Default: 10min.", default=None)


class _HookType:
    """An executable, or a mapping."""

    what = "an executable such as `./image.sh`, or `{run: [./image.sh, --fast], limit: 30min}`"

    def __init__(self) -> None:
        self._shape: ShapeOf[Any] = ShapeOf(self.what, scalar=_PROGRAM, mapping=Struct(HookSpec))

    def parse(self, node: Node, log: Log) -> HookSpec:
        if isinstance(node, Scalar) and node.text.startswith("-"):
            text = "is no executable; arguments are written `{run: [./image.sh, --fast]}`"
            raise log.error(node.mark, f"{describe(node)} {text}")
        value = self._shape.parse(node, log)
        return value if isinstance(value, HookSpec) else HookSpec(mark=node.mark, run=(value,))

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return self._shape.schema(defs)


_HOOKS = OneOrEach(_HookType(), 100)


@dataclass(frozen=True, kw_only=True)
class HooksSpec(Spec):
    """Executables for equipment that weir does not know, one after another. They run on this machine, as you."""

    deploy: tuple[HookSpec, ...] = key(_HOOKS, "Before the nodes are connected, once a run.", default=())
    configure: tuple[HookSpec, ...] = key(_HOOKS, "Before each cell.", default=())
    collect: tuple[HookSpec, ...] = key(_HOOKS, "After each cell.", default=())
    clean: tuple[HookSpec, ...] = key(_HOOKS, "When the run has ended, however it has.", default=())


@dataclass(frozen=True, kw_only=True)
class Root(Spec):
    """The machines of an experiment; see docs/hosts.md."""

    sets: dict[str, SetSpec] = key(MapOf(Struct(SetSpec), "an alias"), "Sets of nodes by alias.")
    connections: tuple[ConnectionSpec, ...] = key(
        ListOf(Struct(ConnectionSpec), 0, 10_000), "What is between the sets.", default=()
    )
    roles: dict[str, tuple[Written, ...]] | None = key(
        MapOf(OneOrEach(_Part(), 1000), "a role", _ROLE),
        "The nodes that take the place of the scenario's hosts, by role: `sources`, `sinks`, `hosts`, a host's name.",
        default=None,
    )
    network: str = key(
        Choice(
            "a kind of network",
            {"existing": "links as they are", "emulated": "weir makes the links that the scenario asks for"},
        ),
        "Whose the network is. Default: `existing`.",
        default="existing",
    )
    emulator: EmulatorSpec | None = key(
        _EmulatorType(),
        "With `network: emulated`: the node between the others, which is the network. None: the hosts emulate links.",
        default=None,
    )
    hooks: HooksSpec | None = key(Struct(HooksSpec), "Executables for stages of an experiment.", default=None)


ROOT = Struct(Root)


def schema() -> dict[str, Any]:
    """The JSON schema of an inventory file."""
    defs: Definitions = {}
    body = ROOT.body(defs)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "weir inventory",
        **body,
        "$defs": dict(sorted(defs.items())),
    }
