"""The emulated switch: its plan, and the measurements of its ports."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from weir import scenario
from weir.hosts.messages import Frame

from ._link import END_NS, OptionError
from ._tally import Direction, emulator_lines

__all__ = ["Pair", "Port", "SwitchReport", "SwitchTally", "switch_plan"]

MAX_PORTS = 64
"""Each has a real-time share of one process; the kernel's interfaces of a machine are fewer."""
_SCENARIO = """
title: weir emulate
seed: {seed}
duration: 1s
topology:
  star:
    hosts: {ports}
    access: {{rate: 1Gbps, delay: 0ms, queue: 1000packets}}
    switch: fair
transport: {{cc: cubic}}
workload:
  - {{name: any, between: [h0, h1], kind: command, command: [any], start: 0s}}
"""
_TOPOLOGY = "topology.star"


def switch_plan(
    switch: str,
    ports: int,
    *,
    rate: str,
    queue: str = "1000packets",
    mtu: str = "1500B",
    overhead: str = "38B",
    bins_ns: int = 100_000_000,
    seed: int = 1,
) -> dict[str, Any]:
    """The plan of a switch with ``ports`` ports, each with a host and a link either way.

    Args:
        switch: A preset, or a file with the keys of a scenario's ``switch``.
        ports: Two at least.
        rate: Of all ports, such as ``1Gbps``.
        queue: What waits before a port because it comes faster than ``rate``, as in the card of a sender.
        mtu: Largest IP packet.
        overhead: Bytes that an IP packet has besides on the wire.
        bins_ns: Interval of the statistics.
        seed: Of random choices.

    Raises:
        OptionError: an option is wrong, or there is no such switch.
    """
    if not 2 <= ports <= MAX_PORTS:
        raise OptionError(f"--between: a switch needs 2 to {MAX_PORTS} interfaces, found {ports}")
    word = {"file": str(Path(switch).absolute())} if scenario.is_switch_file(switch) else switch
    named = {"switch": "switch", "access.rate": "rate", "access.queue": "queue", "mtu": "mtu", "overhead": "overhead"}
    values = {"switch": json.dumps(word), "access.rate": rate, "access.queue": queue, "mtu": mtu, "overhead": overhead}
    overrides = {f"{_TOPOLOGY}.{key}": value for key, value in values.items()}
    text = _SCENARIO.format(seed=seed, ports=ports)
    try:
        compiled = scenario.parse(text, "weir emulate", overrides=overrides).cells()[0].plan()
    except scenario.ScenarioError as error:
        lines: dict[str, None] = {}
        for problem in (problem for problem in error.problems if problem.severity == "error"):
            option = named.get(problem.file.removeprefix(f"--set {_TOPOLOGY}."))
            lines[f"--{option}: {problem.message}" if option else f"--switch: {problem}"] = None
        raise OptionError("\n".join(lines)) from error
    return _between_all(compiled, bins_ns)


def _between_all(compiled: Mapping[str, Any], bins_ns: int) -> dict[str, Any]:
    """A route between any two hosts; a card before a port drops what does not fit its queue."""
    hosts = [number for number, node in enumerate(compiled["nodes"]) if node["kind"] == "host"]
    links = [{**link, "host_nic": False} for link in compiled["links"]]
    up = {link["from"]: number for number, link in enumerate(links) if link["from"] in hosts}
    down = {link["to"]: number for number, link in enumerate(links) if link["to"] in hosts}
    flows = [
        {
            **compiled["flows"][0],
            "name": f"any[{number}]", "index": number, "from": one, "to": other,
            "path": [up[one], down[other]], "reverse_path": [up[other], down[one]],
        }
        for number, (one, other) in enumerate(combinations(hosts, 2))
    ]  # fmt: skip
    measure = {"goodput_ns": 0, "tcp_ns": 0, "links_ns": bins_ns, "links": list(range(len(links))), "trace": None}
    return {**compiled, "end_ns": END_NS, "links": links, "flows": flows, "measure": measure, "phases": []}


