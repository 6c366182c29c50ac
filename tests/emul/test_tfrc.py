"""TFRC over emulated links: the control is the simulator's, so its rate is, too."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from emul_support import cell_of, needs_emul, weir

_SCENARIO = """\
title: TFRC with random losses
seed: 1
topology:
  dumbbell:
    pairs: 1
    access: {rate: 100Mbps}
    bottleneck: {rate: 20Mbps, loss: {bernoulli: 0.01}, queue: {droptail: {size: 100packets}}}
    rtt: 50ms
workload:
  - {name: stream, kind: bulk, between: pairs, until: 14s, transport: {protocol: tfrc}}
duration: 15s
measure: {goodput: 500ms, tcp: 50ms, links: 100ms}
"""
_PAYLOAD = 1472
_SECOND = 1_000_000_000


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The run by each method."""
    folder = tmp_path_factory.mktemp("tfrc")
    scenario = folder / "tfrc.yaml"
    scenario.write_text(_SCENARIO)
    found = {}
    for method in ("sim", "emul"):
        run = weir("run", str(scenario), "--method", method, "--out", str(folder / method), "--no-report")
        _, said = run.communicate(timeout=120)
        assert run.returncode == 0, said
        found[method] = cell_of(folder / method)
    return found


def _steady_bps(cell: Path) -> float:
    rows = pl.read_parquet(cell / "goodput.parquet")
    steady = rows.filter(pl.col("time_ns").is_between(4 * _SECOND, 14 * _SECOND, closed="right"))
    return float(steady["delivered_bytes"].sum()) * 8 / 10


def _shown(cell: Path, probe: str) -> pl.Series:
    rows = pl.read_parquet(cell / "probes.parquet")
    return rows.filter((pl.col("probe") == probe) & (pl.col("time_ns") > 4 * _SECOND))["value"]


@needs_emul()
def test_the_rate_is_that_of_the_simulator(cells: dict[str, Path]) -> None:
    sim, emul = (_steady_bps(cells[method]) for method in ("sim", "emul"))
    # At 1 % and 50 ms the equation gives 2.6 Mb/s. Both draw the same losses; a busy machine sends late.
    assert 1.5e6 < sim < 4.5e6
    assert 0.8 < emul / sim < 1.2, f"{emul:.0f} b/s by emul, {sim:.0f} b/s by sim"


@needs_emul()
def test_it_shows_the_state_of_its_control(cells: dict[str, Path]) -> None:
    for method, cell in cells.items():
        rtt, loss, rate = (_shown(cell, name) for name in ("rtt_ns", "loss_event_ppm", "allowed_bps"))
        assert len(rtt) > 150, method
        assert 50e6 <= rtt.median() < 60e6, method  # type: ignore[operator]
        assert 3_000 < loss.median() < 25_000, method  # type: ignore[operator]
        # The allowed rate is the equation's, with the values that the same row shows.
        p, r = loss / 1e6, rtt / 1e9
        equation = 8 * _PAYLOAD / (r * ((2 * p / 3).sqrt() + 12 * (3 * p / 8).sqrt() * p * (1 + 32 * p * p)))
        assert (rate / equation - 1).abs().median() < 0.05, method  # type: ignore[operator]


@needs_emul()
def test_nothing_is_sent_again_and_losses_are_counted(cells: dict[str, Path]) -> None:
    cell = cells["emul"]
    flow = pl.read_parquet(cell / "flows.parquet").row(0, named=True)
    assert flow["retransmitted_packets"] == 0
    sent, delivered, lost = flow["sent_packets"], flow["delivered_bytes"] // _PAYLOAD, flow["lost_packets"]
    assert lost > 5
    assert delivered + lost == sent
    stats = json.loads((cell / "manifest.json").read_text())["stats"]
    found = {name.rpartition(".")[2]: value for name, value in stats.items() if ".tfrc.0." in f".{name}"}
    assert found["received"] == delivered
    assert found["lost"] == lost
    assert found["reports"] > 100
