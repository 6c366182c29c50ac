"""Runs as a whole: folders, manifests, failures, identity, workers."""

from __future__ import annotations

import json
from pathlib import Path

import fake
import pyarrow.parquet as pq
import pytest
from engine_support import leftovers, results

from weir import engine, methods
from weir.engine._estimate import estimate
from weir.run.tables import TABLES, arrow_schema


def run(out: Path, *titles: str, **options: object) -> engine.Result:
    return engine.run(fake.scenario(*titles), out, method=fake.METHOD, **options)  # type: ignore[arg-type]


def test_a_run_has_every_table_a_plan_and_two_levels_of_manifests(tmp_path: Path) -> None:
    result = run(tmp_path / "r", "rows=1000", "warn")
    assert (result.cells, result.executed, result.failures) == (2, 2, ())
    assert result.warnings == ("c1: a warning",)
    for cell in ("c0", "c1"):
        folder = tmp_path / "r" / "cells" / cell
        for table in (name for name, table in TABLES.items() if not table.optional):
            assert pq.read_schema(folder / f"{table}.parquet").equals(arrow_schema(table)), table
        assert not (folder / "delays.parquet").exists(), "nothing asked for it"
        assert json.loads((folder / "plan.json").read_text())["title"] == {"c0": "rows=1000", "c1": "warn"}[cell]
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_text())
    assert manifest["scenario"]["text"] == (tmp_path / "r" / "scenario.yaml").read_text() == "title: Fake\n"
    assert [(c["id"], c["status"], c["seed"]) for c in manifest["cells"]] == [("c0", "done", 1), ("c1", "done", 2)]
    assert manifest["versions"]["weir"]
    assert manifest["host"]["kernel"]
    assert manifest["start"] <= manifest["end"]
    assert leftovers(tmp_path / "r") == []


def test_rows_arrive_in_order_and_row_groups_do_not_depend_on_batches(tmp_path: Path) -> None:
    run(tmp_path / "a", "rows=150000 batch=777")
    run(tmp_path / "b", "rows=150000 batch=150000")
    a, b = (pq.ParquetFile(tmp_path / r / "cells/c0/goodput.parquet") for r in "ab")
    assert a.read().equals(b.read())
    assert [a.metadata.row_group(i).num_rows for i in range(a.num_row_groups)] == [65536, 65536, 18928]
    assert (tmp_path / "a/cells/c0/goodput.parquet").read_bytes() == (
        tmp_path / "b/cells/c0/goodput.parquet"
    ).read_bytes()


def test_one_worker_and_two_give_the_same_bytes(tmp_path: Path) -> None:
    titles = [f"rows={n}" for n in (100, 5000, 1, 70000, 2000)]
    run(tmp_path / "one", *titles, workers=1)
    run(tmp_path / "two", *titles, workers=2)
    assert results(tmp_path / "one") == results(tmp_path / "two")
    entries = [json.loads((tmp_path / r / "manifest.json").read_text())["cells"] for r in ("one", "two")]
    assert [[c["id"] for c in e] for e in entries] == [["c0", "c1", "c2", "c3", "c4"]] * 2


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("refuse", "flows[0]: no such congestion control"),
        ("bug", "ZeroDivisionError: a defect"),
        ("die", "its process died of SIGABRT"),
    ],
)
def test_a_failing_cell_is_recorded_and_does_not_stop_the_others(tmp_path: Path, title: str, said: str) -> None:
    result = run(tmp_path / "r", "rows=10", title, "rows=20", workers=1)
    assert [(f.cell, f.error) for f in result.failures] == [("c1", said)]
    assert bool(result.failures[0].trace) == (title == "bug")
    cells = json.loads((tmp_path / "r/manifest.json").read_text())["cells"]
    assert [c["status"] for c in cells] == ["done", "failed", "done"]
    assert cells[1]["error"] == said
    assert f"c1: failed: {said}" in result.warnings
    assert not (tmp_path / "r/cells/c1").exists()
    assert leftovers(tmp_path / "r") == []


def test_a_second_call_executes_only_what_failed(tmp_path: Path) -> None:
    assert run(tmp_path / "r", "rows=10", "refuse").executed == 2
    again = run(tmp_path / "r", "rows=10", "refuse")
    assert again.executed == 1
    assert [f.cell for f in again.failures] == ["c1"]


def test_a_complete_run_is_left_alone(tmp_path: Path) -> None:
    run(tmp_path / "r", "rows=10", "warn")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "r").rglob("*.*") if p.is_file() and p.name != ".lock"}
    again = run(tmp_path / "r", "rows=10", "warn")
    assert again.executed == 0
    assert again.warnings == ("c1: a warning",)
    assert {p: p.stat().st_mtime_ns for p in before} == before


def test_a_run_that_lacks_its_manifest_alone_gets_it_and_nothing_else(tmp_path: Path) -> None:
    run(tmp_path / "r", "rows=7")
    (tmp_path / "r" / "manifest.json").unlink()
    assert run(tmp_path / "r", "rows=7").executed == 0
    assert (tmp_path / "r" / "manifest.json").exists()
    assert leftovers(tmp_path / "r") == []
    assert not (tmp_path / "r" / ".partial").exists()