@dataclass
class Port:
    """A port from beginning to end."""

    interface: str
    received: Direction = field(default_factory=Direction)
    """Into the switch. ``dropped`` came faster than the port's rate and did not fit the queue before it."""
    sent: Direction = field(default_factory=Direction)
    """Out of the switch. ``dropped`` found no memory there. Its queue is empty: packets wait in the memory, by pair."""


@dataclass
class Pair:
    """What passed from one port to another: the columns of table ``ports``, summed up."""

    input: str
    output: str
    in_packets: int = 0
    in_bytes: int = 0
    out_packets: int = 0
    out_bytes: int = 0
    drop_packets: int = 0
    drop_bytes: int = 0
    loss_runs: int = 0
    loss_run_max: int = 0
    service_runs: int = 0
    service_run_max: int = 0
    starved_max_ns: int = 0
    queue_max_bytes: int = 0

    def add(self, row: Mapping[str, int]) -> None:
        """Adds a row of table ``ports``."""
        for name in (name for name in vars(self) if name not in ("input", "output")):
            value = row[name]
            setattr(self, name, max(getattr(self, name), value) if "_max" in name else getattr(self, name) + value)

    def line(self) -> str:
        """Formats the pair for people."""
        share = self.drop_packets / max(self.in_packets, 1)
        return (
            f"{self.in_packets} packets, {self.drop_packets} dropped ({share:.2%}), at most {self.loss_run_max} in a "
            f"row; {self.service_runs} turns, longest {self.service_run_max}; at most "
            f"{self.starved_max_ns / 1e6:.2f} ms without service; at most {self.queue_max_bytes} B in the memory"
        )


@dataclass(frozen=True)
class SwitchReport:
    """The measurements of a switch."""

    seconds: float
    ports: Sequence[Port]
    pairs: Sequence[Pair]
    """Those between which packets passed."""
    stats: Mapping[str, float]
    """The emulator's statistics of itself; see ``crates/weir-emu/src/meter.rs``."""
    warnings: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """The report for programs."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """The report for people."""
        named = [(f"{port.interface} in", port.received.line(self.seconds)) for port in self.ports]
        named += [(f"{port.interface} out", port.sent.counts(self.seconds)) for port in self.ports]
        named += [(f"{pair.input} to {pair.output}", pair.line()) for pair in self.pairs]
        width = max(len(name) for name, _ in named)
        yield from (f"{name:<{width}}  {text}" for name, text in named)
        yield from emulator_lines(self.stats, self.warnings)


class SwitchTally:
    """Adds up tables as they come."""

    def __init__(self, interfaces: Sequence[str], plan: Mapping[str, Any]) -> None:
        """``interfaces`` are at the hosts of ``plan``, in their order."""
        hosts = [number for number, node in enumerate(plan["nodes"]) if node["kind"] == "host"]
        self._ports = [Port(name) for name in interfaces]
        self._pairs: dict[tuple[int, int], Pair] = {}
        """By output and input."""
        self._directions: dict[int, Direction] = {}
        self._named: dict[int, str] = {}
        for number, link in enumerate(plan["links"]):
            into = link["from"] in hosts
            port = self._ports[hosts.index(link["from"] if into else link["to"])]
            self._directions[number] = port.received if into else port.sent
            self._named[number] = port.interface

    def take(self, frame: Frame) -> None:
        """Adds the rows of ``frame``, if it is of table ``links`` or ``ports``."""
        if frame.table not in ("links", "ports"):
            return
        columns = {name: values.tolist() for name, values in frame.columns.items()}
        for index in range(frame.rows):
            row = {name: values[index] for name, values in columns.items()}
            if frame.table == "links":
                self._directions[row["link"]].add(row)
                continue
            way = row["output"], row["input"]
            if way not in self._pairs:
                self._pairs[way] = Pair(self._named[row["input"]], self._named[row["output"]])
            self._pairs[way].add(row)

    def report(self, seconds: float, stats: Mapping[str, float], warnings: Sequence[str]) -> SwitchReport:
        """The sum of all tables so far."""
        pairs = [self._pairs[way] for way in sorted(self._pairs)]
        return SwitchReport(seconds, self._ports, pairs, stats, tuple(warnings))
