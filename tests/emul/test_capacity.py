"""The demands of a plan on a machine, and the refusal of those it cannot meet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from emul_support import needs_emul, text, weir

from shared import plan_of
from weir.hosts.rates import packets_alone, packets_per_s
from weir.methods import Capacity, Need
from weir.methods.emul import _capacity
from weir.plan import typed


def test_flows_ask_for_what_their_paths_let_through() -> None:
    alone, both = (plan_of(text(pairs=n, rate="20Mbps")) for n in (1, 2))
    packets, flows = packets_per_s(typed(alone))
    assert packets == pytest.approx(1.5 * 20e6 / 8 / 1538, rel=0.01)  # and an acknowledgement for each second one
    assert flows == 1
    assert packets_per_s(typed(both)) == (pytest.approx(packets), 2)


def test_flows_that_never_meet_are_not_added() -> None:
    plan = plan_of(text(pairs=2, rate="90Mbps"))
    together = packets_per_s(typed(plan))[0]
    plan["flows"][1] |= {"start_ns": 1_000_000_000, "stop_ns": 2_000_000_000}
    plan["flows"][0] |= {"stop_ns": 1_000_000_000}
    assert packets_per_s(typed(plan))[0] == pytest.approx(together * 50 / 90, rel=0.01)


def test_a_constant_rate_asks_for_no_more() -> None:
    scenario = text().replace(
        "  - {name: flow, between: pairs, kind: bulk, until: 2s}",
        "  - {name: flow, between: pairs, kind: cbr, rate: 1Mbps, packet: 528B, until: 2s}",
    )
    packets, _ = packets_per_s(typed(plan_of(scenario)))
    assert packets == pytest.approx(1e6 / 8 / 528, rel=0.1)


def with_offload(rate: str, offload: str) -> dict[str, Any]:
    return plan_of(text(rate=rate).replace("50Mbps", rate) + f"methods: {{emul: {{offload: {offload}}}}}\n")


@pytest.mark.parametrize(
    ("rate", "offload", "alone"),
    [
        ("190Mbps", "auto", True),
        ("210Mbps", "auto", False),
        ("210Mbps", "packets", True),
        ("20Mbps", "trains", False),
    ],
)
def test_packets_are_alone_where_any_machine_carries_them(rate: str, offload: str, alone: bool) -> None:
    plan = typed(with_offload(rate, offload))
    assert packets_alone(plan, packets_per_s(plan)[0]) == alone


@pytest.mark.parametrize(("offload", "basis"), [("packets", "alone"), ("trains", "in trains of 8")])
def test_the_cost_is_that_of_what_the_hosts_send(offload: str, basis: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_capacity, "_measured_ns", lambda train: 9200.0 / train)
    assert basis in _capacity.capacity(typed(with_offload("1Gbps", offload))).basis


def test_a_plan_from_before_there_was_a_choice_keeps_its_hash() -> None:
    assert "offload" not in with_offload("20Mbps", "auto")["methods"]["emul"]


@pytest.mark.parametrize(("rate", "train"), [(100.0, 1), (15_000.0, 1), (25_000.0, 2), (81_000.0, 8), (1e9, 32)])
def test_fast_flows_pass_in_trains(rate: float, train: int) -> None:
    assert _capacity._train(rate) == train


def test_disciplines_of_the_kernel_pass_each_packet_by_itself() -> None:
    slow, fast = (plan_of(text(rate=rate).replace("50Mbps", rate)) for rate in ("20Mbps", "10Gbps"))
    assert _capacity.capacity_of_disciplines(typed(slow)).missing == ()
    found = _capacity.capacity_of_disciplines(typed(fast))
    assert "packets a second" in [need.what for need in found.missing]
    assert "over 3 links" in found.basis


def test_a_slow_plan_is_not_worth_a_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_capacity, "_measured_ns", lambda train: pytest.fail("it was measured"))
    found = _capacity.capacity(typed(plan_of(text())))
    assert found.missing == ()
    assert "not measured here" in found.basis


def test_a_need_that_is_not_met_is_missing() -> None:
    needs = (Need("a", 1.0, 1.0, ""), Need("b", 2.0, 1.0, ""))
    assert [need.what for need in Capacity(needs, "").missing] == ["b"]


@needs_emul()
def test_what_a_packet_costs_is_measured() -> None:
    assert 100 <= _capacity._measured_ns.__wrapped__(8) < 1e6


@needs_emul()
def test_what_this_machine_cannot_carry_is_refused(tmp_path: Path) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text(text(rate="400Gbps", until="1s").replace("access: {rate: 50Mbps}", "access: {rate: 400Gbps}"))
    planned = weir("plan", str(scenario), "--method", "emul", "--json")
    cells: list[dict[str, Any]] = json.loads(planned.communicate(timeout=60)[0])
    assert planned.returncode == 1
    assert not all(need["met"] for need in cells[0]["needs"])
    run = weir("run", str(scenario), "--method", "emul", "--out", str(tmp_path / "r"))
    told = run.communicate(timeout=60)[1]
    assert run.returncode == 1
    assert "this machine cannot carry cell 0000-r0" in told
    assert "--force runs it all the same" in told
    forced = weir("plan", str(scenario), "--method", "emul", "--force")
    assert "too much: packets a second" in forced.communicate(timeout=60)[0]
    assert forced.returncode == 0
