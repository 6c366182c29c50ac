"""Opening runs: complete, interrupted, single cells, damaged ones."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import weir
from weir.run import TABLES, RunError, RunWarning, describe_tables, open_run

from .synthetic import CellSpec, FlowSpec, write_cell, write_run


def sweep(path: Path, complete: bool = True) -> Path:
    cells = [
        CellSpec([FlowSpec([100.0 * (k + 1)] * 10)], factors={"cc": cc, "rtt": rtt}, repeat=k)
        for cc in ("reno", "cubic")
        for rtt in ("100ms", "11.5ms")
        for k in range(2)
    ]
    return write_run(path, cells, complete)


def test_a_sweep_opens_with_its_factors_in_numeric_order(tmp_path: Path) -> None:
    run = weir.open(sweep(tmp_path / "run"))
    assert run.complete
    assert len(run.cells) == 8
    assert run.factors == {"cc": ("reno", "cubic"), "rtt": ("11.5ms", "100ms")}
    assert run.repeats == (0, 1)


def test_a_table_of_a_sweep_carries_cell_repeat_and_factors(tmp_path: Path) -> None:
    frame = open_run(sweep(tmp_path / "run")).table("goodput").collect()
    assert frame.columns[:4] == ["cell", "repeat", "cc", "rtt"]
    assert frame.height == 80
    totals = frame.group_by("repeat").agg(pl.col("delivered_bytes").sum()).sort("repeat")["delivered_bytes"].to_list()
    assert totals == [4 * 10 * 12_500_000, 4 * 10 * 25_000_000]


def test_a_factor_named_like_a_column_is_renamed(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path / "run", [CellSpec([FlowSpec([1.0])], factors={"flow": "a"})]))
    assert "flow_factor" in run.table("goodput").collect_schema().names()


def test_a_cell_folder_is_a_run_of_one_cell(tmp_path: Path) -> None:
    run = open_run(write_cell(tmp_path / "cell", CellSpec([FlowSpec([8.0])])))
    assert len(run.cells) == 1
    assert run.plan().flows[0].name == "elephants[0]"


def test_an_interrupted_run_opens_with_a_warning(tmp_path: Path) -> None:
    with pytest.warns(RunWarning, match="incomplete"):
        run = open_run(sweep(tmp_path / "run", complete=False))
    assert not run.complete
    assert any("incomplete" in text for text in run.warnings)


def test_a_damaged_cell_is_left_out_with_a_warning(tmp_path: Path) -> None:
    folder = sweep(tmp_path / "run")
    (folder / "cells" / "003" / "manifest.json").write_text("{")
    with pytest.warns(RunWarning, match="003"):
        run = open_run(folder)
    assert len(run.cells) == 7


def test_a_cell_that_was_not_finished_is_ignored(tmp_path: Path) -> None:
    folder = sweep(tmp_path / "run")
    shutil.copytree(folder / "cells" / "000", folder / "cells" / ".000.partial")
    (folder / "cells" / ".000.partial" / "manifest.json").unlink()
    assert len(open_run(folder).cells) == 8


def _empty_cells(folder: Path) -> None:
    for cell in (folder / "cells").iterdir():
        shutil.rmtree(cell)


def _no_cells(folder: Path) -> None:
    shutil.rmtree(folder / "cells")


def _bad_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text("[]")


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (shutil.rmtree, "no such folder"),
        (_no_cells, "is not a run"),
        (_empty_cells, "no cell is complete"),
        (_bad_manifest, "not a JSON object"),
    ],
)
def test_what_is_not_a_run_is_refused_with_place_and_reason(
    tmp_path: Path, damage: Callable[[Path], None], problem: str
) -> None:
    folder = sweep(tmp_path / "run")
    damage(folder)
    with pytest.raises(RunError, match=problem) as caught:
        open_run(folder)
    assert str(folder) in str(caught.value)


@pytest.mark.filterwarnings("ignore::weir.run.RunWarning")
def test_a_damaged_table_names_the_file(tmp_path: Path) -> None:
    folder = sweep(tmp_path / "run")
    (folder / "cells" / "000" / "goodput.parquet").write_bytes(b"not parquet")
    with pytest.raises(RunError, match=r"goodput\.parquet"):
        open_run(folder).table("goodput")
    (folder / "cells" / "000" / "goodput.parquet").unlink()
    with pytest.raises(RunError, match="missing"):
        open_run(folder).table("goodput")


def test_a_plan_without_a_field_is_refused(tmp_path: Path) -> None:
    folder = write_cell(tmp_path / "cell", CellSpec([FlowSpec([8.0])]))
    plan = json.loads((folder / "plan.json").read_text())
    del plan["flows"][0]["group"]
    (folder / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(RunError, match="group"):
        open_run(folder).plan()


def test_select_takes_quantities_however_they_are_written(tmp_path: Path) -> None:
    run = open_run(sweep(tmp_path / "run"))
    assert len(run.select(rtt="0.1s").cells) == 4
    assert len(run.select(rtt=["100ms", "11.5ms"], cc="reno").cells) == 4
    with pytest.raises(RunError, match="no factor 'queue'"):
        run.select(queue="1")
    with pytest.raises(RunError, match="no cell"):
        run.select(cc="bbr")


def test_schema_is_text_markdown_and_json() -> None:
    assert "delivered_bytes" in describe_tables(["goodput"])
    assert "| `cwnd` | uint32 |" in describe_tables(["samples"], "markdown")
    assert set(json.loads(describe_tables(format="json"))) == set(TABLES) >= {"flows", "links", "delays"}
    with pytest.raises(KeyError):
        describe_tables(["nothing"])
