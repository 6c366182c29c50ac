"""Pages in the lab: each object begins and ends at the same time as in the simulator."""

from __future__ import annotations

from typing import Any

import pytest

from shared import Memory, dumbbell, execute, plan_of
from weir.lab import Kernel

_MS = 1_000_000


def pages(keep: str, sizes: str) -> dict[str, Any]:
    """Three pages of one user, alone on 20 Mb/s and 20 ms."""
    entry = f"objects: [9, 1, 4], document: [12kB, 3kB], size: {sizes}, parse: 7ms, think: 300ms, count: 3"
    return plan_of(
        dumbbell(
            access="rate: 100Mbps",
            bottleneck="rate: 20Mbps, queue: {droptail: {size: 1bdp}}",
            transport="cc: reno, processing: 0s",
            workload=f"name: web, between: 'pairs[0]', kind: web, {entry}, connections: 3, keep_connection: {keep}, "
            "until: 6s",
        )
    )


def times(sink: Memory) -> dict[tuple[int, int], tuple[int, int]]:
    """Start and end of each object, by flow and transfer; all of each has been delivered."""
    rows = sink.table("flows").to_pylist()
    assert all(row["delivered_bytes"] == row["bytes"] for row in rows)
    return {(row["flow"], row["transfer"]): (row["start_ns"], row["end_ns"]) for row in rows}


@pytest.mark.parametrize("keep", ["true", "false"])
def test_pages_on_an_empty_path_are_those_of_the_simulator(kernel: Kernel, keep: str) -> None:
    plan = pages(keep, "[700B, 1400B, 300B]")
    sim, lab = (times(execute(method, plan)[0]) for method in ("sim", "lab"))
    assert sim.keys() == lab.keys()
    assert len(sim) == 14, "all objects of three pages"
    for place in sim:
        assert lab[place] == pytest.approx(sim[place], abs=_MS), place


@pytest.mark.parametrize("keep", ["true", "false"])
def test_objects_that_share_the_path_make_pages_as_long_as_the_simulators(kernel: Kernel, keep: str) -> None:
    # The order in which packets of several connections reach the path may differ, so single objects may differ by more.
    plan = pages(keep, "[2kB, 30kB, 700B, 9kB]")
    found: dict[str, dict[int, int]] = {}
    for method in ("sim", "lab"):
        page = {
            (number, i): transfer["page"]
            for number, flow in enumerate(plan["flows"])
            for i, transfer in enumerate(flow["source"]["transfers"])
        }
        begin: dict[int, int] = {}
        end: dict[int, int] = {}
        for place, (start, stop) in times(execute(method, plan)[0]).items():
            begin[page[place]] = min(start, begin.get(page[place], start))
            end[page[place]] = max(stop, end.get(page[place], stop))
        found[method] = {number: end[number] - begin[number] for number in begin}
    assert found["sim"].keys() == {0, 1, 2}
    assert found["lab"] == pytest.approx(found["sim"], rel=0.1)
