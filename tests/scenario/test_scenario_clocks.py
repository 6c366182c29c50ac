"""Inexact clocks of hosts."""

from __future__ import annotations

from weir.scenario import parse

TEXT = """
title: Clocks
topology:
  dumbbell:
    pairs: 3
    access: {{rate: 1Gbps{clocks}}}
    bottleneck: {{rate: 1Gbps, queue: 100packets}}
    rtt: 10ms
transport: {{cc: reno}}
workload:
  - {{name: f, between: pairs, kind: bulk, until: 1s}}
repeat: 2
sweep: {{topology.dumbbell.rtt: [10ms, 20ms]}}
"""


def _rates(clocks: str, cell: int = 0) -> dict[str, int]:
    plan = parse(TEXT.format(clocks=clocks)).cells()[cell].plan()
    return {link["name"]: link["rate_bps"] for link in plan["links"]}


def test_clocks_are_exact_unless_the_scenario_says_otherwise() -> None:
    assert set(_rates("").values()) == {1_000_000_000}


def test_each_host_sends_at_a_rate_of_its_own_within_the_tolerance() -> None:
    rates = _rates(", clocks: 0.01%")
    hosts = {name: rate for name, rate in rates.items() if name.startswith(("src", "dst"))}
    assert len(set(hosts.values())) == len(hosts) == 6
    assert all(0 < abs(rate - 1_000_000_000) <= 100_000 for rate in hosts.values())
    others = {rate for name, rate in rates.items() if name not in hosts}
    assert others == {1_000_000_000}, "routers and the bottleneck are exact"


def test_clocks_are_drawn_anew_for_each_repeat_and_are_the_same_in_each_cell() -> None:
    cells = [_rates(", clocks: 0.01%", cell) for cell in range(4)]
    assert cells[0] != cells[1], "repeats differ"
    assert cells[0] == cells[2], "cells of one repeat have the same hosts"
    assert cells[1] == cells[3]
