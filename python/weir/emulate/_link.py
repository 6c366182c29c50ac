"""The emulated link: the user's options, in the words of the scenario language, and the resulting plan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from weir import scenario

__all__ = ["LinkOptions", "OptionError", "plan"]

DOWN = 1
"""Index of the link from the peer in the plan; the other is 0."""

_SCENARIO = """
title: weir emulate
seed: {seed}
duration: 1s
topology:
  dumbbell:
    pairs: 1
    access: {{rate: 100Tbps}}
    bottleneck: {{rate: 10Gbps, delay: 0ms, queue: 1000packets}}
transport: {{cc: cubic}}
workload:
  - {{name: any, between: pairs, kind: command, command: [any], start: 0s}}
"""
END_NS = 10 * 365 * 86_400 * 10**9
"""Never: it is stopped explicitly."""
_TOPOLOGY = "topology.dumbbell"
_DIRECTIONS = {"up": "bottleneck", "down": "reverse"}
_OWN_NAMES = re.compile(r" of link `bottleneck(\.reverse)?`")
"""What messages call the links of this scenario, which the user has not written."""


class OptionError(ValueError):
    """An option of the link is wrong; the message names each option, what is wrong and what was expected."""


@dataclass(frozen=True)
class LinkOptions:
    """One direction of the link, each part as text of the scenario language; ``None``: not given."""

    rate: str | None = None
    """Rate of the transmitter, such as ``1Gbps``; 10 Gb/s."""
    delay: str | None = None
    """One-way delay, such as ``50ms``; none."""
    queue: str | None = None
    """A size such as ``0.5bdp`` or a discipline such as ``{fq_codel: {ecn: true}}``; 1000 packets."""
    loss: str | None = None
    """A probability such as ``1%``, or a model such as ``{list: [7]}``; none."""
    jitter: str | None = None
    """Such as ``{deviation: 1ms}``; none."""
    reorder: str | None = None
    """Such as ``{probability: 1%, extra: 5ms}``; none."""

    def over(self, other: LinkOptions) -> LinkOptions:
        """These options, completed by those of ``other``."""
        values = {f.name: getattr(self, f.name) or getattr(other, f.name) for f in fields(self)}
        return LinkOptions(**values)

    def said(self) -> Iterator[tuple[str, str]]:
        """Name and text of each given option."""
        for part in fields(self):
            value = getattr(self, part.name)
            if value is not None:
                yield part.name, value


def plan(
    up: LinkOptions,
    down: LinkOptions,
    *,
    mtu: str = "1500B",
    overhead: str = "38B",
    bins_ns: int = 100_000_000,
    seed: int = 1,
) -> dict[str, Any]:
    """The plan of two hosts, 0 and 1, and a link each way: 0 is ``up``, 1 is ``down``.

    The bandwidth-delay product of a queue is that of its direction's rate and the round-trip time.

    Raises:
        OptionError: an option is wrong.
    """
    overrides = {f"{_TOPOLOGY}.mtu": mtu, f"{_TOPOLOGY}.overhead": overhead}
    for name, options in (("up", up), ("down", down)):
        overrides |= {f"{_TOPOLOGY}.{_DIRECTIONS[name]}.{part}": value for part, value in options.said()}
    text = _SCENARIO.format(seed=seed)
    try:
        compiled = scenario.parse(text, "weir emulate", overrides=overrides).cells()[0].plan()
    except scenario.ScenarioError as error:
        raise OptionError(_explain(error, up, down)) from error
    return _two_hosts(compiled, bins_ns)


def _explain(error: scenario.ScenarioError, up: LinkOptions, down: LinkOptions) -> str:
    """Each problem once, under the name of its option."""
    same = {part for part, value in up.said() if getattr(down, part) == value}
    lines: dict[str, None] = {}
    for problem in (p for p in error.problems if p.severity == "error"):
        way, _, part = problem.file.removeprefix(f"--set {_TOPOLOGY}.").rpartition(".")
        named = next((name for name, place in _DIRECTIONS.items() if place == way), None)
        option = f"--{named}-{part}" if named and part not in same else f"--{part}"
        lines[f"{option}: {_OWN_NAMES.sub('', problem.message)}"] = None
    return "\n".join(lines)


def _two_hosts(compiled: Mapping[str, Any], bins_ns: int) -> dict[str, Any]:
    """The shared link of the dumbbell alone, between its hosts; the access links go."""
    hosts = [{"name": "here", "kind": "host"}, {"name": "peer", "kind": "host"}]
    shared = {link["name"]: link for link in compiled["links"]}
    up = {**shared["bottleneck"], "name": "up", "from": 0, "to": 1}
    down = {**shared["bottleneck.reverse"], "name": "down", "from": 1, "to": 0}
    flow = {**compiled["flows"][0], "from": 0, "to": 1, "path": [0], "reverse_path": [DOWN]}
    measure = {"goodput_ns": 0, "tcp_ns": 0, "links_ns": bins_ns, "links": [0, DOWN], "trace": None}
    return {
        **compiled,
        "end_ns": END_NS,
        "nodes": hosts,
        "links": [up, down],
        "flows": [flow],
        "measure": measure,
        "phases": [],
    }
