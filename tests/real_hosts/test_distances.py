"""Round-trip times that contradict an inventory: the check and the calibration say so."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from bed_support import Bed
from nodes_support import Nodes, text

from shared import Memory, argv, plan_of
from weir.hosts.distances import Distance, tolerance_ns
from weir.hosts.fitness import of_distances
from weir.methods.hosts import Hosts

MS = 1_000_000


def checked(bed: Bed, inventory: Path) -> tuple[int, dict[str, object]]:
    command = argv("hosts", "check", str(inventory), "--json")
    done = subprocess.run(command, capture_output=True, text=True, env=bed.environment, check=False)
    return done.returncode, json.loads(done.stdout)


def test_the_check_measures_what_the_inventory_says(bed: Bed) -> None:
    code, told = checked(bed, bed.inventory)
    (found,) = told["distances"]  # type: ignore[misc]
    assert (found["between"], found["nodes"], found["said_ns"]) == (["A", "B"], ["a1", "b2"], 18 * MS)
    assert 18 * MS <= found["rtt_ns"] < 18 * MS + tolerance_ns(18 * MS)
    assert code == 0, told["findings"]


@pytest.mark.parametrize("said", ["9ms", "40ms"])
def test_a_wrong_round_trip_time_does_not_pass_the_check(bed: Bed, said: str) -> None:
    wrong = bed.inventory.with_name(f"wrong-{said}.yaml")  # beside its key
    wrong.write_text(bed.inventory.read_text().replace("rtt: 18ms", f"rtt: {said}"))
    code, told = checked(bed, wrong)
    missing = [each["text"] for each in told["findings"] if each["severity"] == "missing"]  # type: ignore[attr-defined]
    assert code == 1
    assert len(missing) == 1
    assert missing[0].startswith("A - B has an RTT of 18")
    assert f"the inventory says {said} (tolerance " in missing[0]


def test_an_address_that_answers_nothing_is_a_note(bed: Bed) -> None:
    bed.exec("b2", "ip route add blackhole 10.0.1.1/32")  # its answers to a1 go nowhere
    try:
        code, told = checked(bed, bed.inventory)
    finally:
        bed.exec("b2", "ip route del blackhole 10.0.1.1/32")
    texts = [each["text"] for each in told["findings"] if each["severity"] == "note"]  # type: ignore[attr-defined]
    assert any("b2 answers a1 neither yes nor no at port 9990" in text for text in texts), told
    assert code == 0


@pytest.mark.parametrize(
    ("said_ms", "rtt_ms", "holds"), [(18, 20.7, True), (18, 20.9, False), (18, 15.1, False), (0.2, 1.1, True)]
)
def test_the_tolerance_is_a_tenth_and_a_millisecond(said_ms: float, rtt_ms: float, holds: bool) -> None:
    found = Distance(("A", "B"), ("a1", "b1"), round(said_ms * MS), round(rtt_ms * MS))
    assert found.holds == holds
    assert [finding.severity for finding in of_distances([found])] == ([] if holds else ["missing"])


def test_the_calibration_warns(nodes: Nodes) -> None:
    file = nodes.inventory()
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "connections": [{"between": ["A", "B"], "rtt": "30ms"}]}))
    method = Hosts(nodes.connect).on(str(file))
    try:
        outcome = method.execute(json.dumps(plan_of(text(until="1s"))), Memory(), lambda *_: None)
    finally:
        method.close()
    told = sorted(warning for warning in outcome.warnings if "the inventory says 30" in warning)
    assert [warning.partition(".")[0] for warning in told] == [
        f"{n} to {p}: the round-trip time is 0" for n, p in (("a1", "b1"), ("a2", "b2"))
    ]
