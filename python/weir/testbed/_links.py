"""The links of a test bed: the user's options in the words of the scenario language, and the emulator's plan.

Each node has a link to its site's router, and each pair of sites has a link of its own. The emulator gets a route for
each pair of nodes; there is no other flow in its plan.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir import scenario
from weir.testbed._errors import TestbedError
from weir.testbed._link_file import Pair, read_links
from weir.testbed._shape import CONTROLLER, EXPERIMENT, LinkOptions, Shape

__all__ = ["Links", "Trunk", "compile_links"]

_SCENARIO = """
title: weir testbed
seed: {seed}
duration: 1s
topology:
  dumbbell:
    pairs: 1
    access: {{rate: 1Gbps}}
    bottleneck: {{rate: 1Gbps, queue: 1bdp}}
    rtt: 18ms
transport: {{cc: cubic}}
workload:
  - {{name: any, between: pairs, kind: cbr, rate: 1Mbps, start: 0s}}
"""
_END_NS = 10 * 365 * 86_400 * 10**9
"""Never: it is stopped explicitly."""
_DUMBBELL = "topology.dumbbell"
_PLACES = {
    "rtt": "rtt",
    "rate": "bottleneck.rate",
    "queue": "bottleneck.queue",
    "loss": "bottleneck.loss",
    "access": "access.rate",
    "mtu": "mtu",
}
"""By option: its place in the dumbbell."""


@dataclass(frozen=True)
class Trunk:
    """The link between two sites."""

    between: Pair
    rtt_ns: int
    """Between nodes of the two sites, with the links of these nodes."""
    rate_bps: int
    there: Mapping[str, Any]
    """The link of a plan from the first site to the second; its ends are to be set."""
    back: Mapping[str, Any]


@dataclass(frozen=True)
class Links:
    """What the options mean."""

    trunks: tuple[Trunk, ...]
    access_bps: int
    mtu_bytes: int
    overhead_bytes: int
    plan: Mapping[str, Any]
    """The emulator's plan; node ``i`` of it is node ``i`` of the test bed."""


def compile_links(
    shape: Shape, options: LinkOptions, file: Path | None = None, *, controller: bool = False, seed: int = 1
) -> Links:
    """The links of a test bed of ``shape``.

    Args:
        shape: Its sites and nodes.
        options: What the user said of the links.
        file: Says more of single pairs of sites.
        controller: Whether this machine is one more host of the first site, after all nodes.
        seed: Of random losses.

    Raises:
        TestbedError: an option or the file is wrong; the message names each mistake.
    """
    if problems := _problems(options):
        raise TestbedError("\n".join(f"--{part}: {text}" for part, text in problems.items()))
    single = {} if file is None else read_links(file, shape, options, _problems)
    compiled = {each: _compile(each, seed) for each in {options, *single.values()}}
    trunks = tuple(_trunk(pair, compiled[single.get(pair, options)]) for pair in itertools.combinations(shape.sets, 2))
    access = _named(compiled[options])["src0->left"]
    return Links(
        trunks=trunks,
        access_bps=access["rate_bps"],
        mtu_bytes=access["mtu_bytes"],
        overhead_bytes=access["overhead_bytes"],
        plan=_plan(shape, compiled[options], trunks, controller=controller),
    )


def _compile(options: LinkOptions, seed: int) -> Mapping[str, Any]:
    """The plan of two hosts, one at each of two sites.

    Raises:
        weir.scenario.ScenarioError: an option is wrong.
    """
    given = {part: getattr(options, part) for part in _PLACES if getattr(options, part) is not None}
    overrides = {f"{_DUMBBELL}.{_PLACES[part]}": value for part, value in given.items()}
    if options.loss is not None:
        overrides[f"{_DUMBBELL}.reverse.loss"] = options.loss
    parsed = scenario.parse(_SCENARIO.format(seed=seed), "weir testbed", overrides=overrides)
    return parsed.cells()[0].plan()


def _problems(options: LinkOptions) -> dict[str, str]:
    """What is wrong, by option."""
    names = {f"--set {_DUMBBELL}.{place}": part for part, place in _PLACES.items()}
    names[f"--set {_DUMBBELL}.reverse.loss"] = "loss"
    try:
        _compile(options, 1)
    except scenario.ScenarioError as error:
        found: dict[str, str] = {}
        for problem in error.problems:
            if problem.severity == "error":
                found.setdefault(names.get(problem.file, "rtt"), problem.message)
        return found
    return {}


def _named(compiled: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {link["name"]: link for link in compiled["links"]}


def _trunk(pair: Pair, compiled: Mapping[str, Any]) -> Trunk:
    links = _named(compiled)
    trunk, access = links["bottleneck"], links["src0->left"]
    delay_ns = trunk["delay"]["delay_ns"] + 2 * access["delay"]["delay_ns"]
    return Trunk(pair, 2 * delay_ns, trunk["rate_bps"], trunk, links["bottleneck.reverse"])


def _plan(shape: Shape, compiled: Mapping[str, Any], trunks: Sequence[Trunk], *, controller: bool) -> dict[str, Any]:
    """A plan with every node, the routers of the sites after them, and a route between any two nodes."""
    site_of = [site for site in range(shape.sites) for _ in range(shape.nodes)]
    hosts = [node.name for node in shape.lay_out(EXPERIMENT)]
    if controller:
        site_of.append(0)
        hosts.append(CONTROLLER)
    count = len(hosts)
    links = _named(compiled)
    up: list[dict[str, Any]] = []
    for node, site in enumerate(site_of):
        router = count + site
        up.append({**links["src0->left"], "name": f"{node}.up", "from": node, "to": router})
        up.append({**links["left->src0"], "name": f"{node}.down", "from": router, "to": node})
    between: dict[tuple[int, int], int] = {}
    for trunk in trunks:
        one, other = (shape.sets.index(site) for site in trunk.between)
        for (a, b), like in (((one, other), trunk.there), ((other, one), trunk.back)):
            between[a, b] = len(up)
            up.append({**like, "name": f"{a}->{b}", "from": count + a, "to": count + b})

    def path(a: int, b: int) -> list[int]:
        sites = (site_of[a], site_of[b])
        return [2 * a, *([] if sites[0] == sites[1] else [between[sites]]), 2 * b + 1]

    flow = compiled["flows"][0]
    pairs = itertools.combinations(range(count), 2)
    flows = [
        {**flow, "name": f"any[{i}]", "index": i, "from": a, "to": b, "path": path(a, b), "reverse_path": path(b, a)}
        for i, (a, b) in enumerate(pairs)
    ]
    return {
        **compiled,
        "end_ns": _END_NS,
        "nodes": [
            *({"name": name, "kind": "host"} for name in hosts),
            *({"name": f"router-{name.lower()}", "kind": "router"} for name in shape.sets),
        ],
        "links": up,
        "flows": flows,
        "measure": {"goodput_ns": 0, "tcp_ns": 0, "links_ns": 0, "links": [], "trace": None},
        "phases": [],
    }
