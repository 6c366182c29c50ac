"""Opening runs: complete, interrupted, single cells, damaged ones."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import weir
from shared import forget_checksums, seal_cell
from weir.cli import _errors
from weir.metrics import open_run
from weir.run import TABLES, DamageError, RunError, RunWarning, describe_tables

from .synthetic import CellSpec, FlowSpec, write_cell, write_run


def flip(file: Path) -> None:
    """Flips a bit in the middle of ``file``."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


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


def test_a_damaged_cell_is_an_error_and_without_verification_left_out_with_a_warning(tmp_path: Path) -> None:
    folder = sweep(tmp_path / "run")
    (folder / "cells" / "003" / "manifest.json").write_text("{")
    with pytest.raises(DamageError, match="003"):
        open_run(folder)
    with pytest.warns(RunWarning, match="003"):
        run = open_run(folder, verify=False)
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


def test_a_folder_of_runs_is_refused_with_their_names(tmp_path: Path) -> None:
    sweep(tmp_path / "both" / "sim")
    (tmp_path / "both" / "notes").mkdir()
    with pytest.raises(RunError, match=r"both: is not a run; expected one of the runs in it: \S+both/sim$"):
        open_run(tmp_path / "both")


def test_a_damaged_table_names_the_file_and_its_cell(tmp_path: Path) -> None:
    folder = sweep(tmp_path / "run")
    table = folder / "cells" / "000" / "goodput.parquet"
    flip(table)
    with pytest.raises(DamageError, match=r"cells/000/goodput\.parquet: is damaged.*weir run.*--no-verify"):
        open_run(folder).table("goodput")
    table.write_bytes(b"not parquet")
    with pytest.raises(DamageError, match=r"cells/000/goodput\.parquet is damaged: it has 11 bytes instead of"):
        open_run(folder)
    table.unlink()
    with pytest.raises(DamageError, match=r"cells/000/goodput\.parquet is missing"):
        open_run(folder)


@pytest.mark.filterwarnings("ignore::weir.run.RunWarning")
@pytest.mark.parametrize("verify", [True, False])
def test_a_damaged_table_of_an_older_version_is_told_too(tmp_path: Path, verify: bool) -> None:
    folder = sweep(tmp_path / "run")
    forget_checksums(folder)
    table = folder / "cells" / "000" / "goodput.parquet"
    content = table.read_bytes()
    for damaged in (b"not parquet", content[:-200], b""):
        table.write_bytes(damaged)
        with pytest.raises(RunError, match=r"goodput\.parquet"):
            open_run(folder, verify=verify).table("goodput")
    table.unlink()
    with pytest.raises(RunError, match="missing"):
        open_run(folder, verify=verify).table("goodput")


def test_a_run_of_an_older_version_opens_with_a_warning(tmp_path: Path) -> None:
    folder = sweep(tmp_path / "run")
    expected = open_run(folder).metrics("goodput.mean")
    forget_checksums(folder)
    with pytest.warns(RunWarning, match="no checksums, as an older version of weir wrote it"):
        run = open_run(folder)
    assert run.metrics("goodput.mean").equals(expected)


@pytest.mark.filterwarnings("ignore::weir.run.RunWarning")
def test_a_table_with_former_names_of_columns_is_of_an_older_version(tmp_path: Path) -> None:
    folder = sweep(tmp_path / "run")
    forget_checksums(folder)
    file = folder / "cells" / "000" / "goodput.parquet"
    pl.read_parquet(file).rename({"sent_ip_bytes": "sent_bytes"}).write_parquet(file)
    expected = r"goodput\.parquet.*older version of weir \(sent_bytes is now sent_ip_bytes\).*executes its cells again"
    with pytest.raises(RunError, match=expected):
        open_run(folder).metrics("goodput.mean")


def test_a_file_is_checked_when_it_is_read_and_again_when_it_has_changed(tmp_path: Path) -> None:
    folder = sweep(tmp_path / "run")
    cell = open_run(folder).cells[0]
    flip(folder / "cells" / "000" / "samples.parquet")
    cell.table("goodput")
    cell.table("goodput")
    flip(folder / "cells" / "000" / "goodput.parquet")
    for name in ("samples", "goodput"):
        with pytest.raises(DamageError, match=name):
            cell.table(name)


