"""When a flow counts: its active time, phases, and intervals that are partly outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from weir.metrics.window import CellData, window
from weir.run import open_run

from .synthetic import MS, SECOND, CellSpec, FlowSpec, LinkSpec, write_cell


def data(tmp_path: Path, spec: CellSpec) -> CellData:
    return CellData(open_run(write_cell(tmp_path / "cell", spec)).cells[0])


def ends(found: CellData, phase: str | None = None) -> list[list[float]]:
    return [[t / SECOND for t in times] for times in window(found, phase).rates("delivered_bytes").times_ns]


def test_a_flow_counts_from_its_start_to_its_stop(tmp_path: Path) -> None:
    found = data(tmp_path, CellSpec([FlowSpec([1.0] * 8, start_s=2, stop_s=6), FlowSpec([1.0] * 10, index=1)]))
    assert ends(found) == [[3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]]


def test_an_interval_in_which_a_flow_starts_or_stops_is_left_out(tmp_path: Path) -> None:
    found = data(tmp_path, CellSpec([FlowSpec([1.0] * 8, start_s=2.5, stop_s=5.5)]))
    assert ends(found) == [[4, 5]]


def test_a_phase_is_inclusive_then_exclusive(tmp_path: Path) -> None:
    phases = {"whole": (2, 4), "part": (1.5, 4.5), "tiny": (2.2, 2.8), "beyond": (8, 20)}
    found = data(tmp_path, CellSpec([FlowSpec([1.0] * 10)], phases=phases))
    assert ends(found, "whole") == [[3, 4]]
    assert ends(found, "part") == [[3, 4]]
    assert ends(found, "tiny") == [[]]
    assert ends(found, "beyond") == [[9, 10]]


def test_a_sample_at_the_end_of_a_phase_belongs_to_the_next(tmp_path: Path) -> None:
    flow = FlowSpec([1.0], samples={"cwnd": list(range(1, 11))})
    found = data(tmp_path, CellSpec([flow], tcp_ms=1000, phases={"a": (0, 4), "b": (4, 8)}))
    assert window(found, "a").samples("cwnd").values[0].tolist() == [1, 2, 3]
    assert window(found, "b").samples("cwnd").values[0].tolist() == [4, 5, 6, 7]


def test_transfers_are_active_until_the_last_one_ends(tmp_path: Path) -> None:
    done = FlowSpec([1.0] * 10, transfers=[(0, 2, 10), (3, 5, 10)])
    open_ = FlowSpec([1.0] * 10, index=1, transfers=[(0, 2, 10), (3, None, 10)])
    found = data(tmp_path, CellSpec([done, open_]))
    assert found.flow_ends_ns.tolist() == [5 * SECOND, 10 * SECOND]


def test_an_aggregate_counts_intervals_that_a_flow_was_active_in_partly(tmp_path: Path) -> None:
    flows = [FlowSpec([100.0] * 10), FlowSpec([50.0] + [100.0] * 5, index=1, start_s=4.5)]
    series = window(data(tmp_path, CellSpec(flows))).rates("delivered_bytes", whole=True)
    assert series.values[1].tolist() == [50e6, *[100e6] * 5]


def test_a_short_last_interval_keeps_its_rate(tmp_path: Path) -> None:
    """A run of 2.75 s: the last interval has 0.75 s, so its bytes are those of 0.75 s."""
    spec = CellSpec([FlowSpec([8.0, 8.0, 6.0])], end_s=2.75)
    folder = write_cell(tmp_path / "cell", spec)
    import polars as pl

    table = pl.read_parquet(folder / "goodput.parquet")
    table.with_columns(time_ns=pl.Series([SECOND, 2 * SECOND, 2750 * MS], dtype=pl.UInt64)).write_parquet(
        folder / "goodput.parquet"
    )
    rates = window(CellData(open_run(folder).cells[0])).rates("delivered_bytes")
    assert rates.values[0].tolist() == pytest.approx([8e6, 8e6, 8e6])


def test_rows_before_a_gap_are_not_stretched_over_it(tmp_path: Path) -> None:
    folder = write_cell(tmp_path / "cell", CellSpec([FlowSpec([8.0] * 10)]))
    import polars as pl

    table = pl.read_parquet(folder / "goodput.parquet")
    table.filter(~pl.col("time_ns").is_between(4 * SECOND, 6 * SECOND)).write_parquet(folder / "goodput.parquet")
    rates = window(CellData(open_run(folder).cells[0])).rates("delivered_bytes")
    assert rates.values[0].tolist() == [8e6] * 7


def test_the_bottleneck(tmp_path: Path) -> None:
    links = [LinkSpec("a"), LinkSpec("b"), LinkSpec("core", rate_bps=10**10), LinkSpec("bottleneck")]
    one = [FlowSpec([1.0], links=(0, 2)), FlowSpec([1.0], index=1, links=(1, 2))]
    shared = window(data(tmp_path / "shared", CellSpec(one, links)))
    assert [link.name for link in shared.links] == ["core"]
    alone = window(data(tmp_path / "alone", CellSpec(one[:1], links)))
    assert [link.name for link in alone.links] == ["a"]
    named = window(data(tmp_path / "named", CellSpec([FlowSpec([1.0], links=(0, 2, 3))], links)))
    assert [link.name for link in named.links] == ["bottleneck"]


def test_base_rtt_and_bandwidth_delay_product(tmp_path: Path) -> None:
    plan = data(tmp_path, CellSpec([FlowSpec([1.0])])).plan
    flow = plan.flows[0]
    assert plan.base_rtt_ns(flow) == 10_000_000 + (1538 + 52 + 38) * 8
    assert plan.bdp_packets(flow) == pytest.approx(10.013024e-3 * 1e9 / (1538 * 8))
