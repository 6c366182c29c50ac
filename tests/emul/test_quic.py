"""QUIC over emulated links: its tables beside those of TCP."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from emul_support import cell_of, needs_emul, weir

_SCENARIO = """\
title: QUIC beside TCP
seed: 1
topology:
  dumbbell:
    pairs: 3
    access: {rate: 100Mbps}
    bottleneck: {rate: 20Mbps, queue: {droptail: {size: 60packets}}}
    rtt: 20ms
transport: {cc: "linux:cubic"}
workload:
  - {name: quic, kind: bulk, between: "pairs[0]", transport: {protocol: quic, cc: cubic}}
  - {name: tcp, kind: bulk, between: "pairs[1]"}
  - name: objects
    kind: transfer
    between: "pairs[2]"
    transport: {protocol: quic, cc: reno}
    size: 50kB
    count: 3
    wait: 200ms
    keep_connection: KEEP
duration: 6s
measure: {goodput: 200ms, tcp: 20ms, links: 20ms}
"""


@pytest.fixture(scope="module", params=["true", "false"])
def cell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with one connection for all objects, or one for each."""
    folder = tmp_path_factory.mktemp("quic")
    scenario = folder / "quic.yaml"
    scenario.write_text(_SCENARIO.replace("KEEP", request.param))
    run = weir("run", str(scenario), "--method", "emul", "--out", str(folder / "run"), "--no-report")
    _, said = run.communicate(timeout=120)
    assert run.returncode == 0, said
    return cell_of(folder / "run")


def _of(cell: Path, table: str, flow: int) -> pl.DataFrame:
    return pl.read_parquet(cell / f"{table}.parquet").filter(pl.col("flow") == flow)


@needs_emul()
def test_quic_fills_the_path_with_tcp(cell: Path) -> None:
    delivered = [_of(cell, "goodput", flow)["delivered_bytes"].sum() for flow in (0, 1)]
    # 15 MB in 6 s; at most a twentieth is headers. Shares depend on chance: neither starves.
    assert 9_000_000 < sum(delivered) < 15_500_000
    assert min(delivered) > sum(delivered) / 10


@needs_emul()
def test_transfers_are_complete(cell: Path) -> None:
    rows = _of(cell, "flows", 2)
    assert rows["transfer"].to_list() == [0, 1, 2]
    assert rows["delivered_bytes"].to_list() == rows["bytes"].to_list() == [50_000] * 3
    assert (rows["end_ns"] > rows["start_ns"]).all()
    assert (rows["established_ns"] >= rows["start_ns"]).all()
    assert (rows["sent_packets"] >= 35).all()


@needs_emul()
def test_samples_have_the_state_of_quic(cell: Path) -> None:
    rows = _of(cell, "samples", 0)
    assert len(rows) > 100
    assert (rows["cwnd"] >= 2).all()
    assert rows["ssthresh"].drop_nulls().len() > 0
    assert (rows["srtt_ns"] >= 20_000_000).all()
    assert (rows["min_rtt_ns"] >= 20_000_000).all()
    assert rows["acked_bytes"].is_sorted()
    assert (rows["sent_bytes"] >= rows["acked_bytes"]).all()
    delivered = _of(cell, "flows", 0)["delivered_bytes"].item()
    assert abs(rows["acked_bytes"].to_list()[-1] / delivered - 1) < 0.1


@needs_emul()
def test_losses_are_those_of_the_network(cell: Path) -> None:
    row = _of(cell, "flows", 0).to_dicts()[0]
    events = _of(cell, "events", 0)["kind"].to_list()
    assert row["lost_packets"] > 0
    assert "recovery" in events
    assert row["retransmitted_packets"] >= 0.5 * row["lost_packets"]
