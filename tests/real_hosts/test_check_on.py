"""``weir check --on``: which node is which host, what is not measured, and where a mistake is. No node is asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shared import Weir, dumbbell

INVENTORY = """\
sets:
  A: {nodes: [{address: 10.9.0.1, name: a1}, {address: 10.9.0.2, name: a2}]}
  B: {nodes: [{address: 10.9.1.1, name: b1}, {address: 10.9.1.2, name: b2}]}
roles:
  sources: A
  sinks: B
"""
CLAIMS = """\
expect:
  - {claim: links are full, check: utilisation.mean >= 0.9, source: none}
  - {claim: flows are fast, check: goodput.mean >= 1Mbps, source: none}
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A scenario and an inventory."""
    scenario, inventory = tmp_path / "mix.yaml", tmp_path / "nodes.yaml"
    text = dumbbell(
        title="Mix",
        pairs=2,
        bottleneck="rate: 100Mbps, queue: 100packets",
        transport="cc: reno, stack: linux",
        workload="name: bulk, kind: bulk, between: pairs, until: 4s",
    )
    scenario.write_text(text + "sweep: {transport.cc: [reno, cubic]}\n" + CLAIMS)
    inventory.write_text(INVENTORY)
    return scenario, inventory


def test_nodes_in_the_place_of_hosts(weir: Weir, files: tuple[Path, Path]) -> None:
    scenario, inventory = files
    ran = weir("check", scenario, "--on", inventory)
    assert ran.code == 0, ran.err
    rows = [line.split() for line in ran.out.splitlines()]
    assert ["src0", "a1", "A", "10.9.0.1"] in rows
    assert ["dst1", "b2", "B", "10.9.1.2"] in rows
    assert "not measured there: one-way delays, links and their queues;" in ran.out


def test_only_claims_about_what_nobody_measures_are_undecided(weir: Weir, files: tuple[Path, Path]) -> None:
    scenario, inventory = files
    line = scenario.read_text().splitlines().index(CLAIMS.splitlines()[1]) + 1
    out = weir("check", scenario, "--on", inventory).out
    text = "method hosts cannot decide this claim: it does not measure links and their queues"
    assert f"{scenario}:{line}:1: info: {text}" in out
    assert out.count("cannot decide this claim") == 1
    assert "cannot decide this claim" not in weir("check", scenario).out


def test_for_programs(weir: Weir, files: tuple[Path, Path]) -> None:
    scenario, inventory = files
    told = json.loads(weir("check", scenario, "--on", inventory, "--json").out)
    (one,) = told["scenarios"]
    (placing,) = one["nodes"]
    assert placing["cells"] == ["0000-r0", "0001-r0"]
    assert {each["host"]: each["node"] for each in placing["hosts"]} == {
        "src0": "a1",
        "src1": "a2",
        "dst0": "b1",
        "dst1": "b2",
    }
    assert one["unmeasured"] == ["delay_bins", "delays", "links"]
    assert [problem["severity"] for problem in told["problems"]] == ["info"]


def test_cells_with_other_nodes_are_told_apart(weir: Weir, files: tuple[Path, Path]) -> None:
    scenario, inventory = files
    scenario.write_text(scenario.read_text().replace("transport.cc: [reno, cubic]", "topology.dumbbell.pairs: [1, 2]"))
    told = json.loads(weir("check", scenario, "--on", inventory, "--json").out)["scenarios"][0]["nodes"]
    assert [(placing["cells"], len(placing["hosts"])) for placing in told] == [(["0000-r0"], 2), (["0001-r0"], 4)]


def test_a_mistake_has_one_location_where_it_is(weir: Weir, files: tuple[Path, Path]) -> None:
    scenario, inventory = files
    inventory.write_text(INVENTORY.replace("sinks: B", "sinks: B[1]"))
    ran = weir("check", scenario, "--on", inventory)
    assert ran.code == 2
    (line,) = [line for line in ran.out.splitlines() if "sinks" in line]
    assert line == f"{inventory}:6:10: `sinks` has 2 hosts in this scenario, but 1 node"
