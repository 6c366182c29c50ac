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
from weir.inventory import parse
from weir.methods.hosts import Hosts
from weir.methods.hosts._calibration import Check, additions, compared
from weir.plan import typed

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


EMULATED = "sets: {A: {nodes: [a1]}, B: {nodes: [b1]}, E: {nodes: [e1]}}\nnetwork: emulated\n"
DIRECT = "connections: [{between: [A, B], rtt: 18ms}]\n"
LEGS = (
    "emulator: E\nconnections: [{between: [A, B], rtt: 18ms}, {between: [E, A], rtt: 4ms}, {between: [B, E], rtt: 6ms}]"
)


def round_trips(inventory: str, rtt_ms: float) -> list[Check]:
    """The checks of a measured round-trip time of nodes, if the scenario says 40 ms."""
    held = parse(inventory)
    plan = typed(plan_of(text(rtt="40ms", rate="10Gbps").replace("50Mbps", "10Gbps")))
    seen = {"sent": 100, "rtt_ns": [round(rtt_ms * MS)] * 100}
    ends = held.sets["A"].nodes[0], held.sets["B"].nodes[0]
    return [check for check in compared(plan, plan.flows[0], held, ends, seen, None) if check.what == "round-trip time"]


@pytest.mark.parametrize(
    ("more", "rtt_ms", "added"), [(DIRECT, 58.41, 18), (LEGS, 50.3, 10), ("", 40.2, 0), (LEGS[:11], 40.2, 0)]
)
def test_what_is_between_nodes_adds_to_an_emulated_round_trip(more: str, rtt_ms: float, added: float) -> None:
    (check,) = round_trips(EMULATED + more, rtt_ms)
    assert (round(check.expected, 1), check.added, check.holds) == (40 + added, added, True)
    said = f"longer than the scenario's 40 ms: what is between the nodes adds {added} ms, as the inventory says"
    assert [note.partition(said)[1:] for note in additions([check, check])] == ([(said, "")] if added else [])


@pytest.mark.parametrize("rtt_ms", [40.2, 70.0])
def test_a_sum_that_does_not_fit_is_told_with_both_parts(rtt_ms: float) -> None:
    (check,) = round_trips(EMULATED + DIRECT, rtt_ms)
    told = f"a1 to b1: the round-trip time is {rtt_ms:g} ms, the scenario says 40, and the inventory 18 more between"
    assert not check.holds
    assert str(check).startswith(told)
    assert additions([check]) == []


def test_an_existing_network_is_compared_with_both() -> None:
    scenario, inventory = round_trips(EMULATED.replace("emulated", "existing") + DIRECT, 18.2)
    assert (round(scenario.expected, 1), scenario.holds) == (40, False)
    assert (inventory.expected, inventory.holds, inventory.says) == (18, True, "the inventory")
