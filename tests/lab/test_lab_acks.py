"""The record of acknowledgements in the lab: the same rows as in the simulator, from the kernel's own state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from shared import ROOT, Memory, dumbbell, execute
from weir.cli._scenarios import load
from weir.lab import Kernel
from weir.methods import MethodError

_SCENARIO = dumbbell(
    access="rate: 100Mbps",
    bottleneck="rate: 20Mbps, queue: {droptail: {size: 60packets}}",
    transport="cc: reno, buffers: 2MB",
    workload="name: a, between: pairs, kind: bulk",
    measure="goodput: 500ms, tcp: 100ms, links: 100ms, acks: true",
)


def plan(folder: Path, *overrides: str) -> dict[str, Any]:
    path = folder / "scenario.yaml"
    path.write_text(_SCENARIO, encoding="utf-8")
    compiled: dict[str, Any] = load(str(path), overrides=overrides, quiet=True).cells()[0].plan()
    return compiled


def acks(sink: Memory) -> pl.DataFrame:
    found = pl.from_arrow(sink.table("acks"))
    assert isinstance(found, pl.DataFrame)
    return found


ONE = ("topology.dumbbell.pairs=1", "duration=10s")


@pytest.fixture(scope="module")
def both(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> dict[str, pl.DataFrame]:
    """The rows of one flow, by method."""
    one = plan(tmp_path_factory.mktemp("acks"), *ONE)
    return {method: acks(execute(method, one)[0]) for method in ("sim", "lab")}


def test_both_methods_have_as_many_rows_of_each_kind(both: dict[str, pl.DataFrame]) -> None:
    counts = {method: dict(rows.group_by("kind").len().iter_rows()) for method, rows in both.items()}
    assert counts["sim"].keys() == counts["lab"].keys() == {0, 1, 2}
    for kind, count in counts["sim"].items():
        assert counts["lab"][kind] == pytest.approx(count, rel=0.02, abs=3), kind


def test_the_window_at_each_packet_is_that_of_the_simulator(both: dict[str, pl.DataFrame]) -> None:
    sent = {method: rows.filter(pl.col("kind") == 1).unique("packet", keep="first") for method, rows in both.items()}
    pairs = sent["sim"].join(sent["lab"], on="packet", suffix="_lab").sort("packet")
    assert len(pairs) > 0.98 * len(sent["sim"])
    near = (pairs["cwnd"].cast(int) - pairs["cwnd_lab"].cast(int)).abs() <= 1
    assert near.mean() > 0.9
    begin = pairs.head(100)  # slow start, before anything is lost
    assert (begin["cwnd"] == begin["cwnd_lab"]).all()
    assert (begin["in_flight"] == begin["in_flight_lab"]).all()
    # Only the kernel's microseconds and the hosts' time to answer differ.
    assert ((begin["time_ns"].cast(int) - begin["time_ns_lab"].cast(int)).abs() < 1_000_000).all()


def test_round_trip_times_and_rates_are_those_of_the_simulator(both: dict[str, pl.DataFrame]) -> None:
    measured = {
        method: rows.filter(pl.col("rtt_ns").is_not_null()).select(pl.col("rtt_ns", "delivery_rate_bps").mean()).row(0)
        for method, rows in both.items()
    }
    for ours, kernels in zip(measured["sim"], measured["lab"], strict=True):
        assert kernels == pytest.approx(ours, rel=0.03)
    assert both["lab"]["rtt_ns"].min() >= 20_000_000
    assert (both["lab"]["rtt_ns"].drop_nulls() % 1000 == 0).all()


def test_rows_tell_the_story_of_each_packet(both: dict[str, pl.DataFrame]) -> None:
    for rows in both.values():
        assert rows["time_ns"].is_sorted()
        new = rows.filter(pl.col("kind") == 1)["packet"]
        assert new.to_list() == list(range(len(new)))
        reached = rows.filter(pl.col("kind") == 0)
        assert reached["packet"].is_sorted()
        # Every packet below the last acknowledgement was delivered once.
        assert reached["delivered_packets"].sum() >= reached["packet"].max()
        assert rows["pacing_rate_bps"].is_null().all()


def test_a_window_of_time_some_flows_and_a_limit(kernel: Kernel, tmp_path: Path) -> None:
    chosen = 'measure.acks={flows: ["a[1]"], from: 1s, to: 2s, max_rows: 500}'
    rows = acks(execute("lab", plan(tmp_path, "duration=3s", "topology.dumbbell.pairs=2", chosen))[0])
    assert rows["flow"].unique().to_list() == [1]
    assert len(rows) == 500
    assert rows["time_ns"].min() >= 1_000_000_000
    assert rows["time_ns"].max() < 2_000_000_000


def test_recording_changes_nothing_and_repeats(kernel: Kernel, tmp_path: Path) -> None:
    runs = [execute("lab", plan(tmp_path, "duration=3s", *more))[0] for more in ((), (), ("measure.acks=false",))]
    for table in ("samples", "goodput", "links", "flows"):
        assert runs[0].table(table) == runs[1].table(table) == runs[2].table(table), table
    assert runs[0].table("acks") == runs[1].table("acks")


def test_other_links_than_the_kernels_are_refused(kernel: Kernel, tmp_path: Path) -> None:
    with pytest.raises(MethodError, match=r"measure\.acks: the lab records acknowledgements with the kernel's links"):
        execute("lab", plan(tmp_path, "duration=3s", "methods.lab.links=emulator"))


def test_a_receiver_that_reads_a_megabyte_acknowledges_meanwhile(kernel: Kernel, tmp_path: Path) -> None:
    """At 1 Gb/s, 200 us without an acknowledgement would be 16 packets, more than the queue holds."""
    fast = plan(
        tmp_path,
        "topology.dumbbell.pairs=1",
        "topology.dumbbell.access={rate: 10Gbps, queue: 10000packets}",
        "topology.dumbbell.bottleneck={rate: 1Gbps, queue: 100packets}",
        "topology.dumbbell.rtt=1ms",
        "transport.buffers=256MB",
        "transport.cc={name: constant, window: 150}",
        "duration=1s",
    )
    rows = acks(execute("lab", fast)[0])
    late = rows.filter((pl.col("kind") == 0) & pl.col("time_ns").is_between(200_000_000, 1_000_000_000))
    gaps = late["time_ns"].cast(pl.Int64).diff().drop_nulls()
    assert len(gaps) > 20_000
    # A delayed acknowledgement comes each 24 us.
    assert gaps.max() < 60_000


def test_a_window_that_limits_a_flow_is_used_up(kernel: Kernel, tmp_path: Path) -> None:
    """What waits unread at the receiver is missing in flight."""
    given = plan(
        tmp_path,
        "topology.dumbbell.pairs=1",
        "topology.dumbbell.rtt=118ms",
        "topology.dumbbell.bottleneck.rate=100Mbps",
        "topology.dumbbell.bottleneck.queue=1500packets",
        "transport.buffers=1212kB",
        "measure.acks=false",
        "duration=6s",
    )
    flight = {}
    for method in ("sim", "lab"):
        samples = pl.from_arrow(execute(method, given)[0].table("samples"))
        assert isinstance(samples, pl.DataFrame)
        flight[method] = samples.filter(pl.col("time_ns") > 3_000_000_000)["in_flight"].mean()
    assert flight["sim"] == pytest.approx(837, abs=1)  # 1212 kB of 1448 B
    assert flight["lab"] == pytest.approx(flight["sim"], rel=0.005)


@pytest.mark.parametrize("cc", ["reno", "cubic", "hybla", "vegas", "lp", "ledbatpp", "westwood", "yeah"])
def test_the_simulator_follows_the_kernel_packet_by_packet(kernel: Kernel, cc: str) -> None:
    cells = load(str(ROOT / "examples" / "packets.yaml"), overrides=(f"sweep.transport.cc=[{cc}]",), quiet=True).cells()
    one: dict[str, Any] = cells[0].plan()
    sim, lab = (acks(execute(method, one)[0]) for method in ("sim", "lab"))
    assert len(sim) > 2000
    columns = ["flow", "kind", "packet", "delivered_packets", "cwnd", "ssthresh"]
    assert sim.select(columns).equals(lab.select(columns))
    apart = (sim["time_ns"].cast(pl.Int64) - lab["time_ns"].cast(pl.Int64)).abs()
    assert bool((apart < 2_000).all())
