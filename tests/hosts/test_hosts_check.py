"""``weir hosts check`` with nodes behind a real SSH server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from ssh_support import Server, server

from shared import Weir

SCENARIO = """\
title: t
transport: {cc: "linux:reno"}
topology:
  dumbbell: {pairs: 1, access: {rate: 1Gbps}, bottleneck: {rate: 100Mbps, queue: 100packets}, rtt: 20ms}
workload:
  - {name: bulk, kind: bulk, between: pairs}
duration: 5s
"""


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("sshd")) as made:
        yield made


def inventory(one: Server, more: str = "") -> str:
    file = one.folder / "inventory.yaml"
    file.write_text(
        "sets:\n"
        f"  A: {{nodes: [{{address: 127.0.0.1, port: {one.port}, name: a1}}], user: {one.node().user}, key: client, "
        "known_hosts: known hosts, rate: 1Gbps}\n"
        f"  B: {{nodes: [{{address: 127.0.0.2, port: {one.port}, name: b1}}]}}\n" + more,
        encoding="utf-8",
    )
    return str(file)


def test_a_node_that_answers_and_one_that_does_not(weir: Weir, one: Server) -> None:
    done = weir("hosts", "check", inventory(one))
    kernel = Path("/proc/sys/kernel/osrelease").read_text(encoding="utf-8").strip()
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[0].split()[:3] == ["node", "kernel", "processors"]
    assert lines[1].startswith(f"a1    {kernel}, Python 3.")
    assert lines[2].startswith("b1    not reached")
    assert "missing: b1: cannot be reached: nothing listens at its port" in done.out
    assert lines[-1] == "1 of 2 nodes reached; 1 thing missing"


def test_json(weir: Weir, one: Server) -> None:
    done = weir("hosts", "check", inventory(one), "--json")
    said = json.loads(done.out)
    first, second = said["nodes"]
    assert (first["name"], first["set"], first["reached"]) == ("a1", "A", True)
    assert first["facts"]["server_address"] == "127.0.0.1"
    assert first["facts"]["rights"]["root"] == (one.node().user == "root")
    assert (second["reached"], second["facts"]) == (False, None)
    assert [finding["node"] for finding in said["findings"] if finding["severity"] == "missing"] == ["b1"]
    assert done.code == 1


def test_for_a_scenario(weir: Weir, one: Server, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(SCENARIO, encoding="utf-8")
    place = inventory(one, "roles: {src0: A, dst0: B}\n")
    done = weir("hosts", "check", place, "--for", str(file), "-q")
    assert done.code == 1
    assert all(line.startswith("missing: b1: ") for line in done.out.splitlines())
    done = weir("hosts", "check", place, "--for", str(file), "--set", "topology.dumbbell.access.rate=2Gbps", "-q")
    assert "missing: a1: its link has 1Gbps; the scenario's host has 2Gbps" in done.out
    done = weir("hosts", "check", inventory(one, "roles: {sources: A}\n"), "--for", str(file), "-q")
    assert "no role gives a node to `dst0`" in done.out


def test_nodes_that_need_no_reservation(weir: Weir, one: Server) -> None:
    more = "  C: {reserve: {by: static, names: [127.0.0.3]}}\n  D: {reserve: {by: slurm, nodes: 4, time: 1h}}\n"
    said = weir("hosts", "check", inventory(one, more), "--json").json
    assert [(node["name"], node["set"]) for node in said["nodes"]] == [("a1", "A"), ("b1", "B"), ("127.0.0.3", "C")]
    notes = [finding["text"] for finding in said["findings"] if finding["severity"] == "note"]
    assert notes[0] == "set D is not reserved: its 4 nodes are not known yet"


def test_bad_input(weir: Weir, tmp_path: Path) -> None:
    done = weir("hosts", "check", str(tmp_path / "nowhere.yaml"))
    assert (done.code, done.out) == (2, "")
    assert "nowhere.yaml:1:1: cannot be read: No such file or directory" in done.err
    bad = tmp_path / "bad.yaml"
    bad.write_text("sets:\n  A: {nodes: [x], password: y}\n", encoding="utf-8")
    done = weir("hosts", "check", str(bad))
    assert done.code == 2
    assert "bad.yaml:2:19: `password` is not allowed" in done.err
