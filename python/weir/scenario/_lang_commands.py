"""Language definitions of programs as workloads: iperf3 by name, and any command.

This module defines syntax and meaning; `_commands.py` compiles it into the plan's programs.
"""

# ruff: noqa: RUF009 - `key` makes a field of a dataclass, like `dataclasses.field`
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from weir.language.problem import Log, choose
from weir.language.scalars import BOOLEAN, DURATION, Choice, Definitions, Integer, Text
from weir.language.spec import Kind, ListOf, OneOf, Struct, key
from weir.language.tree import Node, Scalar, describe

from ._lang_web import Web
from ._lang_workload import Bulk, Cbr, Datagrams, OnOff, Transfer, Workload

__all__ = ["VARIABLES", "WORKLOAD", "Command", "Iperf3", "ReadyAfter", "ReadyOutput", "ReadyPort"]

VARIABLES = {
    "WEIR_PEER": "address of the other end",
    "WEIR_PORT": "port of the flow at the peer: connections with it are the flow's",
    "WEIR_HOST": "address of this end",
    "WEIR_CC": "the kernel's name of the flow's congestion control",
    "WEIR_FLOW": "name of the flow",
    "WEIR_SECONDS": "whole seconds from its start to its stop, rounded up",
}
"""Variables in the arguments of a program, also set in its environment."""

_REFERENCE = re.compile(r"\$\{(WEIR_[A-Za-z0-9_]*)\}?")


class _ArgumentType:
    """Text, or a plain number; variables must be known."""

    what = "an argument: text or a number"
    _most = 4096

    def parse(self, node: Node, log: Log) -> str:
        if not isinstance(node, Scalar) or node.null:
            raise log.error(node.mark, f"expected {self.what}, found {describe(node)}")
        if len(node.text) > self._most or "\0" in node.text:
            raise log.error(node.mark, f"an argument has at most {self._most} characters, none of them NUL")
        for match in _REFERENCE.finditer(node.text):
            if match[1] not in VARIABLES or not match[0].endswith("}"):
                hint = choose(match[1], VARIABLES)
                raise log.error(node.mark, f"`{match[0]}` stands for nothing{hint}")
        return node.text

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "maxLength": self._most}, {"type": "number"}, {"type": "boolean"}]}


_ARGUMENTS = ListOf(_ArgumentType(), 1, 1000)


class _CommandType:
    what = "a program and its arguments, a list such as `[curl, http://${WEIR_PEER}:${WEIR_PORT}/]`"

    def parse(self, node: Node, log: Log) -> tuple[str, ...]:
        if isinstance(node, Scalar):
            raise log.error(node.mark, f"expected {self.what}, found {describe(node)}; no shell splits a line")
        arguments = _ARGUMENTS.parse(node, log)
        if not arguments[0]:
            raise log.error(node.mark, "the first word of a command must be the name of a program")
        return arguments

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return _ARGUMENTS.schema(defs)


_COMMAND = _CommandType()


@dataclass(frozen=True)
class ReadyPort:
    """The peer is ready when it listens on a port, TCP or UDP."""

    port: int


@dataclass(frozen=True)
class ReadyOutput:
    """The peer is ready when it has printed a line with this text."""

    text: str


@dataclass(frozen=True)
class ReadyAfter:
    """The peer is ready so long after its start."""

    time: int


@dataclass(frozen=True)
class _Wrapped:
    """A single value as one of the kinds of readiness."""

    what: str
    _type: Any
    _make: Any

    def parse(self, node: Node, log: Log) -> Any:
        return self._make(self._type.parse(node, log))

    def schema(self, defs: Definitions) -> dict[str, Any]:
        schema: dict[str, Any] = self._type.schema(defs)
        return schema


_PORT = Integer(1, 65_535, "a port")
_TEXT = Text("text", None, 1000)
_READY: OneOf[Any] = OneOf(
    "a way to be `ready`",
    {
        "port": _Wrapped(_PORT.what, _PORT, ReadyPort),
        "output": _Wrapped(_TEXT.what, _TEXT, ReadyOutput),
        "after": _Wrapped(DURATION.what, DURATION, ReadyAfter),
    },
    example="such as `{port: 8080}`",
)


@dataclass(frozen=True, kw_only=True)
class Command(Workload):
    """Any program at the sender, and one at the receiver if it needs one. Methods `lab` and `emul` only.

    TCP connections that have `${WEIR_PORT}` at an end are the flow.
    """

    command: tuple[str, ...] = key(
        _COMMAND,
        "The program and its arguments; it begins when the flow does and is told to end when the flow stops. "
        "`${WEIR_PEER}` and `${WEIR_PORT}` in them stand for the other end; no shell is involved.",
    )
    peer: tuple[str, ...] | None = key(
        _COMMAND, "The program at the other end, started before the run begins.", default=None
    )
    ready: Any = key(
        _READY,
        "When the peer is ready: when it listens on a port (`{port: 8080}`), has printed a line with some text "
        "(`{output: text}`), or this long after its start (`{after: 2s}`). Default: when it listens on `${WEIR_PORT}` "
        "if its arguments name that, otherwise at once.",
        default=None,
    )
    sender: str = key(
        Choice(
            "a sender",
            {"command": "the command, which is at the sender", "peer": "its peer: a download"},
        ),
        "Which of the two programs is at the sender. Default: `command`.",
        default="command",
    )


@dataclass(frozen=True, kw_only=True)
class Iperf3(Datagrams):
    """iperf3 from sender to receiver, over TCP or UDP: a client and a server for each stream.

    Methods `lab` and `emul` only. Settings of `transport` apply as far as iperf3 or Linux take them from outside.
    """

    udp: bool = key(BOOLEAN, "Datagrams at `rate` instead of TCP.", default=False)
    arguments: tuple[str, ...] = key(
        ListOf(_ArgumentType(), 1, 1000), "Further arguments of the client, such as `[--zerocopy]`.", default=()
    )
    program: str = key(
        Text("a program", "[^\\x00]+", 4096), "The program. Default: `iperf3` in PATH.", default="iperf3"
    )

    @property
    def udp_only(self) -> bool:
        return self.udp


WORKLOAD: Kind[Workload] = Kind(
    "a kind of workload",
    {
        "bulk": Struct(Bulk),
        "transfer": Struct(Transfer),
        "onoff": Struct(OnOff),
        "cbr": Struct(Cbr),
        "web": Struct(Web),
        "iperf3": Struct(Iperf3),
        "command": Struct(Command),
    },
)
