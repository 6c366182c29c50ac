"""``weir hosts reserve``, ``release`` and ``status`` with a real Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared import Weir
from slurm_support import Slurm, until
from weir import inventory
from weir.inventory.reserved import reserved

SETS = """\
sets:
  A: {reserve: {by: slurm, nodes: 1, time: 5min, partition: small}, user: root}
  B: {reserve: {by: slurm, nodes: 2, time: 5min, exclude: n1}}
  C: {nodes: [c1, c2]}
"""


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    file = tmp_path / "grid.yaml"
    file.write_text(SETS)
    return file


def test_nodes_are_kept_until_they_are_released(slurm: Slurm, grid: Path, weir: Weir) -> None:
    made = weir("hosts", "reserve", grid)
    assert made.code == 0, made.err
    assert "B: slurm" in made.err, "progress"
    rows = [line.split() for line in made.out.splitlines()]
    assert rows[0] == ["set", "by", "id", "state", "left", "nodes", "for"]
    assert [(row[0], row[3], row[5:-1]) for row in rows[1:]] == [
        ("A", "active", ["n1"]),
        ("B", "active", ["n2", "n3"]),
    ]
    names = sorted(slurm.jobs())
    assert len(names) == 2
    again = weir("hosts", "reserve", grid, "--json").json
    assert sorted(one["name"] for one in again["reservations"]) == names
    assert sorted(slurm.jobs()) == names, "what is reserved is not reserved again"
    assert weir("clean").code == 0
    assert sorted(slurm.jobs()) == names, "what is kept is in use"
    shown = weir("hosts", "status", grid, "--json").json["reservations"]
    assert {one["set"]: [node["name"] for node in one["nodes"]] for one in shown} == {"A": ["n1"], "B": ["n2", "n3"]}
    assert all(0 < one["left_s"] <= 300 for one in shown)
    assert len(weir("hosts", "release", grid, "--set", "A", "--json").json["released"]) == 1
    assert len(slurm.jobs()) == 1
    assert "released B: slurm" in weir("hosts", "release", grid).out
    assert slurm.jobs() == []
    assert "nothing is kept" in weir("hosts", "release", grid).out
    assert "nothing is reserved" in weir("hosts", "status").out


def test_a_run_takes_what_is_kept_and_leaves_it(slurm: Slurm, grid: Path, weir: Weir) -> None:
    kept = weir("hosts", "reserve", grid, "--set", "B", "--json").json["reservations"]
    with reserved(inventory.load(grid)) as machines:
        assert [node.name for node in machines.sets["B"].nodes] == ["n2", "n3"]
        (node,) = machines.sets["A"].nodes
        assert (node.name, node.address, node.user, node.set) == ("n1", "127.0.1.1", "root", "A")
        assert len(slurm.jobs()) == 2
    assert slurm.jobs() == [one["name"] for one in kept]
    weir("hosts", "release", grid)


def test_what_has_ended_is_reserved_anew(slurm: Slurm, grid: Path, weir: Weir, state: Path) -> None:
    (first,) = weir("hosts", "reserve", grid, "--set", "B", "--json").json["reservations"]
    slurm.said("scancel", first["id"])
    until(lambda: not slurm.jobs(), "the job has ended")
    (second,) = weir("hosts", "reserve", grid, "--set", "B", "--json").json["reservations"]
    assert second["state"] == "active"
    assert [second["name"]] == slurm.jobs() == [path.stem for path in state.glob("*.json")]
    weir("hosts", "release", grid)


def test_check_asks_the_nodes_that_are_kept(slurm: Slurm, grid: Path, weir: Weir) -> None:
    grid.write_text("sets: {A: {reserve: {by: slurm, nodes: 2, time: 5min}}}")
    assert weir("hosts", "check", grid, "--patience", "2s", "--json").json["nodes"] == []
    weir("hosts", "reserve", grid)
    found = weir("hosts", "check", grid, "--patience", "2s", "--json").json["nodes"]
    assert [node["name"] for node in found] == ["n1", "n2"]
    weir("hosts", "release", grid)


def test_a_front_end_out_of_reach_is_named_and_nothing_is_left(grid: Path, weir: Weir, state: Path) -> None:
    front = "front_end: {address: 127.0.0.1, port: 1}"
    grid.write_text("sets: {A: {reserve: {by: slurm, nodes: 2, time: 5min, " + front + "}}}")
    ran = weir("hosts", "reserve", grid)
    assert ran.code == 1
    assert "front end 127.0.0.1: " in ran.err
    assert "Connection refused" in ran.err
    assert not [*state.glob("*")]


def test_nothing_new_stays_if_one_set_cannot_be_reserved(slurm: Slurm, grid: Path, weir: Weir) -> None:
    grid.write_text(SETS.replace("exclude: n1", "partition: nowhere"))
    ran = weir("hosts", "reserve", grid)
    assert ran.code == 1
    assert "Slurm refuses" in ran.err
    assert "nowhere" in ran.err
    assert slurm.jobs() == []


def test_a_full_queue_is_given_up_after_the_time(slurm: Slurm, grid: Path, weir: Weir) -> None:
    weir("hosts", "reserve", grid)
    other = grid.with_name("other.yaml")
    other.write_text(SETS)
    ran = weir("hosts", "reserve", other, "--wait", "2s")
    assert ran.code == 1
    assert "waits: Resources" in ran.err
    assert "no nodes after 2 s" in ran.err
    assert len(slurm.jobs()) == 2
    weir("hosts", "release", grid)


@pytest.mark.usefixtures("state")
def test_a_set_that_is_not_to_be_reserved_is_refused(grid: Path, weir: Weir) -> None:
    ran = weir("hosts", "reserve", grid, "--set", "C")
    assert ran.code == 2
    assert "'C' is no set with `reserve`; there are: A, B" in ran.err


@pytest.mark.usefixtures("state")
def test_a_scheduler_out_of_reach_is_a_state(
    slurm: Slurm, grid: Path, weir: Weir, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    weir("hosts", "reserve", grid, "--set", "A")
    fake = tmp_path / "squeue"
    fake.write_text("#!/bin/sh\necho 'squeue: error: Unable to contact slurm controller' >&2; exit 1\n")
    fake.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        (shown,) = weir("hosts", "status", "--json").json["reservations"]
    assert shown["state"] == "unknown"
    assert "Unable to contact" in shown["why"]
    weir("hosts", "release", grid)
