"""Estimates of runs on machines, beside runs that were measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from nodes_support import text

from shared import plan_of
from weir.methods._document import plan_of as plan_of_document
from weir.methods.hosts import Hosts, _effort

MEASURED = {1: (7.2, 5.5, 5.5, 19.5), 4: (8.3, 5.6, 5.6, 20.8), 12: (11.7, 6.0, 5.9, 25.6)}
"""By pairs of nodes: the wall times of three cells of 5 s, and of the whole command, on a test bed (seconds)."""


def plans(pairs: int, *, rtts: tuple[str, ...] = ("8ms",)) -> list[dict[str, object]]:
    """Plans of 5 s."""
    written = [text(rtt=rtt, until="4s").replace("pairs: 2", f"pairs: {pairs}") for rtt in rtts]
    assert all(f"pairs: {pairs}" in one for one in written)
    return [plan_of(one) | {"end_ns": 5_000_000_000} for one in written]


@pytest.mark.parametrize("pairs", MEASURED)
def test_estimates_are_those_of_measured_runs(pairs: int) -> None:
    *_, later, whole = MEASURED[pairs]
    (plan,) = plans(pairs)
    besides_s = _effort.besides_s([plan_of_document(plan)] * 3, lambda plan: plan.flows[:1])
    assert Hosts().foreseen_s(plan, 0) == pytest.approx(later, rel=0.15)
    assert 3 * Hosts().foreseen_s(plan, 0) + besides_s == pytest.approx(whole, rel=0.15)


def test_each_network_is_measured_once() -> None:
    method = Hosts()
    once = method.besides_s(plans(4, rtts=("8ms",)) * 2)
    twice = method.besides_s(plans(4, rtts=("8ms", "50ms")))
    assert twice - once == pytest.approx(0.55 + 0.2 + 3.0)


@pytest.mark.parametrize(
    ("sets", "sources", "rated"),
    [
        ("  A: {nodes: 'a[1..4].test'}\n", "A", 1),
        ("  A: {nodes: 'a[1..2].test'}\n  C: {nodes: 'c[1..2].test'}\n", "[A, C]", 2),
        ("  A: {nodes: ['a[1..3].test', {address: c.test, rate: 100Mbps}], rate: 1Gbps}\n", "A", 2),
    ],
)
def test_the_rate_of_each_connection_of_sets_is_measured_once(
    tmp_path: Path, sets: str, sources: str, rated: int
) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(f"sets:\n{sets}  B: {{nodes: 'b[1..4].test'}}\nroles: {{sinks: B, sources: {sources}}}\n")
    method = Hosts().on(str(path))
    one = method.besides_s(plans(1, rtts=("8ms",)))
    assert method.obstacle(plans(4)[0]) is None
    assert method.besides_s(plans(4)) - one == pytest.approx(6 * 0.21 + (rated - 1) * (0.2 + 0.6))
