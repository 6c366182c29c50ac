"""Downloads and uploads under test: both count, each is separable, and background traffic is excluded."""

from __future__ import annotations

from pathlib import Path

import pytest

from weir.metrics import MeasuredRun, MetricError, open_run
from weir.metrics.window import CellData, window

from .synthetic import CellSpec, FlowSpec, LinkSpec, write_run


@pytest.fixture
def run(tmp_path: Path) -> MeasuredRun:
    """Two downloads, an upload, and background traffic both ways."""
    flows = [
        FlowSpec([40.0] * 10, group="down"),
        FlowSpec([60.0] * 10, group="down", index=1),
        FlowSpec([10.0] * 10, group="up", reverse=True, links=(1,)),
        FlowSpec([5.0] * 10, group="noise", role="background"),
        FlowSpec([3.0] * 10, group="back", role="reverse", links=(1,)),
    ]
    links = [
        LinkSpec("bottleneck", 200_000_000, rows=_carries(25_000)),
        LinkSpec("bottleneck.reverse", 20_000_000, rows=_carries(2_000)),
    ]
    cell = CellSpec(flows, links, links_ms=1000, phases={"late": (5, 10)})
    return open_run(write_run(tmp_path / "run", [cell]))


def _carries(kilobytes: int) -> dict[str, list[int]]:
    size = kilobytes * 1000
    return {"in_bytes": [size] * 10, "out_bytes": [size] * 10, "in_packets": [100] * 10, "out_packets": [100] * 10}


def value(run: MeasuredRun, text: str) -> float:
    return float(run.metrics(text, by=[])["value"][0])


def test_flows_under_test_count_whatever_their_direction(run: MeasuredRun) -> None:
    assert run.metrics("goodput.mean", by="flow")["flow"].to_list() == ["down[0]", "down[1]", "up[0]"]
    assert value(run, "goodput.aggregate.mean") == pytest.approx(110e6)


@pytest.mark.parametrize(
    ("selector", "mbps"),
    [
        ("direction:forward", 100),
        ("direction:reverse", 10),
        ("direction:forward, direction:reverse", 110),
        ("role:test", 110),
        ("role:background", 5),
        ("role:reverse", 3),
        ("up", 10),
    ],
)
def test_directions_and_background_can_be_named(run: MeasuredRun, selector: str, mbps: float) -> None:
    assert value(run, f"goodput.aggregate.mean({selector})") == pytest.approx(mbps * 1e6)


def test_a_direction_that_is_none_is_refused(run: MeasuredRun) -> None:
    with pytest.raises(MetricError, match="no direction 'backward'; there are forward and reverse"):
        value(run, "goodput.mean(direction:backward)")


def test_metrics_can_be_split_by_direction(run: MeasuredRun) -> None:
    frame = run.metrics("goodput.aggregate.mean", "jain", "utilisation", by="direction", phase="late")
    found = {(row["metric"], row["direction"]): row["value"] for row in frame.iter_rows(named=True)}
    assert found["goodput.aggregate.mean", "forward"] == pytest.approx(100e6)
    assert found["goodput.aggregate.mean", "reverse"] == pytest.approx(10e6)
    assert found["jain", "forward"] == pytest.approx(100**2 / (2 * (40**2 + 60**2)))
    assert found["jain", "reverse"] == 1
    # Each direction has its own bottleneck; a packet of 250 kB has 38 bytes of framing.
    assert found["utilisation", "forward"] == pytest.approx(8 * (25e6 + 100 * 38) / 200e6)
    assert found["utilisation", "reverse"] == pytest.approx(8 * (2e6 + 100 * 38) / 20e6)


def test_directions_and_groups_split_together(run: MeasuredRun) -> None:
    frame = run.metrics("goodput.aggregate.mean", by=["group", "direction"], flows="*")
    assert frame.select("group", "direction").rows() == [
        ("down", "forward"), ("up", "reverse"), ("noise", "forward"), ("back", "reverse"),
    ]  # fmt: skip


def test_the_bottleneck_is_that_of_the_flows_from_source_to_sink(run: MeasuredRun) -> None:
    data = CellData(run.cells[0])
    assert [link.name for link in window(data).links] == ["bottleneck"]
    assert [link.name for link in window(data, selector="up").links] == ["bottleneck.reverse"]


def test_what_is_measured_by_a_capacity_counts_the_flows_that_use_it(run: MeasuredRun) -> None:
    assert value(run, "efficiency.capacity.mean") == pytest.approx(100 / 200)
    assert value(run, "efficiency.capacity.mean(direction:reverse)") == pytest.approx(10 / 20)
    assert value(run, "goodput.aggregate.reach[share: 0.5]") == pytest.approx(1)
    # With the upload they would reach it; without, the time is a bound.
    assert run.metrics("goodput.aggregate.reach[share: 0.52]", by=[])["censored"].to_list() == [True]
