"""DCCP as a workload, in the lab: the kernel's senders with CCID 2 and 3, from a scenario to the tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest

from shared import Memory, dumbbell, execute, plan_of
from weir.lab import Kernel

_S = 1_000_000_000
_FULL_BYTES = 36 + 1296


def _plan(ccid: int) -> dict[str, Any]:
    """A flow that stops a second before the run ends, so that what is on the path arrives."""
    return plan_of(
        dumbbell(
            "duration: 10s\n",
            title="DCCP",
            pairs=1,
            access="rate: 100Mbps",
            bottleneck="rate: 20Mbps, loss: {bernoulli: 0.01}, queue: {droptail: {size: 100packets}}",
            rtt="50ms",
            transport="cc: reno",
            workload=f"name: s, kind: bulk, between: pairs, until: 9s, transport: {{protocol: dccp, ccid: {ccid}}}",
            measure="goodput: 500ms, tcp: 100ms, links: 100ms",
        )
    )


def _frame(sink: Memory, table: str) -> pl.DataFrame:
    found = pl.from_arrow(sink.table(table))
    assert isinstance(found, pl.DataFrame)
    return found


def _counts(stats: Mapping[str, float]) -> tuple[int, int, int]:
    """Packets that the receiver counted: received, lost, reordered."""
    found = {name.rsplit(".", 1)[1]: int(value) for name, value in stats.items() if ".dccp.0." in name}
    return found["received"], found["lost"], found["reordered"]


@pytest.fixture(scope="module", params=[2, 3])
def lossy(kernel: Kernel, request: pytest.FixtureRequest) -> tuple[int, Memory, dict[str, float]]:
    """A flow that loses 1 % of its packets at random."""
    sink, outcome = execute("lab", _plan(request.param))
    return request.param, sink, dict(outcome.stats)


def test_the_rate_is_that_of_tcp_at_this_loss(lossy: tuple[int, Memory, dict[str, float]]) -> None:
    rows = _frame(lossy[1], "goodput").filter(pl.col("time_ns") > 2 * _S, pl.col("time_ns") <= 9 * _S)
    # 12 packets a round-trip time by the equation, with some 70 losses: a window of 10 Mb/s would be 44 packets.
    assert 1_500_000 < rows["delivered_bytes"].sum() * 8 / 7 < 5_000_000


def test_each_packet_is_delivered_or_lost(lossy: tuple[int, Memory, dict[str, float]]) -> None:
    _, sink, stats = lossy
    (row,) = _frame(sink, "flows").to_dicts()
    received, lost, reordered = _counts(stats)
    assert row["established_ns"] >= 50_000_000
    assert row["delivered_bytes"] == 1296 * received
    assert row["sent_packets"] == received + row["lost_packets"]
    # A loss behind the last packet that came is no gap.
    assert 20 < lost <= row["lost_packets"] < lost + 3
    assert reordered == 0


def test_a_full_packet_is_as_large_as_the_plan_says(lossy: tuple[int, Memory, dict[str, float]]) -> None:
    ccid, sink, _ = lossy
    link = _frame(sink, "links").filter(pl.col("link") == 0).select(pl.col("in_packets", "in_bytes").sum()).row(0)
    size = link[1] / link[0]
    # CCID 2 adds options: it acknowledges the acknowledgements.
    assert _FULL_BYTES - 2 < size < _FULL_BYTES + (40 if ccid == 2 else 1)


def test_ccid_3_shows_its_state(lossy: tuple[int, Memory, dict[str, float]]) -> None:
    ccid, sink, _ = lossy
    if ccid == 2:
        assert "probes" not in sink.batches
        return
    steady = _frame(sink, "probes").filter(pl.col("time_ns") > 2 * _S)
    mean = {name: steady.filter(pl.col("probe") == name)["value"].mean() for name in steady["probe"].unique()}
    assert set(mean) == {"allowed_bps", "loss_event_ppm", "rtt_ns"}
    assert 50_000_000 < mean["rtt_ns"] < 55_000_000
    assert 3_000 < mean["loss_event_ppm"] < 20_000
    assert 1_500_000 < mean["allowed_bps"] < 6_000_000


def test_twice_the_same_plan_gives_the_same_tables(lossy: tuple[int, Memory, dict[str, float]]) -> None:
    ccid, first, _ = lossy
    second = execute("lab", _plan(ccid))[0]
    assert first.batches.keys() == second.batches.keys() >= {"goodput", "flows", "links"}
    for table in first.batches:
        assert first.table(table) == second.table(table), table


@pytest.mark.parametrize("ccid", [2, 3])
def test_the_emulator_finds_its_packets(kernel: Kernel, ccid: int) -> None:
    made = _plan(ccid)
    made["methods"]["lab"]["links"] = "emulator"
    sink, outcome = execute("lab", made)
    (row,) = _frame(sink, "flows").to_dicts()
    received, lost, _ = _counts(dict(outcome.stats))
    assert row["sent_packets"] == received + row["lost_packets"]
    assert 20 < lost <= row["lost_packets"] < lost + 3
