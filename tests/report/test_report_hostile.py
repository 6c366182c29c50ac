"""Malicious runs: links, endless files, bombs of YAML, formulas in tables."""

from __future__ import annotations

import csv
import json
import os
import resource
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from synthetic import Cell, Dumbbell, write_run

from shared import Weir, argv, environment, seal_run
from weir.report import figures
from weir.report.figures import _csv
from weir.report.names import as_text
from weir.run import RunError, open_run

_HANG_S = 120.0
_MEMORY = 3 << 29
"""Limit on the address space of a report in bytes: the libraries map more than one of them."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two cells; the files beside it must stay unchanged."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "index.csv").write_text("precious")
    (tmp_path / "secret").write_text("root:$6$secret")
    cells = [Cell({"cc": cc}) for cc in ("reno", "cubic")]
    return write_run(tmp_path / "run", cells, bell=Dumbbell(flows=2, duration=4))


def _nothing_outside_changed(run: Path) -> None:
    assert [path.name for path in (run.parent / "outside").iterdir()] == ["index.csv"]
    assert (run.parent / "outside" / "index.csv").read_text() == "precious"
    assert (run.parent / "secret").read_text() == "root:$6$secret"


@pytest.mark.parametrize("name", ["report.html", "figures", "figures/cc-reno", "figures/index.csv"])
def test_no_figure_and_no_page_is_written_through_a_link(weir: Weir, run: Path, name: str) -> None:
    (run / "figures").mkdir()
    place = run / name
    if place.is_dir():
        shutil.rmtree(place)
    place.symlink_to(run.parent / ("secret" if place.suffix else "outside"))
    ran = weir("report", run, "--figures", "--only", "goodput-total")
    assert ran.code == 2, ran.out
    assert f"{place}: is a symbolic link; expected " in ran.err
    _nothing_outside_changed(run)
    assert place.is_symlink()


def test_the_folder_given_may_be_reached_by_a_link(weir: Weir, run: Path) -> None:
    (run.parent / "link").symlink_to(run)
    (run.parent / "mine").symlink_to(run.parent / "outside")
    ran = weir("report", run.parent / "link", "--out", run.parent / "mine", "--figures", "--only", "goodput-total")
    assert ran.code == 0, ran.err
    assert (run.parent / "outside" / "report.html").is_file()
    assert (run.parent / "outside" / "figures" / "index.csv").is_file()
    figures(open_run(run), run.parent / "mine", formats=["csv"], only=["goodput-total"])


@pytest.mark.parametrize("name", ["scenario.yaml", "manifest.json", "cells/CELL/plan.json", "cells/CELL/flows.parquet"])
@pytest.mark.parametrize("kind", ["link", "zero", "pipe"])
def test_what_is_no_plain_file_is_not_read(weir: Weir, run: Path, name: str, kind: str) -> None:
    cell = min(path.name for path in (run / "cells").iterdir())
    place = run / name.replace("CELL", cell)
    place.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to("/dev/zero" if kind == "zero" else run.parent / "secret")
    ran = weir("report", run)
    assert ran.code == 2, ran.out
    assert "is a pipe" in ran.err if kind == "pipe" else "is a symbolic link" in ran.err
    assert "secret" not in ran.out + ran.err.replace(str(run), "")
    assert not (run / "report.html").exists()


def test_cells_elsewhere_are_not_this_runs(run: Path) -> None:
    (run / "cells").rename(run.parent / "elsewhere")
    (run / "cells").symlink_to(run.parent / "elsewhere")
    with pytest.raises(RunError, match="cells: is a symbolic link; expected a folder"):
        open_run(run)


# The text of the scenario --------------------------------------------------------------------------------------------


def _bomb() -> str:
    lines = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}' if n else 'lol'] * 9)}]" for n in range(9)]
    return "\n".join([*lines, "source: *a8"])


TEXTS: dict[str, Callable[[], str]] = {
    "bomb": _bomb,
    "deep": lambda: "source: " + "[" * 5000 + "]" * 5000,
    "self": lambda: "source: &a [*a]",
    "integer": lambda: f"source: 0b{'1' * 20_000}\nrationale: {'9' * 20_000}",
    "date": lambda: "source: 2001-99-99",
    "twice": lambda: "source: a\nsource: b",
    "tag": lambda: 'source: !!python/object/apply:os.system ["touch escaped"]',
    "nothing": lambda: "",
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_is_no_scenario_costs_nothing(run: Path, name: str) -> None:
    text = TEXTS[name]()
    (run / "scenario.yaml").write_text(text)
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["scenario"] = {"path": "s.yaml", "text": text}
    (run / "manifest.json").write_text(json.dumps(manifest))
    seal_run(run)
    done = subprocess.run(
        argv("report", str(run)),
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=_HANG_S,
        cwd=run.parent,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY)),
    )
    assert done.returncode == 0, done.stderr
    assert "internal error" not in done.stderr
    assert not (run.parent / "escaped").exists()


def test_a_scenario_of_no_size_that_there_is_is_refused(run: Path) -> None:
    with (run / "scenario.yaml").open("wb") as file:
        file.truncate(20_000_000_000)
    with pytest.raises(RunError, match="has 20000000000 bytes; expected at most"):
        _ = open_run(run, verify=False).scenario


# Tables --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("=1+1", "'=1+1"),
        ('=HYPERLINK("http://x")', '\'=HYPERLINK("http://x")'),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-2+3", "'-2+3"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\uff1d1", "'\uff1d1"),
        ("\t=1", "'\\t=1"),
        ("\r=1", "'\\x0d=1"),
        ("\n=1", "'\\n=1"),
        ("a\x1b[31m\u202eb", "a\\x1b[31m\\u202eb"),
        ("-5", "-5"),
        ("+1.5e-3", "+1.5e-3"),
        ("cubic", "cubic"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_a_text_is_no_formula_and_moves_no_cursor(text: str, written: str) -> None:
    assert as_text(text) == written


def test_the_data_of_a_figure_has_texts_and_numbers() -> None:
    frame = pl.DataFrame({"=name": ["=1", "reno", None], "value": [-1.5, 2.0, None]})
    rows = list(csv.reader(_csv(frame, {"value": "-value"}).decode().splitlines()))
    assert rows == [["'=name", "'-value"], ["'=1", "-1.5"], ["reno", "2.0"], ["", ""]]


def test_the_tables_of_a_hostile_run_have_no_formulas(run: Path, tmp_path: Path) -> None:
    evil = '=HYPERLINK("http://x","y")\x1b]0;evil\x07\u202e'
    for file in (run / "manifest.json", *run.glob("cells/*/manifest.json")):
        document = json.loads(file.read_text())
        for cell in document.get("cells", [document]):
            cell["factors"] = {evil: evil + cell["factors"]["cc"]}
        file.write_text(json.dumps(document))
    seal_run(run)
    figures(open_run(run), tmp_path / "out", formats=["csv"])
    tables = sorted((tmp_path / "out").rglob("*.csv"))
    assert tmp_path / "out" / "index.csv" in tables
    seen = 0
    for file in tables:
        content = file.read_text(encoding="utf-8")
        assert not set(content) & {"\x1b", "\x07", "\u202e", "\r", "\t"}, file.name
        for row in csv.reader(content.splitlines()):
            for value in row:
                seen += value.startswith("'=HYPERLINK")
                assert value[:1] not in {"=", "@"}, (file.name, value)
    assert seen > 4
