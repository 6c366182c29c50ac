"""Metrics of switches, of runs whose values are known: the simulator executes them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import weir
from weir.metrics import MetricError
from weir.report.charts import CELL_CHARTS
from weir.report.figures import PAPER
from weir.report.view import RunView
from weir.run import open_run

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


def test_what_waits_for_a_link_out_of_a_switch_is_in_its_memory(tmp_path: Path) -> None:
    """Twice 1 Gb/s fill the memory; the link itself has nothing in its queue."""
    switch = "{memory: {shared: {size: 60kB}}, arbiter: fifo}"
    (tmp_path / "s.yaml").write_text(_TEXT.format(switch=switch, rate=1000))
    run = weir.execute(tmp_path / "s.yaml", tmp_path / "run", method="sim")
    waiting = run.metrics("queue.length", "queue.length.max", phase="full")["value"].to_list()
    assert waiting == pytest.approx([60_000, 60_000], rel=0.05)
    assert run.metrics("queue.length(h0->hub)", phase="full")["value"].to_list() == [0.0]


@pytest.mark.parametrize("metric", ["queue.delay", "queue.delay.max", "queue.delay.p95", "queue.delay(hub->h2)"])
def test_nothing_measures_how_long_packets_wait_in_a_switch(tmp_path: Path, metric: str) -> None:
    with pytest.raises(MetricError, match=r"link 'hub->h2' in the memory of a switch.*`delay`"):
        values(tmp_path, "fair", 1000, metric)


def test_a_report_shows_what_waits_in_a_switch_and_no_delay(tmp_path: Path) -> None:
    switch = "{memory: {shared: {size: 60kB}}, arbiter: fifo}"
    (tmp_path / "s.yaml").write_text(_TEXT.format(switch=switch, rate=1000))
    weir.execute(tmp_path / "s.yaml", tmp_path / "run", method="sim")
    view = RunView(open_run(tmp_path / "run"))
    (cell,) = view.combinations
    drawn = {chart.name: chart.draw(cell, PAPER) for chart in CELL_CHARTS if chart.name in {"queue", "queue-delay"}}
    assert drawn["queue-delay"] is None
    assert drawn["queue"] is not None
    full = drawn["queue"].data["links"].filter(pl.col("time_s") > 0.1)
    assert full["mean"].to_list() == pytest.approx([60.0] * len(full), rel=0.05)
    assert view.summary("queue.delay").is_empty()
    assert not view.problems
