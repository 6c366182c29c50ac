"""Estimates of runs on machines, beside runs that were measured."""

from __future__ import annotations

import pytest
from nodes_support import text

from shared import plan_of
from weir.methods.hosts import Hosts

MEASURED = {1: (11.1, 5.6, 5.6, 25.2), 4: (22.6, 6.4, 6.1, 37.9), 12: (41.6, 7.9, 8.4, 61.4)}
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
    method = Hosts()
    assert method.foreseen_s(plan, 0) == pytest.approx(later, rel=0.15)
    assert 3 * method.foreseen_s(plan, 0) + method.besides_s([plan] * 3) == pytest.approx(whole, rel=0.15)


def test_each_network_is_measured_once() -> None:
    method = Hosts()
    once = method.besides_s(plans(4, rtts=("8ms",)) * 2)
    twice = method.besides_s(plans(4, rtts=("8ms", "50ms")))
    assert twice - once == pytest.approx(0.55 + 4 * 2.2)


def test_many_pairs_cost_no_more_than_those_that_are_measured() -> None:
    method = Hosts()
    grown = [method.besides_s(plans(pairs)) for pairs in (8, 9, 10)]
    assert grown[1] - grown[0] == pytest.approx(2 * 0.67)
    assert grown[2] - grown[1] == pytest.approx(2 * 0.67)