@pytest.mark.parametrize("name", ["manifest.json", "cells/001/manifest.json", "cells/001/plan.json"])
def test_a_flipped_bit_in_a_document_is_damage(tmp_path: Path, name: str) -> None:
    folder = sweep(tmp_path / "run")
    content = (folder / name).read_text()
    changed = content.replace("synthetic", "synthetid", 1)
    assert changed != content
    (folder / name).write_text(changed)
    with pytest.raises(DamageError, match=rf"{name}: is damaged"):
        open_run(folder).plan("001")


def test_cells_that_changed_places_are_damage(tmp_path: Path) -> None:
    cells = sweep(tmp_path / "run") / "cells"
    for old, new in (("000", "x"), ("001", "000"), ("x", "001")):
        (cells / old).rename(cells / new)
    with pytest.raises(DamageError, match="is that of cell 001"):
        open_run(tmp_path / "run")


def test_a_cell_of_another_run_is_damage(tmp_path: Path) -> None:
    folder = sweep(tmp_path / "run")
    other = write_run(tmp_path / "other", [CellSpec([FlowSpec([1.0])], factors={"cc": "reno", "rtt": "100ms"})])
    shutil.rmtree(folder / "cells" / "000")
    shutil.copytree(other / "cells" / "000", folder / "cells" / "000")
    with pytest.raises(DamageError, match="another execution"):
        open_run(folder)


def test_a_copy_of_a_cell_is_no_cell_of_the_run(tmp_path: Path) -> None:
    folder = sweep(tmp_path / "run")
    shutil.copytree(folder / "cells" / "000", folder / "cells" / "000 (copy)")
    with pytest.warns(RunWarning, match=r"cells/000 \(copy\) is left out"):
        assert len(open_run(folder).cells) == 8


@pytest.mark.filterwarnings("ignore::weir.run.RunWarning")
def test_a_cell_with_other_factors_is_none_of_the_run(tmp_path: Path) -> None:
    folder = sweep(tmp_path / "run")
    file = folder / "cells" / "003" / "manifest.json"
    file.write_text(file.read_text().replace('"cc": ', '"dd": '))
    forget_checksums(folder)
    with pytest.raises(DamageError, match=r"003/manifest\.json: has the factors dd, rtt"):
        open_run(folder)
    assert len(open_run(folder, verify=False).cells) == 7


def test_a_cell_that_is_gone_is_damage(tmp_path: Path) -> None:
    folder = sweep(tmp_path / "run")
    shutil.rmtree(folder / "cells" / "003")
    with pytest.raises(DamageError, match=r"cells/003/manifest\.json is missing"):
        open_run(folder)


@pytest.mark.parametrize("name", ["a b", "a*b?[c]", "line\nbreak", "\x1b]0;x\x07", os.fsdecode(b"\xff\xfe"), "\u202eq"])
def test_a_run_may_have_any_name(tmp_path: Path, name: str) -> None:
    folder = sweep(tmp_path / "run").rename(tmp_path / name)
    assert open_run(folder).metrics("goodput.mean").height == 4
    flip(folder / "cells" / "000" / "goodput.parquet")
    with pytest.raises(DamageError) as caught:
        open_run(folder).metrics("goodput.mean")
    assert str(caught.value).isprintable()


