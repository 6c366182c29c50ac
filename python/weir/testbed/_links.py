"""The links of a test bed: the user's options in the words of the scenario language, and the emulator's plan.

Each node has a link to its site's router, and each pair of sites has a link of its own. The emulator gets a route for
each pair of nodes; there is no other flow in its plan.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weir import scenario
from weir.testbed._errors import TestbedError
from weir.testbed._shape import CONTROLLER, EXPERIMENT, LinkOptions, Shape

__all__ = ["Links", "compile_links"]

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
class Links:
    """What the options mean."""

    rtt_ns: int
    rate_bps: int
    access_bps: int
    mtu_bytes: int
    overhead_bytes: int
    plan: Mapping[str, Any]
    """The emulator's plan; node ``i`` of it is node ``i`` of the test bed."""


def compile_links(shape: Shape, options: LinkOptions, *, controller: bool = False, seed: int = 1) -> Links:
    """The links of a test bed of ``shape``.

    Args:
        shape: Its sites and nodes.
        options: What the user said of the links.
        controller: Whether this machine is one more host of the first site, after all nodes.
        seed: Of random losses.

    Raises:
        TestbedError: an option is wrong; the message names each.
    """
    given = {part: getattr(options, part) for part in _PLACES if getattr(options, part) is not None}
    overrides = {f"{_DUMBBELL}.{_PLACES[part]}": value for part, value in given.items()}
    if options.loss is not None:
        overrides[f"{_DUMBBELL}.reverse.loss"] = options.loss
    try:
        compiled = scenario.parse(_SCENARIO.format(seed=seed), "weir testbed", overrides=overrides).cells()[0].plan()
    except scenario.ScenarioError as error:
        raise TestbedError(_explain(error)) from error
    links = {link["name"]: link for link in compiled["links"]}
    trunk, access = links["bottleneck"], links["src0->left"]
    delay_ns = trunk["delay"]["delay_ns"] + 2 * access["delay"]["delay_ns"]
    return Links(
        rtt_ns=2 * delay_ns,
        rate_bps=trunk["rate_bps"],
        access_bps=access["rate_bps"],
        mtu_bytes=access["mtu_bytes"],
        overhead_bytes=access["overhead_bytes"],
        plan=_plan(shape, compiled, links, controller=controller),
    )


def _explain(error: scenario.ScenarioError) -> str:
    """Each problem once, under the name of its option."""
    names = {f"--set {_DUMBBELL}.{place}": part for part, place in _PLACES.items()}
    names[f"--set {_DUMBBELL}.reverse.loss"] = "loss"
    problems = (problem for problem in error.problems if problem.severity == "error")
    return "\n".join(dict.fromkeys(f"--{names.get(p.file, 'rtt')}: {p.message}" for p in problems))


def _plan(
    shape: Shape, compiled: Mapping[str, Any], links: Mapping[str, Mapping[str, Any]], *, controller: bool
) -> dict[str, Any]:
    """A plan with every node, the routers of the sites after them, and a route between any two nodes."""
    site_of = [site for site in range(shape.sites) for _ in range(shape.nodes)]
    hosts = [node.name for node in shape.lay_out(EXPERIMENT)]
    if controller:
        site_of.append(0)
        hosts.append(CONTROLLER)
    count = len(hosts)
    up: list[dict[str, Any]] = []
    for node, site in enumerate(site_of):
        router = count + site
        up.append({**links["src0->left"], "name": f"{node}.up", "from": node, "to": router})
        up.append({**links["left->src0"], "name": f"{node}.down", "from": router, "to": node})
    between: dict[tuple[int, int], int] = {}
    for one, other in itertools.combinations(range(shape.sites), 2):
        for (a, b), like in (((one, other), "bottleneck"), ((other, one), "bottleneck.reverse")):
            between[a, b] = len(up)
            up.append({**links[like], "name": f"{a}->{b}", "from": count + a, "to": count + b})

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
