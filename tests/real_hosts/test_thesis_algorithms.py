"""docs/thesis-algorithms.md: the example is what the thesis says."""

from __future__ import annotations

import pytest

from shared import ROOT
from weir import inventory, scenario

SCENARIO = ROOT / "examples" / "two-clusters.yaml"
INVENTORY = ROOT / "examples" / "inventories" / "two-clusters.yaml"
S = 1_000_000_000


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