def test_a_plan_without_a_field_is_refused(tmp_path: Path) -> None:
    folder = write_cell(tmp_path / "cell", CellSpec([FlowSpec([8.0])]))
    plan = json.loads((folder / "plan.json").read_text())
    del plan["flows"][0]["group"]
    (folder / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(DamageError):
        open_run(folder)
    with pytest.raises(RunError, match=r"plan\.json: lacks the field flows\[0\]\.group; expected a plan"):
        open_run(folder, verify=False).plan()


@pytest.mark.parametrize("table", ["goodput", "samples", "links"])
def test_a_plan_of_more_intervals_than_a_reader_holds_is_refused_with_the_bound(tmp_path: Path, table: str) -> None:
    folder = write_cell(tmp_path / "cell", CellSpec([FlowSpec([8.0])]))
    plan = json.loads((folder / "plan.json").read_text())
    plan["measure"] = {"goodput_ns": 1, "tcp_ns": 1, "links_ns": 1}
    (folder / "plan.json").write_text(json.dumps(plan))
    seal_cell(folder)
    cell = open_run(folder).cells[0]
    with pytest.raises(RunError, match=rf"10000000000 intervals of '{table}'; expected at most 16777216"):
        cell.table(table)


def test_an_instant_far_after_the_end_is_refused(tmp_path: Path) -> None:
    folder = write_cell(tmp_path / "cell", CellSpec([FlowSpec([8.0] * 10)]))
    file = folder / "goodput.parquet"
    late = pl.when(pl.col("time_ns") == 10**10).then(2**63).otherwise("time_ns").cast(pl.UInt64)
    pl.read_parquet(file).with_columns(time_ns=late).write_parquet(file)
    seal_cell(folder)
    with pytest.raises(RunError, match=r"goodput\.parquet: time_ns has the instant 9223372036854775808 ns"):
        open_run(folder).metrics("goodput.mean")


FIELDS: list[tuple[str, list[str | int], object, str]] = [
    ("plan", ["end_ns"], 0, "end_ns is 0; expected an integer from 1 to"),
    ("plan", ["end_ns"], 2**63, "end_ns is 9223372036854775808; expected an integer"),
    ("plan", ["end_ns"], 1e9, "end_ns is 1000000000.0; expected an integer"),
    ("plan", ["end_ns"], True, "end_ns is True; expected an integer"),
    ("plan", ["flows"], {}, "flows is an object; expected a list"),
    ("plan", ["flows", 0], [], r"flows\[0\] is a list; expected an object"),
    ("plan", ["flows", 0, "path"], [7], r"flows\[0\]\.path\[0\] is 7; expected an integer from 0 to 0"),
    ("plan", ["flows", 0, "path"], [], r"flows\[0\]\.path is a list; expected at least one link"),
    ("plan", ["flows", 0, "name"], 3, r"flows\[0\]\.name is 3; expected a text"),
    ("plan", ["flows", 0, "transport", "protocol"], "\x1b[2J", r"flows\[0\]\.transport\.protocol is '\\x1b\[2J'"),
    ("plan", ["links", 0, "rate_bps"], 0, r"links\[0\]\.rate_bps is 0; expected an integer from 1"),
    ("plan", ["links", 0, "delay"], None, r"links\[0\]\.delay is None; expected an object"),
    ("plan", ["measure", "links"], [5], r"measure\.links\[0\] is 5"),
    ("manifest", ["repeat"], -1, "repeat is -1; expected an integer from 0"),
    ("manifest", ["factors"], [], "factors is a list; expected an object"),
    ("manifest", ["factors"], {"cc": {}}, r"factors\.cc is an object; expected a text or a number"),
    ("manifest", ["warnings"], [1], r"warnings\[0\] is 1; expected a text"),
]


@pytest.mark.parametrize(("document", "path", "value", "said"), FIELDS)
def test_a_field_of_another_type_or_out_of_range_is_named(
    tmp_path: Path, document: str, path: list[str | int], value: object, said: str
) -> None:
    folder = write_cell(tmp_path / "cell", CellSpec([FlowSpec([8.0])]))
    file = folder / f"{document}.json"
    held = json.loads(file.read_text())
    holder = held
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    file.write_text(json.dumps(held))
    with pytest.raises(RunError, match=rf"{document}\.json: (lacks the field )?({said})"):
        open_run(folder, verify=False).plan()


@pytest.mark.parametrize("depth", [65, 5_000, 200_000])
def test_a_document_is_not_nested_without_end(tmp_path: Path, depth: int) -> None:
    folder = write_cell(tmp_path / "cell", CellSpec([FlowSpec([8.0])]))
    for name in ("plan.json", "manifest.json"):
        (folder / name).write_text('{"a": ' + "[" * depth + "]" * depth + "}")
        with pytest.raises(RunError, match=f"{name}: is nested too deeply; expected at most 64 levels"):
            open_run(folder, verify=False).plan()


def test_a_document_is_not_larger_than_memory(tmp_path: Path) -> None:
    folder = write_cell(tmp_path / "cell", CellSpec([FlowSpec([8.0])]))
    os.truncate(folder / "manifest.json", 20_000_000_000)
    with pytest.raises(RunError, match="has 20000000000 bytes; expected at most 268435456"):
        open_run(folder)


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


def test_a_table_that_does_not_fit_into_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal rows cost a file next to nothing."""
    run = weir.open(sweep(tmp_path / "run"))
    assert run.cells[0].table("goodput").collect().height == 10
    monkeypatch.setattr("weir._memory.machine_bytes", lambda: 4 * 300)
    with pytest.raises(RunError, match="has 10 rows; expected at most 9: a quarter of this machine's memory"):
        run.cells[0].table("goodput")


def test_too_little_memory_is_no_defect_of_weir(capsys: pytest.CaptureFixture[str]) -> None:
    assert _errors.report(MemoryError("unable to allocate")) == _errors.FAILED
    assert capsys.readouterr().err == "weir: there is too little memory for this\n"
