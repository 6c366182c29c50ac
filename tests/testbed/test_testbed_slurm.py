"""``weir testbed up --slurm``: a real Slurm over a test bed, by which its inventory reserves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from testbed_support import NOTHING, Traces, new_since

from shared import Weir, called
from weir import inventory, testbed
from weir.inventory.reserved import reserved
from weir.testbed import Bed, slurm

pytestmark = [pytest.mark.bed, pytest.mark.skipif(bool(slurm.missing()), reason=f"there is no {slurm.missing()}")]


@pytest.fixture(scope="module")
def bed(state: Path) -> Iterator[Bed]:
    before = Traces.now()
    made = called("testbed", "up", "--sites", "2", "--nodes", "2", "--slurm", "--name", "slurm")
    assert made.code == 0, made.err
    found = testbed.find("slurm")
    assert found is not None
    yield found
    assert called("testbed", "down", "--name", "slurm").code == 0
    assert new_since(before) == NOTHING, "its daemons and jobs are gone"
    assert not [*(state / "weir" / "reservations").glob("*")], "and what they had reserved is forgotten"


def test_slurm_has_a_partition_for_each_site(bed: Bed) -> None:
    said = bed.run("b2", ["sinfo", "--noheader", "--Node", "--format=%P %N %o %T"]).out.decode()
    assert [line.split() for line in said.splitlines()] == [
        ["A*", "a1", bed.node("a1").control, "idle"],
        ["A*", "a2", bed.node("a2").control, "idle"],
        ["B", "b1", bed.node("b1").control, "idle"],
        ["B", "b2", bed.node("b2").control, "idle"],
    ]


def test_a_job_runs_on_the_nodes(bed: Bed) -> None:
    ran = bed.run("a1", ["srun", "--partition=B", "--nodes=2", "hostname"])
    assert sorted(ran.out.decode().split()) == ["b1", "b2"], ran.err


def test_the_inventory_reserves_through_the_front_end(bed: Bed) -> None:
    machines = inventory.load(bed.inventory)
    assert machines.nodes == ()
    with reserved(machines, patience_s=60) as held:
        assert {alias: [node.name for node in each.nodes] for alias, each in held.sets.items()} == {
            "A": ["a1", "a2"],
            "B": ["b1", "b2"],
        }
        assert held.sets["B"].nodes[1].address == bed.node("b2").control
        assert held.sets["B"].nodes[1].key == str(bed.key)
        jobs = bed.run("a1", ["squeue", "--noheader", "--format=%P %N"]).out.decode()
        assert sorted(jobs.splitlines()) == ["A a[1-2]", "B b[1-2]"]
    assert bed.run("a1", ["squeue", "--noheader", "--states=PD,R"]).out == b""


SCENARIO = """\
title: Two transfers on nodes of a cluster
seed: 1
duration: 1s
topology:
  dumbbell: {pairs: 2, access: {rate: 1Gbps}, bottleneck: {rate: 10Mbps, queue: 1bdp}, rtt: 18ms}
transport: {cc: cubic}
workload:
  - {name: bulk, between: pairs, kind: bulk, start: 0s}
"""


def test_a_run_reserves_and_releases(bed: Bed, weir: Weir, tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(SCENARIO)
    every = bed.run("a1", ["squeue", "--noheader", "--states=all", "--format=%i"]).out
    earlier = {int(number) for number in every.split()}
    ran = weir("run", file, "--on", bed.inventory, "--out", tmp_path / "run", "--no-report")
    assert ran.code == 0, ran.err
    every = bed.run("a1", ["squeue", "--noheader", "--states=all", "--format=%i %j %T"]).out.decode()
    jobs = {
        int(number): state for number, name, state in map(str.split, every.splitlines()) if name.startswith("weir-")
    }
    assert len({*jobs} - earlier) == 2, "a job for each set"
    assert {jobs[number] for number in {*jobs} - earlier} == {"CANCELLED"}, "released when the run has ended"
    assert (tmp_path / "run" / "manifest.json").exists(), "the run is complete"


def test_the_plain_inventory_is_beside_it(bed: Bed) -> None:
    plain = inventory.load(bed.folder / slurm.NODES)
    assert [node.name for node in plain.nodes] == ["a1", "a2", "b1", "b2"]


def test_what_is_kept_when_the_test_bed_ends_is_forgotten(bed: Bed, weir: Weir) -> None:
    ran = weir("hosts", "reserve", bed.inventory, "--json")
    assert [one["state"] for one in ran.json["reservations"]] == ["active", "active"]


def test_a_machine_without_slurm_is_told_so(weir: Weir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "PROGRAMS", ("munged", "no-such-program"))
    ran = weir("testbed", "up", "--slurm", "--name", "other")
    assert ran.code == 2
    assert "no-such-program: install slurmctld, slurmd and munge" in ran.err
    assert testbed.find("other") is None
