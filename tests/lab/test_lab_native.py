"""MPTCP and SCTP of the lab's kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from shared import Memory, dumbbell, execute
from weir.cli._scenarios import load
from weir.lab import Kernel

_SCENARIO = dumbbell(
    access="rate: 100Mbps",
    bottleneck="rate: 20Mbps, queue: {droptail: {size: 60packets}}",
    transport='cc: "linux:cubic"',
    workload="name: a, between: pairs, kind: bulk, transport: {protocol: sctp}",
    measure="goodput: 500ms, tcp: 100ms, links: 100ms",
)
_OWN = {
    "mptcp": "{protocol: mptcp}",
    "sctp": "{protocol: sctp}",
}


def plan(folder: Path, *overrides: str, pairs: int = 1) -> dict[str, Any]:
    path = folder / "scenario.yaml"
    path.write_text(_SCENARIO, encoding="utf-8")
    changes = (f"topology.dumbbell.pairs={pairs}", *overrides)
    compiled: dict[str, Any] = load(str(path), overrides=changes, quiet=True).cells()[0].plan()
    return compiled


def frame(sink: Memory, table: str) -> pl.DataFrame:
    found = pl.from_arrow(sink.table(table))
    assert isinstance(found, pl.DataFrame)
    return found


@pytest.fixture(scope="module", params=list(_OWN))
def bulk(
    kernel: Kernel, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Memory]:
    """Ten seconds of one flow alone."""
    name = str(request.param)
    made = plan(tmp_path_factory.mktemp("native"), "duration=10s", f"workload.a.transport={_OWN[name]}")
    return name, execute("lab", made)[0]


def test_a_flow_alone_fills_the_path(bulk: tuple[str, Memory]) -> None:
    delivered = frame(bulk[1], "goodput")["delivered_bytes"].sum()
    # 25 MB in 10 s; headers take a twentieth or more.
    assert 20_000_000 < delivered < 24_500_000


def test_what_was_sent_is_what_the_link_saw(bulk: tuple[str, Memory]) -> None:
    sink = bulk[1]
    row = frame(sink, "flows").to_dicts()[0]
    link = frame(sink, "links").filter(pl.col("link") == 0).select(pl.col("in_packets", "in_bytes").sum()).row(0)
    sent = frame(sink, "goodput")["sent_ip_bytes"].sum()
    assert row["sent_packets"] == pytest.approx(link[0], rel=0.03)
    assert sent == pytest.approx(link[1], rel=0.03)
    assert row["lost_packets"] > 0


def test_the_state_that_the_kernel_tells(bulk: tuple[str, Memory]) -> None:
    rows = frame(bulk[1], "samples")
    assert len(rows) > 80
    assert (rows["srtt_ns"].drop_nulls() >= 19_000_000).all()
    assert (rows["cwnd"] >= 1).mean() > 0.9
    assert rows["acked_bytes"].is_sorted()


@pytest.mark.parametrize("name", ["mptcp", "sctp"])
@pytest.mark.parametrize("keep", ["true", "false"])
def test_transfers_are_complete(kernel: Kernel, tmp_path: Path, name: str, keep: str) -> None:
    entry = (
        "workload=[{name: a, kind: transfer, size: 100kB, count: 3, wait: 100ms, between: pairs, "
        f"keep_connection: {keep}, transport: {_OWN[name]}}}]"
    )
    rows = frame(execute("lab", plan(tmp_path, "duration=5s", entry))[0], "flows")
    assert rows["transfer"].to_list() == [0, 1, 2]
    assert rows["delivered_bytes"].to_list() == rows["bytes"].to_list() == [100_000] * 3
    assert (rows["end_ns"] > rows["start_ns"]).all()


def test_twice_the_same_plan_gives_the_same_tables(kernel: Kernel, tmp_path: Path) -> None:
    entries = (
        "workload=[{name: a, kind: bulk, between: 'pairs[0]', transport: {protocol: sctp}}, "
        "{name: b, kind: bulk, between: 'pairs[1]', transport: {protocol: mptcp, cc: 'linux:reno'}}]"
    )
    made = plan(tmp_path, "duration=3s", entries, pairs=2)
    first, second = (execute("lab", made)[0] for _ in range(2))
    for table in ("goodput", "samples", "flows", "links"):
        assert first.table(table) == second.table(table), table
