"""Programs as workload: what Linux is told for them, what they leave in the cell, and what cannot be asked of them.

A program opens its own sockets. What a plan asks of its flow is settled around it: the congestion control and the
segment size by the route between the two hosts, buffers, SACK, timestamps and ECN by the host's parameters, which all
flows of the host have (:mod:`weir.methods.emul._wiring`). iperf3 takes some of it as arguments.

Pure but for :class:`Remains`; ``lab`` uses the same.
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weir.methods import MethodError, Sink
from weir.methods.emul._congestion import label
from weir.methods.emul._frames import File, Message
from weir.methods.emul._wiring import Command, Wiring

__all__ = ["Remains", "programs", "require_settings", "routes"]

Flow = Mapping[str, Any]

_HEADERS = 40
_TIMESTAMPS = 12


def programs(plan: Mapping[str, Any]) -> list[Flow]:
    """The flows of ``plan`` whose traffic programs make."""
    return [flow for flow in plan["flows"] if flow["source"]["kind"] == "command"]


def routes(plan: Mapping[str, Any], wiring: Wiring, names: Mapping[str, str]) -> list[Command]:
    """Commands that give connections between hosts with programs what these cannot ask for; after those of ``wiring``.

    ``names`` are the kernel's names of the congestion controls, by label.

    Raises:
        MethodError: flows between the same two hosts ask for another congestion control or segment size.
    """
    more: defaultdict[tuple[int, int], dict[str, str]] = defaultdict(dict)
    for flow in programs(plan):
        if flow["source"]["report"] is not None or flow["transport"]["protocol"] != "tcp":
            continue  # iperf3 is told by its arguments
        way, back = (flow["from"], flow["to"]), (flow["to"], flow["from"])
        # What answers an ECN-capable request with ECN, and echoes marks as DCTCP counts them, is DCTCP itself.
        for pair in (way, back) if flow["transport"]["ecn"] else (way,):
            _check_alike(plan, flow, pair)
            more[pair]["congctl"] = names[label(flow)]
        segment = flow["transport"]["mss_bytes"] + (_TIMESTAMPS if flow["transport"]["timestamps"] else 0)
        if segment + _HEADERS < min(wiring.host(node).mtu_bytes for node in way):
            more[back]["advmss"] = str(segment)
    return [
        _replaced(wiring, here, there, [*itertools.chain.from_iterable(words.items())])
        for (here, there), words in more.items()
    ]


def _check_alike(plan: Mapping[str, Any], flow: Flow, pair: tuple[int, int]) -> None:
    """Raises MethodError if a flow between the hosts ``pair`` needs a route of its own."""
    for other in plan["flows"]:
        if (other["from"], other["to"]) != pair or other["transport"]["protocol"] != "tcp":
            continue
        for what, of in (("congestion control", label), ("segment size", _segment)):
            if of(other) != of(flow):
                raise MethodError(
                    f"flows {flow['name']} and {other['name']} between the same two hosts differ in their {what} "
                    f"({of(flow)} and {of(other)}): a program gets it from the route between them, which is one for "
                    "all. Give them hosts of their own"
                )


def _segment(flow: Flow) -> int:
    return int(flow["transport"]["mss_bytes"])


def _replaced(wiring: Wiring, here: int, there: int, words: Sequence[str]) -> Command:
    """The command that made the route from ``here`` to ``there``, with ``words`` in addition."""
    namespace, target = wiring.host(here).namespace, f"{wiring.host(there).address}/32"
    start = ("ip", "-n", namespace, "route")
    made = next(
        (c for c in wiring.up if c[:6] == (*start, "add", target)),
        (*start, "add", target, "dev", wiring.host(here).device),
    )
    return (*start, "replace", *made[5:], *words)


def require_settings(plan: Mapping[str, Any]) -> None:
    """Does nothing if every program of ``plan`` can be given what the plan asks for its flow.

    Raises:
        MethodError: one cannot be told something from outside; the message names it, and the way out.
    """
    for flow in programs(plan):
        for what in _lacking(flow):
            raise MethodError(
                f"flow {flow['name']}: {what}: a program cannot be told so from outside. Leave it to the program's own "
                f"arguments, and give the flow none in the scenario"
            )
    for problem in _unlike_buffers(plan):
        raise MethodError(problem)


def _lacking(flow: Flow) -> Iterator[str]:
    if flow["transport"].get("pacing"):
        yield "pacing"
    if flow["dscp"] and flow["source"]["report"] is None:
        yield f"code point {flow['dscp']} (dscp)"


def _unlike_buffers(plan: Mapping[str, Any]) -> Iterator[str]:
    """A host has one size of buffers for all programs."""
    for end, key in (("from", "send_buffer_bytes"), ("to", "receive_buffer_bytes")):
        most: dict[int, int] = {}
        for flow in plan["flows"]:
            most[flow[end]] = max(most.get(flow[end], 0), flow["transport"].get(key, 0))
        for flow in programs(plan):
            wanted = flow["transport"].get(key)
            if wanted is not None and wanted < most[flow[end]]:
                yield (
                    f"flow {flow['name']}: {key} of {wanted} bytes: a program has the buffers of its host, which are "
                    f"{most[flow[end]]} bytes for another flow there. Give the flow hosts of its own"
                )


@dataclass
class Remains:
    """What programs leave: files with what they printed, and how each ended."""

    files: list[File] = field(default_factory=list)
    ended: list[Message] = field(default_factory=list)

    def keep(self, sink: Sink) -> None:
        """Puts all of it into the cell: ``commands/NAME.out`` and so on, and ``commands.json``."""
        for file in self.files:
            sink.open(file.name).write(file.content)
        if self.ended:
            facts = [{key: value for key, value in what.items() if key != "message"} for what in self.ended]
            facts.sort(key=lambda fact: (fact["flow"], fact["peer"]))
            sink.open("commands.json").write((json.dumps(facts, indent=2) + "\n").encode())
