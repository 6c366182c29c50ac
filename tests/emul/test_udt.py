"""UDT over emulated links: both ends are the simulator's, so rates and times are, too."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from emul_support import cell_of, needs_emul, weir

_SCENARIO = """\
title: UDT with random losses
seed: 1
topology:
  dumbbell:
    pairs: 2
    access: {rate: 100Mbps}
    bottleneck: {rate: 20Mbps, loss: {bernoulli: 0.001}, queue: {droptail: {size: 100packets}}}
    rtt: 20ms
workload:
  - {name: stream, kind: bulk, between: "pairs[0]", until: 7s, transport: {protocol: udt}}
  - {name: file, kind: transfer, size: 500kB, between: "pairs[1]", start: 1s, transport: {protocol: udt}}
duration: 8s
measure: {goodput: 500ms, tcp: 50ms, links: 100ms}
"""
_PAYLOAD = 1456
_SECOND = 1_000_000_000


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The run by each method."""
    folder = tmp_path_factory.mktemp("udt")
    scenario = folder / "udt.yaml"
    scenario.write_text(_SCENARIO)
    found = {}
    for method in ("sim", "emul"):
        run = weir("run", str(scenario), "--method", method, "--out", str(folder / method), "--no-report")
        _, said = run.communicate(timeout=120)
        assert run.returncode == 0, said
        found[method] = cell_of(folder / method)
    return found


def _steady_bps(cell: Path) -> float:
    rows = pl.read_parquet(cell / "goodput.parquet").filter(pl.col("flow") == 0)
    steady = rows.filter(pl.col("time_ns").is_between(2 * _SECOND, 7 * _SECOND, closed="right"))
    return float(steady["delivered_bytes"].sum()) * 8 / 5


@needs_emul()
def test_the_rate_is_that_of_the_simulator(cells: dict[str, Path]) -> None:
    sim, emul = (_steady_bps(cells[method]) for method in ("sim", "emul"))
    assert 10e6 < sim < 20e6
    # A busy machine sends late, and estimates of the capacity differ.
    assert 0.6 < emul / sim < 1.4, f"{emul:.0f} b/s by emul, {sim:.0f} b/s by sim"


@needs_emul()
def test_a_transfer_is_complete_and_losses_are_counted(cells: dict[str, Path]) -> None:
    for method, cell in cells.items():
        bulk, file = pl.read_parquet(cell / "flows.parquet").sort("flow").iter_rows(named=True)
        assert (file["bytes"], file["delivered_bytes"]) == (500_000, 500_000), method
        assert 0.2 < (file["end_ns"] - file["start_ns"]) / _SECOND < 3, method
        assert bulk["lost_packets"] > 5, method
        # Every loss is sent again, and what was sent once arrived: all but what was in flight at the end.
        assert bulk["retransmitted_packets"] >= 0.9 * bulk["lost_packets"], method
        fresh = bulk["sent_packets"] - bulk["retransmitted_packets"]
        assert 0 <= fresh - bulk["delivered_bytes"] // _PAYLOAD < 200, method


@needs_emul()
def test_it_shows_rate_window_and_round_trip_time(cells: dict[str, Path]) -> None:
    for method, cell in cells.items():
        rows = pl.read_parquet(cell / "probes.parquet").filter(
            (pl.col("flow") == 0) & (pl.col("time_ns") > 2 * _SECOND)
        )
        shown = {name: rows.filter(pl.col("probe") == name)["value"].median() for name in rows["probe"].unique()}
        assert set(shown) == {"send_bps", "window", "rtt_ns"}, method
        assert 5e6 < shown["send_bps"] < 40e6, method  # type: ignore[operator]
        assert 20e6 <= shown["rtt_ns"] < 90e6, method  # type: ignore[operator]


@needs_emul()
def test_processor_time_is_that_of_real_processes(cells: dict[str, Path]) -> None:
    assert not (cells["sim"] / "processor.parquet").exists()
    rows = pl.read_parquet(cells["emul"] / "processor.parquet")
    assert set(rows["part"]) == {0, 1, 3}
    spent = rows.group_by("part").agg((pl.col("user_ns") + pl.col("system_ns")).sum() / (8 * _SECOND))
    assert all(0 < share < 1.5 for _, share in spent.iter_rows()), spent
