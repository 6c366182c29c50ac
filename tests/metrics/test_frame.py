"""``MeasuredRun.metrics``: rows, repeats, phases, selections, and the libraries of frames."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from shared import seal_run
from weir.metrics import MeasuredRun, MetricError, open_run
from weir.run import RunError

from .synthetic import CellSpec, FlowSpec, LinkSpec, write_run


def cell(cc: str, rtt: str, repeat: int, mbps: float) -> CellSpec:
    flows = [
        FlowSpec([mbps] * 10),
        FlowSpec([2 * mbps] * 10, index=1),
        FlowSpec([10.0] * 10, group="mice", role="background"),
        FlowSpec([20.0] * 10, group="noise", role="test"),
    ]
    return CellSpec(
        flows,
        factors={"cc": cc, "rtt": rtt},
        repeat=repeat,
        phases={"first": (0, 4), "second": (4, 10)},
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> MeasuredRun:
    cells = [
        cell(cc, rtt, k, base + 10 * k)
        for cc, rtt, base in (("reno", "100ms", 100), ("reno", "11.5ms", 200), ("bic", "100ms", 300))
        for k in range(3)
    ]
    return open_run(write_run(tmp_path_factory.mktemp("frame") / "run", cells))


def test_a_row_is_a_combination_of_factors_with_its_interval(run: MeasuredRun) -> None:
    frame = run.metrics("goodput.mean", flows="elephants[0]")
    assert frame.columns == [
        "cc",
        "rtt",
        "phase",
        "metric",
        "unit",
        "value",
        "sd",
        "n",
        "ci_low",
        "ci_high",
        "censored",
    ]
    assert frame.select("cc", "rtt", "value").rows() == [
        ("reno", "11.5ms", 210e6),
        ("reno", "100ms", 110e6),
        ("bic", "100ms", 310e6),
    ]
    half = 4.302652729911275 * 10e6 / math.sqrt(3)
    assert frame["ci_low"][0] == pytest.approx(210e6 - half)
    assert frame["sd"].to_list() == [10e6] * 3
    assert frame["n"].to_list() == [3, 3, 3]


def test_factors_left_out_are_averaged_within_a_repeat(run: MeasuredRun) -> None:
    frame = run.metrics("goodput.mean", flows="elephants[0]", by="cc")
    assert frame.select("cc", "value", "sd", "n").rows() == [("reno", 160e6, 10e6, 3), ("bic", 310e6, 10e6, 3)]
    whole = run.metrics("goodput.mean", flows="elephants[0]", by=[])
    assert whole["value"].to_list() == [210e6]
    assert whole["n"].to_list() == [3]


def test_the_flows_under_test_are_selected_unless_told_otherwise(run: MeasuredRun) -> None:
    only: dict[str, Any] = {"where": {"cc": "bic"}, "by": "flow"}
    assert run.metrics("goodput", **only)["flow"].to_list() == ["elephants[0]", "elephants[1]", "noise[0]"]
    assert run.metrics("goodput", flows="role:background", **only)["flow"].to_list() == ["mice[0]"]
    assert run.metrics("goodput", flows=["mice", "elephants[1]"], **only).height == 2
    assert run.metrics("goodput", flows="*", **only).height == 4


def test_a_selection_in_the_name_wins(run: MeasuredRun) -> None:
    frame = run.metrics("goodput(mice)", "goodput", flows="elephants", where={"cc": "bic"}, by=[])
    assert frame["value"].to_list() == [10e6, 465e6]


def test_groups_are_kept_apart(run: MeasuredRun) -> None:
    frame = run.metrics("jain", "goodput.aggregate", by=["group"], flows="*", where={"cc": "bic"})
    found = {(row["group"], row["metric"]): row["value"] for row in frame.iter_rows(named=True)}
    assert found["elephants", "jain"] == pytest.approx(0.9)
    assert found["mice", "goodput.aggregate"] == 10e6


def test_repeats_and_cells_can_be_kept_apart(run: MeasuredRun) -> None:
    frame = run.metrics("goodput.mean(elephants[0])", by=["cc", "repeat"], where={"rtt": "100ms"})
    assert frame.select("cc", "repeat", "value").rows()[:2] == [("reno", 0, 100e6), ("reno", 1, 110e6)]
    assert frame["sd"].null_count() == frame.height == 6
    assert run.metrics("jain", by="cell").height == 9


def test_phases(run: MeasuredRun) -> None:
    where = {"cc": "bic"}
    assert run.metrics("jain", phase="*", where=where)["phase"].to_list() == ["first", "second"]
    assert run.metrics("jain", phase=["second"], where=where)["phase"].to_list() == ["second"]
    assert run.metrics("jain@first", phase="second", where=where)["phase"].to_list() == ["first"]
    assert run.metrics("jain", where=where)["phase"].to_list() == [None]


def test_variance_is_in_squared_units(run: MeasuredRun) -> None:
    assert run.metrics("goodput.var")["unit"].to_list() == ["(bit/s)²"] * 3
    assert run.metrics("goodput.aggregate.cov")["unit"].to_list() == ["1"] * 3


def test_links_are_rows_of_their_own(tmp_path: Path) -> None:
    rows = {"out_packets": [1, 1], "out_bytes": [1500, 3000]}
    links = [LinkSpec("one", rows=rows), LinkSpec("bottleneck", rows=rows), LinkSpec("two", rows=rows)]
    spec = CellSpec([FlowSpec([1.0, 1.0], links=(0, 1, 2))], links, links_ms=1000, end_s=2)
    run = open_run(write_run(tmp_path / "run", [spec]))
    assert run.metrics("link.throughput", by="link")["link"].to_list() == ["bottleneck"]
    assert run.metrics("link.throughput", by="link", flows="*")["link"].to_list() == ["one", "bottleneck", "two"]
    assert run.metrics("link.throughput(two)", by="link")["value"].to_list() == [18_000]


def test_frames_of_other_libraries(run: MeasuredRun) -> None:
    polars, pandas, arrow = run.metrics("jain"), run.metrics("jain", as_="pandas"), run.metrics("jain", as_="arrow")
    assert isinstance(pandas, pd.DataFrame)
    assert isinstance(arrow, pa.Table)
    assert pandas["value"].tolist() == polars["value"].to_list() == arrow["value"].to_pylist()
    with pytest.raises(ValueError, match="'polars', 'pandas' or 'arrow'"):
        run.metrics("jain", as_="excel")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("names", "options", "problem"),
    [
        ([], {}, "no metric named"),
        ([["jain"]], {}, "one by one"),
        (["jain"], {"by": "rt"}, "by='rt'.*Did you mean 'rtt'"),
        (["jain"], {"by": "flow"}, "one value for all flows"),
        (["goodput"], {"by": "link"}, "cannot be split by link"),
        (["jain"], {"phase": "third"}, "no phase 'third'"),
        (["jain nonsense"], {}, "column 6"),
    ],
)
def test_bad_requests_say_why(run: MeasuredRun, names: list[Any], options: dict[str, Any], problem: str) -> None:
    with pytest.raises(MetricError, match=problem):
        run.metrics(*names, **options)


def test_where_must_leave_a_cell(run: MeasuredRun) -> None:
    with pytest.raises(RunError, match="no cell"):
        run.metrics("jain", where={"cc": "vegas"})


def test_the_order_of_rows_in_a_table_does_not_matter(tmp_path: Path) -> None:
    """A method may write its tables by flow instead of by time."""
    spec = cell("reno", "1ms", 0, 100)
    straight = open_run(write_run(tmp_path / "straight", [spec]))
    sorted_ = write_run(tmp_path / "sorted", [spec])
    shuffled = write_run(tmp_path / "shuffled", [spec])
    for folder, order in ((sorted_, ["flow", "time_ns"]), (shuffled, None)):
        file = folder / "cells" / "000" / "goodput.parquet"
        table = pl.read_parquet(file)
        (table.sort(order) if order else table.sample(fraction=1, shuffle=True, seed=1)).write_parquet(file)
        seal_run(folder)
    names = ["goodput.sd", "goodput.last", "goodput.aggregate.max@second", "jain"]
    expected = straight.metrics(*names)
    assert open_run(sorted_).metrics(*names).equals(expected)
    assert open_run(shuffled).metrics(*names).equals(expected)


def test_a_series_is_a_metric_over_time(run: MeasuredRun) -> None:
    frame = run.series("goodput.aggregate", phase="second", where={"cc": "bic"}, flows="elephants")
    assert frame.columns == ["cc", "rtt", "repeat", "time_ns", "value"]
    assert frame.height == 3 * 6
    assert frame["time_ns"].to_list()[:2] == [5_000_000_000, 6_000_000_000]
    assert frame.filter(repeat=1)["value"].to_list() == [930e6] * 6
    by_flow = run.series("goodput@first(elephants[1])", where={"cc": "bic"})
    assert by_flow.select("flow", "value").unique().sort("value")["value"].to_list() == [600e6, 620e6, 640e6]
    assert by_flow["flow"].unique().to_list() == ["elephants[1]"]


@pytest.mark.parametrize("name", ["jain", "goodput.mean", "completion", "goodput{cc: reno}"])
def test_what_is_no_function_of_time_has_no_series(run: MeasuredRun, name: str) -> None:
    with pytest.raises(MetricError, match="not a function of time"):
        run.series(name)
