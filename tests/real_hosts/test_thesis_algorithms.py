"""docs/thesis-algorithms.md: the example is what the thesis says, and a small rehearsal does what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bed_support import Bed

import weir
from shared import ROOT
from weir import inventory, scenario

SCENARIO = ROOT / "examples" / "two-clusters.yaml"
INVENTORY = ROOT / "examples" / "inventories" / "two-clusters.yaml"
S = 1_000_000_000
IP_BYTES = 1500
LATE_NS = S // 5
"""By which an agent may be late on a busy machine."""
SMALL = {
    "duration": "7s",
    "topology.dumbbell.pairs": "2",
    "workload.tcp.between": "pairs[0]",
    "workload.tcp.start": "1s",
    "workload.tcp.until": "7s",
    "workload.udp.between": "pairs[1]",
    "workload.udp.start": "4s",
    "workload.udp.until": "6s",
    "phases.transfers": "{from: 1s, to: 4s}",
    "phases.udp": "{from: 4s, to: 7s}",
}
"""The rehearsal with a pair for the transfers and one for UDP, in a third of its time."""


def test_the_machines_are_those_of_algorithm_1() -> None:
    found = inventory.load(INVENTORY)
    assert list(found.sets) == ["ClusterA", "ClusterB"]
    for one, site in zip(found.sets.values(), ("lyon", "toulouse"), strict=True):
        assert one.reserve is not None
        assert (one.reserve.by, one.reserve.nodes, one.reserve.time_s) == ("oar", 12, 3 * 3600)
        assert one.reserve.front_end is not None
        assert one.reserve.front_end.address == f"{site}.grid5000.fr"
    (connection,) = found.connections
    assert (connection.rate_bps, connection.rtt_ns) == (10 * 10**9, 12 * 10**6)


@pytest.mark.parametrize("realtime", [False, True])
def test_the_scenario_is_that_of_algorithm_3(realtime: bool) -> None:
    found = scenario.load(SCENARIO)
    (cell,) = (found.realtime() if realtime else found).cells()
    plan = cell.plan()
    times, rates = (5, 100) if realtime else (1, 1)
    assert plan["end_ns"] == 100 * S // times
    tcp, udp = plan["flows"][:5], plan["flows"][5:]
    assert [flow["from"] for flow in plan["flows"]] == [node(plan, f"src{i}") for i in range(12)]
    assert [flow["to"] for flow in plan["flows"]] == [node(plan, f"dst{i}") for i in range(12)]
    for flow in tcp:
        assert flow["transport"]["cc"] == "reno"
        assert (flow["start_ns"], flow["stop_ns"]) == (10 * S // times, 100 * S // times)
        sizes = [transfer["bytes"] for transfer in flow["source"]["transfers"]]
        assert len(sizes) == 10
        assert min(sizes) * times * rates >= 10**7
        assert max(sizes) * times * rates <= 10**9
    for flow in udp:
        assert flow["source"]["rate_bps"] == 600 * 10**6 // rates
        assert (flow["start_ns"], flow["stop_ns"]) == (50 * S // times, 100 * S // times)


def node(plan: dict[str, list[dict[str, str]]], name: str) -> int:
    return next(number for number, each in enumerate(plan["nodes"]) if each["name"] == name)


def test_a_rehearsal_does_what_the_algorithm_says(bed: Bed, tmp_path: Path) -> None:
    """With a pair instead of five, and one instead of seven; its claims are about all of them."""
    folder = tmp_path / "run"
    small = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    on = ("--on", str(bed.inventory), "--out", str(folder), "--no-report", "--no-verdict")
    bed.weir("run", str(SCENARIO), "--realtime", *small, *on)

    run = weir.open(folder)
    (cell,) = run.cells
    plan: dict[str, Any] = json.loads((folder / "cells" / cell.id / "plan.json").read_text())
    tcp, udp = plan["flows"]
    skew = json.loads((folder / "cells" / cell.id / "clocks.json").read_text())["skew_ns"]
    rows = cell.table("flows").collect().to_dicts()
    made = sorted((row for row in rows if row["flow"] == 0), key=lambda row: row["start_ns"])
    asked = tcp["source"]["transfers"]

    assert len(asked) == 10
    assert [row["bytes"] for row in made] == [transfer["bytes"] for transfer in asked], "in the order of the plan"
    assert [row["delivered_bytes"] for row in made] == [row["bytes"] for row in made]
    first = made[0]["start_ns"] - tcp["start_ns"]
    assert -skew <= first < skew + LATE_NS
    for before, row, transfer in zip(made, made[1:], asked[1:], strict=False):
        paused = row["start_ns"] - before["end_ns"]
        assert transfer["wait_ns"] <= paused < transfer["wait_ns"] + LATE_NS, "a pause from the end to the next begin"

    (stream,) = (row for row in rows if row["flow"] == 1)
    assert -skew <= stream["start_ns"] - udp["start_ns"] < skew + LATE_NS
    packets = udp["source"]["rate_bps"] / 8 / IP_BYTES * (udp["stop_ns"] - udp["start_ns"]) / S
    assert stream["sent_packets"] == pytest.approx(packets, rel=0.02)
    assert stream["delivered_bytes"] == stream["sent_bytes"], "nothing is lost: all ask for less than the links have"
