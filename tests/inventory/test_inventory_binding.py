"""Nodes of an inventory in the place of the hosts of a scenario."""

from __future__ import annotations

import msgspec
import pytest

from weir import scenario
from weir.inventory import InventoryError, parse, roles_of
from weir.plan import Plan

DUMBBELL = """\
title: t
transport: {cc: reno}
topology:
  dumbbell: {pairs: 3, access: {rate: 1Gbps}, bottleneck: {rate: 100Mbps, queue: 100packets}, rtt: 20ms}
workload:
  - {name: bulk, kind: bulk, between: pairs, flows: 2}
duration: 5s
"""
STAR = """\
title: t
transport: {cc: reno}
topology:
  star: {hosts: 4, access: {rate: 1Gbps}, rtt: 1ms}
workload:
  - {name: incast, kind: bulk, between: {from: [h1, h2], to: h0}}
duration: 5s
"""
GRAPH = """\
title: t
transport: {cc: reno}
topology:
  graph:
    hosts: [client, server1, server2]
    routers: [mid]
    links:
      - {between: [client, mid], rate: 1Gbps}
      - {between: [server1, mid], rate: 1Gbps}
      - {between: [server2, mid], rate: 1Gbps}
workload:
  - {name: web, kind: bulk, between: {from: client, to: server2}}
duration: 5s
"""
SETS = "sets:\n  A: {nodes: ['a[1..5]']}\n  B: {nodes: ['b[1..5]']}\n"


def plan(text: str) -> Plan:
    return msgspec.convert(scenario.parse(text).cells()[0].plan(), Plan)


def names(inventory: str, text: str) -> dict[str, str]:
    """Names of nodes by names of hosts."""
    made = plan(text)
    return {made.nodes[host].name: node.name for host, node in parse(inventory).bind(made).items()}


def refused(inventory: str, text: str) -> list[str]:
    with pytest.raises(InventoryError) as error:
        parse(inventory, "it.yaml").bind(plan(text))
    return [str(problem) for problem in error.value.problems]


def test_the_ends_of_pairs() -> None:
    found = names(SETS + "roles: {sources: A, sinks: ['B[5]', 'B[2..4]']}", DUMBBELL)
    assert found == {"src0": "a1", "dst0": "b5", "src1": "a2", "dst1": "b2", "src2": "a3", "dst2": "b3"}


def test_fewer_nodes_suffice_if_the_other_hosts_have_no_flow() -> None:
    assert names(SETS + "roles: {sources: 'A[1..2]', sinks: 'A[3..4]'}", DUMBBELL) == {
        "src0": "a1",
        "src1": "a2",
        "dst0": "a3",
        "dst1": "a4",
    }


def test_hosts_of_a_star_and_of_a_graph() -> None:
    assert names(SETS + "roles: {hosts: A}", STAR) == {"h0": "a1", "h1": "a2", "h2": "a3", "h3": "a4"}
    assert names(SETS + "roles: {h0: B, 'h[1..2]': A}", STAR) == {"h0": "b1", "h1": "a1", "h2": "a2"}
    assert names(SETS + "roles: {incast.senders: A, incast.receivers: B}", STAR) == {
        "h1": "a1",
        "h2": "a2",
        "h0": "b1",
    }
    assert names(SETS + "roles: {client: A, server: B}", GRAPH) == {"client": "a1", "server1": "b1", "server2": "b2"}


def test_roles_of_a_plan() -> None:
    made = plan(DUMBBELL)
    roles = {role: [made.nodes[host].name for host in hosts] for role, hosts in roles_of(made).items()}
    assert roles["sources"] == roles["src"] == ["src0", "src1", "src2"]
    assert roles["sinks"] == roles["dst"] == ["dst0", "dst1", "dst2"]
    assert roles["bulk.senders"] == ["src0", "src1"]
    assert len(roles["hosts"]) == 6
    assert roles["dst1"] == ["dst1"]


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        ("{sources: 'A[1]', sinks: B}", ["4:18: `sources` has 2 hosts in this scenario, but 1 node"]),
        ("{source: A, sinks: B}", ["4:17: `source` is not a role of this scenario; did you mean `sources`?"]),
        ("{'sources[3]': A, sinks: B}", ["4:23: `sources[3]`: `sources` has the hosts 0 to 2 in this scenario"]),
        (
            "{sources: A, sinks: A}",
            [f"4:28: node `a{n + 1}` would be host `src{n}` and host `dst{n}`; a node is one host" for n in range(3)],
        ),
        (
            "{sources: A, sinks: 'B[1..3]', dst1: 'B[5]'}",
            ["4:45: host `dst1` has the roles `sinks` and `dst1`; give it one node"],
        ),
    ],
)
def test_what_cannot_be_bound(roles: str, expected: list[str]) -> None:
    assert refused(SETS + f"roles: {roles}", DUMBBELL) == [f"it.yaml:{line}" for line in expected]


def test_hosts_without_a_role() -> None:
    (found,) = refused(SETS, DUMBBELL)
    assert found.startswith("it.yaml:1:1: no role gives a node to `src0`, `dst0`, `src1` and `dst1`; ")
    assert "`sources`, `sinks`" in found


def test_nodes_that_are_not_reserved() -> None:
    inventory = (
        "sets:\n  A: {reserve: {by: slurm, nodes: 3, time: 1h}}\n  B: {nodes: 'b[1..3]'}\nroles:\n  sources: A\n"
    )
    inventory += "  sinks: B\n"
    assert refused(inventory, DUMBBELL) == ["it.yaml:5:12: `A` has no nodes yet: reserve them first"]
    found = parse(inventory)
    full = found.with_nodes("A", [found.sets["A"].node(f"n{n}") for n in range(3)])
    assert full.bind(plan(DUMBBELL))[plan(DUMBBELL).flows[0].from_].name == "n0"
