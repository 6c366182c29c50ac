"""Metrics of switches, of runs whose values are known: the simulator executes them."""

from __future__ import annotations

from pathlib import Path

import pytest

import weir

_TEXT = """
title: two inputs
topology:
  star: {{hosts: 3, access: {{rate: 1Gbps}}, switch: {switch}}}
workload:
  - {{name: a, kind: cbr, between: [h0, h2], wire_rate: {rate}Mbps, until: 300ms}}
  - {{name: b, kind: cbr, between: [h1, h2], wire_rate: {rate}Mbps, start: 1us, until: 300ms}}
measure: {{goodput: 1ms, tcp: 0, links: 1ms}}
phases: {{full: {{from: 100ms, to: 300ms}}}}
"""
FRAMES = 1e9 * 1518 / 1538
"""Bit/s of frames without preamble and gap that 1 Gb/s carries."""


def values(folder: Path, switch: str, rate: int, *metrics: str) -> dict[str, list[float]]:
    """The metrics of both flows while the memory is full."""
    (folder / "s.yaml").write_text(_TEXT.format(switch=switch, rate=rate))
    run = weir.execute(folder / "s.yaml", folder / "run", method="sim")
    frame = run.metrics(*metrics, by=["flow"], phase="full")
    return {name: frame.filter(metric=name)["value"].to_list() for name in frame["metric"].unique()}


def test_a_fair_switch_serves_and_drops_alternately(tmp_path: Path) -> None:
    names = ("port.rate", "port.rate.sd", "port.ratio", "switch.loss_run", "switch.service_run", "switch.starvation")
    found = values(tmp_path, "{memory: {shared: {size: 60kB, alpha: 1}}, arbiter: round_robin}", 1000, *names)
    assert found["port.rate"] == pytest.approx([FRAMES / 2] * 2, rel=1e-3)
    assert found["port.ratio"] == pytest.approx([0.5] * 2, rel=1e-3)
    assert found["switch.service_run"] == pytest.approx([1.0] * 2, rel=1e-3)
    assert max(found["switch.loss_run"]) < 2.5
    # A packet in or out of an interval of 1 ms is 12 Mb/s.
    assert max(found["port.rate.sd"]) < 7e6
    assert max(found["switch.starvation"]) < 50e-6


def test_a_bursty_switch_starves_one_of_them(tmp_path: Path) -> None:
    switch = "{memory: {partitioned: {size: 60kB}}, arbiter: {bursty: {hold: 20ms}}}"
    found = values(tmp_path, switch, 1000, "port.rate.sd", "switch.loss_run_max", "switch.starvation")
    assert found["switch.starvation"] == pytest.approx([0.02] * 2, rel=0.01)
    # 20 ms of wire, all of which are lost; and either all or nothing in an interval.
    assert found["switch.loss_run_max"] == pytest.approx([0.02 * 1e9 / 1538 / 8] * 2, rel=0.05)
    assert found["port.rate.sd"] == pytest.approx([FRAMES / 2] * 2, rel=0.05)


def test_a_switch_that_is_not_full_loses_nothing(tmp_path: Path) -> None:
    found = values(tmp_path, "fair", 400, "port.ratio", "switch.loss_run_max", "port.rate")
    assert found["port.ratio"] == pytest.approx([1.0] * 2, rel=1e-2)
    assert found["switch.loss_run_max"] == [0.0, 0.0]
    assert found["port.rate"] == pytest.approx([0.4 * FRAMES] * 2, rel=1e-2)


def test_the_input_port_whose_packets_are_dropped_is_told(tmp_path: Path) -> None:
    """The switch counts what the hosts lack, for each input port."""
    found = values(tmp_path, "bursty", 1000, "switch.lost", "switch.loss", "port.lost", "port.ratio")
    # Two full inputs offer 200 ms twice; the output carries it once.
    assert sum(found["switch.lost"]) == pytest.approx(0.2 * 1e9 / 1538 / 8, rel=0.02)
    assert found["switch.lost"] == pytest.approx(found["port.lost"], abs=200)
    assert found["switch.loss"] == pytest.approx([1 - ratio for ratio in found["port.ratio"]], abs=0.01)
    assert abs(found["switch.lost"][0] - found["switch.lost"][1]) > 1000
