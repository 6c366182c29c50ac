"""When a flow counts: its active time, phases, and intervals that are partly outside."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from shared import seal_cell
from weir.metrics import open_run
from weir.metrics.window import CellData, window

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


def test_a_flow_of_a_program_is_active_until_it_ends_by_itself(tmp_path: Path) -> None:
    done = FlowSpec([1.0] * 10, transfers=[(0, 4, 0)], program=True)
    stopped = FlowSpec([1.0] * 10, index=1, transfers=[(0, None, 0)], program=True)
    found = data(tmp_path, CellSpec([done, stopped]))
    assert found.flow_ends_ns.tolist() == [4 * SECOND, 10 * SECOND]


def test_an_aggregate_counts_intervals_that_a_flow_was_active_in_partly(tmp_path: Path) -> None:
    flows = [FlowSpec([100.0] * 10), FlowSpec([50.0] + [100.0] * 5, index=1, start_s=4.5)]
    series = window(data(tmp_path, CellSpec(flows))).rates("delivered_bytes", whole=True)
    assert series.values[1].tolist() == [50e6, *[100e6] * 5]


def test_an_aggregate_counts_intervals_that_no_flow_was_active_in(tmp_path: Path) -> None:
    spec = CellSpec([FlowSpec([100.0] * 6, start_s=4)], phases={"early": (0, 8), "before": (0, 4)})
    run = open_run(write_cell(tmp_path / "cell", spec))

    def mean(**options: str) -> float:
        return float(run.metrics("goodput.aggregate", **options)["value"][0] or -1)

    assert mean(phase="early") == pytest.approx(50e6)
    assert mean() == pytest.approx(100e6)  # from the first start
    assert mean(phase="before") == -1  # undefined: no flow is active


def test_a_link_counts_intervals_in_which_nothing_passed(tmp_path: Path) -> None:
    """Ten intervals of 1 s, of which the odd ones carry 1000 packets of 1500 B and keep 3000 B waiting."""
    rows = {
        "in_packets": [1000] * 10,
        "out_packets": [1000] * 10,
        "out_bytes": [1_500_000] * 10,
        "drop_packets": [100] * 10,
        "queue_bytes": [3000] * 10,
        "queue_delay_ns": [2 * MS] * 10,
        "queue_delay_max_ns": [4 * MS] * 10,
    }
    spec = CellSpec([FlowSpec([1.0] * 10)], [LinkSpec(rows=rows)], links_ms=1000, phases={"end": (9, 10)})
    folder = write_cell(tmp_path / "cell", spec)
    table = pl.read_parquet(folder / "links.parquet")
    table.filter(pl.col("time_ns") // SECOND % 2 == 1).write_parquet(folder / "links.parquet")
    seal_cell(folder)
    run = open_run(folder)
    names = ("utilisation", "link.throughput", "queue.length", "queue.delay", "queue.delay.max", "link.loss")
    found = dict(run.metrics(*names).select("metric", "value").iter_rows())
    assert found == pytest.approx(
        {
            "utilisation": 0.5 * 1538 * 8000 / 1e9,
            "link.throughput": 6e6,
            "queue.length": 1500,
            "queue.delay": 2e-3,
            "queue.delay.max": 4e-3,
            "link.loss": 0.1,
        }
    )
    silent = dict(run.metrics(*names, phase="end").select("metric", "value").iter_rows())
    assert silent == {**dict.fromkeys(names), "utilisation": 0, "link.throughput": 0, "queue.length": 0}


def test_a_link_that_was_not_recorded_has_no_value(tmp_path: Path) -> None:
    rows = {"out_packets": [1000] * 10, "out_bytes": [1_500_000] * 10}
    spec = CellSpec([FlowSpec([1.0] * 10, links=(1,))], [LinkSpec("a", rows=rows), LinkSpec("b")], links_ms=1000)
    folder = write_cell(tmp_path / "cell", spec)
    plan = json.loads((folder / "plan.json").read_text())
    plan["measure"]["links"] = [0]
    (folder / "plan.json").write_text(json.dumps(plan))
    seal_cell(folder)
    run = open_run(folder)
    assert run.metrics("utilisation")["value"].to_list() == [None]
    assert run.metrics("utilisation(a)")["value"][0] > 0


def test_a_short_last_interval_keeps_its_rate(tmp_path: Path) -> None:
    """A run of 2.75 s: the last interval has 0.75 s, so its bytes are those of 0.75 s."""
    spec = CellSpec([FlowSpec([8.0, 8.0, 6.0])], end_s=2.75)
    folder = write_cell(tmp_path / "cell", spec)
    table = pl.read_parquet(folder / "goodput.parquet")
    table.with_columns(time_ns=pl.Series([SECOND, 2 * SECOND, 2750 * MS], dtype=pl.UInt64)).write_parquet(
        folder / "goodput.parquet"
    )
    seal_cell(folder)
    rates = window(CellData(open_run(folder).cells[0])).rates("delivered_bytes")
    assert rates.values[0].tolist() == pytest.approx([8e6, 8e6, 8e6])


def test_rows_before_a_gap_are_not_stretched_over_it(tmp_path: Path) -> None:
    folder = write_cell(tmp_path / "cell", CellSpec([FlowSpec([8.0] * 10)]))
    table = pl.read_parquet(folder / "goodput.parquet")
    table.filter(~pl.col("time_ns").is_between(4 * SECOND, 6 * SECOND)).write_parquet(folder / "goodput.parquet")
    seal_cell(folder)
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