def test_the_folder_of_another_run_is_refused_and_untouched(tmp_path: Path) -> None:
    run(tmp_path / "r", "rows=10")
    before = results(tmp_path / "r")
    other = fake.FakeScenario(fake.scenario("rows=11").cell_list, title="Other", text="title: Other\n")
    with pytest.raises(engine.FolderError, match=r"holds another run: of the scenario 'Fake'.*--out.*--fresh"):
        engine.run(other, tmp_path / "r", method=fake.METHOD)
    edited = fake.FakeScenario(fake.scenario("rows=11").cell_list, text="title: Fake\nseed: 2\n")
    with pytest.raises(engine.FolderError, match="was edited since"):
        engine.run(edited, tmp_path / "r", method=fake.METHOD)
    with pytest.raises(engine.FolderError, match=r"other settings \(none instead of --quick\)"):
        run(tmp_path / "r", "rows=10", settings={"quick": True})
    with pytest.raises(engine.FolderError, match="by method 'fake:Fake'"):
        engine.run(fake.scenario("rows=10"), tmp_path / "r", method="fake:Real")
    assert results(tmp_path / "r") == before


def test_fresh_replaces_a_run_but_never_a_folder_of_something_else(tmp_path: Path) -> None:
    run(tmp_path / "r", "rows=10", "rows=20")
    other = fake.FakeScenario(fake.scenario("rows=11").cell_list, title="Other", text="title: Other\n")
    assert engine.run(other, tmp_path / "r", method=fake.METHOD, fresh=True).executed == 1
    assert sorted(p.name for p in (tmp_path / "r/cells").iterdir()) == ["c0"]
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("precious")
    (tmp_path / "home" / "figures").mkdir()
    with pytest.raises(engine.FolderError, match="is not empty and holds no run"):
        run(tmp_path / "home", "rows=10", fresh=True)
    assert sorted(p.name for p in (tmp_path / "home").iterdir()) == ["figures", "thesis.tex"]


@pytest.mark.parametrize("name", ["weir.__version__", "weir.run.tables.FORMAT"])
def test_cells_of_another_version_are_executed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    run(tmp_path / "r", "rows=10")
    monkeypatch.setattr(name, "99.0.0")
    assert run(tmp_path / "r", "rows=10").executed == 1


def test_a_rebuilt_congestion_control_is_executed_again(tmp_path: Path) -> None:
    library = tmp_path / "my_cc.so"

    class UserCell(fake.FakeCell):
        def plan(self) -> dict[str, object]:
            made = super().plan()
            made["flows"][0]["transport"]["cc"] = str(library)
            return made

    scenario = fake.FakeScenario((UserCell("c0", "rows=10"),))
    library.write_bytes(b"one")
    assert engine.run(scenario, tmp_path / "r", method=fake.METHOD).executed == 1
    assert engine.run(scenario, tmp_path / "r", method=fake.METHOD).executed == 0
    library.write_bytes(b"two")
    assert engine.run(scenario, tmp_path / "r", method=fake.METHOD).executed == 1


def test_a_real_clock_gets_one_worker(tmp_path: Path) -> None:
    engine.run(fake.scenario("rows=10", "rows=20"), tmp_path / "r", method="fake:Real", workers=8)
    assert json.loads((tmp_path / "r/manifest.json").read_text())["workers"] == 1


def test_what_the_machine_does_not_carry_is_refused_unless_forced(tmp_path: Path) -> None:
    short, long = fake.scenario("rows=10"), fake.scenario("rows=10", "rows=10 seconds=11")
    engine.run(short, tmp_path / "short", method="fake:Small")
    message = r"cannot carry cell c1: it needs 11 seconds \(there are 10\); a known figure\. .*--force"
    with pytest.raises(methods.MethodError, match=message):
        engine.run(long, tmp_path / "long", method="fake:Small")
    assert not (tmp_path / "long").exists()
    assert engine.run(long, tmp_path / "long", method="fake:Small", force=True).executed == 2


def test_workers_are_limited_by_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weir.engine._host.available_bytes", lambda: 250_000_000)
    run(tmp_path / "r", "rows=10", "rows=20", workers=2)
    assert json.loads((tmp_path / "r/manifest.json").read_text())["workers"] == 1


def test_unknown_and_unavailable_methods(tmp_path: Path) -> None:
    with pytest.raises(methods.UnknownMethodError, match="no method 'simm'; there are: sim"):
        engine.run(fake.scenario(""), tmp_path / "r", method="simm")
    with pytest.raises(methods.UnknownMethodError, match="cannot be loaded"):
        engine.run(fake.scenario(""), tmp_path / "r", method="fake:Nothing")
    with pytest.raises(methods.UnknownMethodError, match="is not a method"):
        engine.run(fake.scenario(""), tmp_path / "r", method="builtins:dict")
    with pytest.raises(methods.MethodError, match="cannot run here: there is no moon"):
        engine.run(fake.scenario(""), tmp_path / "r", method="fake:Unavailable")
    assert not (tmp_path / "r").exists()


def test_an_out_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(engine.FolderError, match="is not a folder"):
        run(tmp_path / "file", "rows=10")


def test_the_estimate_of_one_flow_is_arithmetic() -> None:
    found = estimate(fake.plan())
    # 100 Mb/s for 10 s in packets of 1500 bytes; 5 ms of an MTU each in flight, and half as many acknowledgements.
    assert found.packets == round(100e6 / 8 * 10 / 1500)
    assert found.memory_bytes == pytest.approx(200e6 + 64 * 1.5 * 62_500 / 1500, rel=1e-6)
    assert (found.flows, found.end_s) == (1, 10.0)


def test_the_estimate_shares_a_bottleneck() -> None:
    shared = fake.plan()
    shared["flows"] = [dict(shared["flows"][0], name=f"f{i}", index=i) for i in range(10)]
    assert estimate(shared).packets == pytest.approx(estimate(fake.plan()).packets, abs=10)
