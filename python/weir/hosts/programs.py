"""Programs as workload: their settings in Linux, their files in the cell, and settings that they cannot get.

A program opens its own sockets. The plan's settings of its flow are made around it: the congestion control and the
segment size by the route between the two hosts; buffers, SACK, timestamps and ECN by the host's parameters, which all
flows of the host share (:mod:`weir.hosts.wiring`). iperf3 takes some of them as arguments.

Pure except for :class:`Remains`; ``lab`` uses the same.
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol

from weir._errors import MethodError
from weir.hosts.congestion import label
from weir.hosts.messages import File, FrameError, Message
from weir.hosts.wiring import Command, Wiring
from weir.plan import CommandSource, Flow, Plan, TcpTransport, option_bytes, packet_bytes, tcp_flows

__all__ = ["Remains", "files_of", "programs", "require_settings", "routes"]


def programs(plan: Plan) -> list[Flow]:
    """The flows of ``plan`` whose traffic comes from programs."""
    return [flow for flow in plan.flows if isinstance(flow.source, CommandSource)]


def routes(plan: Plan, wiring: Wiring, names: Mapping[str, str]) -> list[Command]:
    """Commands that give connections between hosts with programs the settings they cannot ask for; after those of
    ``wiring``.

    ``names`` are the kernel's names of the congestion controls, by label.

    Raises:
        MethodError: flows between the same two hosts ask for different congestion controls or segment sizes.
    """
    more: defaultdict[tuple[int, int], dict[str, str]] = defaultdict(dict)
    for flow, tcp in tcp_flows(plan):
        if not isinstance(flow.source, CommandSource) or flow.source.report is not None:
            continue  # iperf3 gets it by its arguments
        way, back = (flow.from_, flow.to), (flow.to, flow.from_)
        # Only DCTCP answers an ECN-capable request with ECN, and echoes marks as DCTCP counts them.
        for pair in (way, back) if tcp.ecn else (way,):
            _check_alike(plan, flow, tcp, pair)
            more[pair]["congctl"] = names[label(tcp)]
        if packet_bytes(tcp) < min(wiring.host(node).mtu_bytes for node in way):
            more[back]["advmss"] = str(tcp.mss_bytes + option_bytes(tcp))
    return [
        _replaced(wiring, here, there, [*itertools.chain.from_iterable(words.items())])
        for (here, there), words in more.items()
    ]


_ALIKE: Sequence[tuple[str, Callable[[TcpTransport], object]]] = (
    ("congestion control", label),
    ("segment size", lambda tcp: tcp.mss_bytes),
)


def _check_alike(plan: Plan, flow: Flow, tcp: TcpTransport, pair: tuple[int, int]) -> None:
    """Raises MethodError if a flow between the hosts ``pair`` needs another route than ``flow``, which has ``tcp``."""
    for other, its in tcp_flows(plan):
        if (other.from_, other.to) != pair:
            continue
        for what, of in _ALIKE:
            if of(its) != of(tcp):
                raise MethodError(
                    f"flows {flow.name} and {other.name} between the same two hosts differ in their {what} "
                    f"({of(tcp)} and {of(its)}): a program gets it from the route between them, which is one for "
                    "all. Give them hosts of their own"
                )


def _replaced(wiring: Wiring, here: int, there: int, words: Sequence[str]) -> Command:
    """The command that made the route from ``here`` to ``there``, with ``words`` appended."""
    namespace, target = wiring.host(here).namespace, f"{wiring.host(there).address}/32"
    start = ("ip", "-n", namespace, "route")
    made = next(
        (c for c in wiring.up if c[:6] == (*start, "add", target)),
        (*start, "add", target, "dev", wiring.host(here).device),
    )
    return (*start, "replace", *made[5:], *words)


def require_settings(plan: Plan) -> None:
    """Verifies that every program of ``plan`` can get its flow's settings.

    Raises:
        MethodError: one cannot get a setting from outside; the message names it, and the remedy.
    """
    for flow in programs(plan):
        for what in _lacking(flow):
            raise MethodError(
                f"flow {flow.name}: {what}: a program cannot be told so from outside. Leave it to the program's own "
                f"arguments, and give the flow none in the scenario"
            )
    for problem in _unlike_buffers(plan):
        raise MethodError(problem)


def _lacking(flow: Flow) -> Iterator[str]:
    if isinstance(flow.transport, TcpTransport) and flow.transport.pacing:
        yield "pacing"
    if flow.dscp and isinstance(flow.source, CommandSource) and flow.source.report is None:
        yield f"code point {flow.dscp} (dscp)"


_BUFFERS: Sequence[tuple[str, Callable[[Flow], int], Callable[[TcpTransport], int]]] = (
    ("send_buffer_bytes", lambda flow: flow.from_, lambda tcp: tcp.send_buffer_bytes),
    ("receive_buffer_bytes", lambda flow: flow.to, lambda tcp: tcp.receive_buffer_bytes),
)
"""Each buffer of a flow: its name, the node where it is, its size."""


def _unlike_buffers(plan: Plan) -> Iterator[str]:
    """Finds hosts that need several buffer sizes: a host has one size for all programs."""
    for name, node, size in _BUFFERS:
        most: defaultdict[int, int] = defaultdict(int)
        for flow, tcp in tcp_flows(plan):
            most[node(flow)] = max(most[node(flow)], size(tcp))
        for flow, tcp in tcp_flows(plan):
            if isinstance(flow.source, CommandSource) and size(tcp) < most[node(flow)]:
                yield (
                    f"flow {flow.name}: {name} of {size(tcp)} bytes: a program has the buffers of its host, which are "
                    f"{most[node(flow)]} bytes for another flow there. Give the flow hosts of its own"
                )


_SHOWN = 80


class Files(Protocol):
    """Where files of a cell go, such as a :class:`weir.methods.Sink`."""

    def open(self, name: str) -> BinaryIO:
        """Opens the file ``name`` for writing, and closes it in the end.

        Raises:
            OSError: it cannot be created.
        """


def files_of(plan: Plan) -> frozenset[str]:
    """Names of the files that the programs of ``plan`` can leave (``crates/weir-agent/src/program_end.rs``)."""
    return frozenset(
        f"commands/{flow.name}{peer}.{kind}"
        for flow in programs(plan)
        for peer in ("", ".peer")
        for kind in ("out", "json", "err")
    )


@dataclass
class Remains:
    """Files with the programs' output, and how each program ended."""

    files: list[File] = field(default_factory=list)
    ended: list[Message] = field(default_factory=list)
    expected: frozenset[str] | None = None
    """Possible names of the files (:func:`files_of`); ``None``: any."""

    def take(self, file: File) -> None:
        """Takes a file.

        Raises:
            FrameError: no program leaves such a file.
        """
        known = self.expected is None or file.name in self.expected
        if not known or any(file.name == other.name for other in self.files):
            raise FrameError(f"a file {file.name[:_SHOWN]!r}, which no program of the plan leaves")
        self.files.append(file)

    def note(self, ended: Message) -> None:
        """Records the end of a program.

        Raises:
            FrameError: more have ended than there are.
        """
        if self.expected is not None and len(self.ended) >= len(self.expected):
            raise FrameError("more programs ended than the plan has")
        self.ended.append(ended)

    def keep(self, sink: Files) -> None:
        """Writes everything into the cell: ``commands/NAME.out`` and so on, and ``commands.json``."""
        for file in self.files:
            sink.open(file.name).write(file.content)
        if self.ended:
            facts = [{key: value for key, value in what.items() if key != "message"} for what in self.ended]
            facts.sort(key=lambda fact: (fact["flow"], fact["peer"]))
            sink.open("commands.json").write((json.dumps(facts, indent=2) + "\n").encode())
