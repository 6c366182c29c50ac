"""MPTCP of this machine's kernel over emulated links; the transports that it lacks are named."""

from __future__ import annotations

import socket
from pathlib import Path

import polars as pl
import pytest
from emul_support import cell_of, needs_emul, weir

_SCENARIO = """\
title: MPTCP beside TCP
seed: 1
topology:
  dumbbell:
    pairs: 3
    access: {rate: 100Mbps}
    bottleneck: {rate: 20Mbps, queue: {droptail: {size: 60packets}}}
    rtt: 20ms
transport: {cc: "linux:cubic"}
workload:
  - {name: mptcp, kind: bulk, between: "pairs[0]", transport: {protocol: OTHER}}
  - {name: tcp, kind: bulk, between: "pairs[1]"}
  - name: objects
    kind: transfer
    between: "pairs[2]"
    transport: {protocol: OTHER}
    size: 50kB
    count: 3
    wait: 200ms
duration: 6s
measure: {goodput: 200ms, tcp: 20ms, links: 20ms}
"""


def _missing(kind: int, protocol: int) -> bool:
    try:
        socket.socket(socket.AF_INET, kind, protocol).close()
    except OSError:
        return True
    return False


needs_mptcp = pytest.mark.skipif(_missing(socket.SOCK_STREAM, socket.IPPROTO_MPTCP), reason="this kernel has no MPTCP")


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mptcp")
    scenario = folder / "mptcp.yaml"
    scenario.write_text(_SCENARIO.replace("OTHER", "mptcp"))
    run = weir("run", str(scenario), "--method", "emul", "--out", str(folder / "run"), "--no-report")
    _, said = run.communicate(timeout=120)
    assert run.returncode == 0, said
    return cell_of(folder / "run")


def _of(cell: Path, table: str, flow: int) -> pl.DataFrame:
    return pl.read_parquet(cell / f"{table}.parquet").filter(pl.col("flow") == flow)


@needs_emul()
@needs_mptcp
def test_mptcp_fills_the_path_with_tcp(cell: Path) -> None:
    delivered = [_of(cell, "goodput", flow)["delivered_bytes"].sum() for flow in (0, 1)]
    # 15 MB in 6 s; at most a twentieth is headers. Shares depend on chance: neither starves.
    assert 9_000_000 < sum(delivered) < 15_500_000
    assert min(delivered) > sum(delivered) / 10
    rows = _of(cell, "samples", 0)
    assert len(rows) > 100
    assert (rows["srtt_ns"] >= 20_000_000).all()


@needs_emul()
@needs_mptcp
def test_transfers_over_mptcp_are_complete(cell: Path) -> None:
    rows = _of(cell, "flows", 2)
    assert rows["transfer"].to_list() == [0, 1, 2]
    assert rows["delivered_bytes"].to_list() == rows["bytes"].to_list() == [50_000] * 3
    assert (rows["end_ns"] > rows["start_ns"]).all()


@needs_emul()
@needs_mptcp
def test_a_full_packet_of_mptcp_is_as_large_as_the_plan_says(cell: Path) -> None:
    row = _of(cell, "flows", 0).to_dicts()[0]
    assert row["sent_bytes"] / row["sent_packets"] == pytest.approx(1424, abs=3)


@needs_emul()
@pytest.mark.skipif(not _missing(socket.SOCK_STREAM, socket.IPPROTO_SCTP), reason="this kernel has SCTP")
def test_a_transport_that_the_kernel_lacks_is_named(tmp_path: Path) -> None:
    scenario = tmp_path / "sctp.yaml"
    scenario.write_text(_SCENARIO.replace("OTHER", "sctp"))
    run = weir("run", str(scenario), "--method", "emul", "--out", str(tmp_path / "run"), "--no-report")
    _, said = run.communicate(timeout=120)
    assert run.returncode != 0
    assert "the kernel of this host has no SCTP" in said
