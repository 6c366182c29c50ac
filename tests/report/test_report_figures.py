"""Figures for papers: valid, of a column's width, complete, and reproducible."""

from __future__ import annotations

import csv
import json
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
from synthetic import Cell, Dumbbell, write_run

from shared import seal_run
from weir.report import ReportError, Size, figures
from weir.run import Run, open_run


@pytest.fixture(scope="module")
def written(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures")
    paths = figures(open_run(small), folder)
    assert paths == sorted(p for p in folder.rglob("*") if p.is_file())
    return folder


def test_every_figure_comes_as_svg_pdf_and_csv(written: Path) -> None:
    stems = {p.relative_to(written).with_suffix("") for p in written.rglob("*.svg")}
    assert {p.relative_to(written).with_suffix("") for p in written.rglob("*.pdf")} == stems
    assert Path("by-goodput-mean") in stems
    assert Path("cc-reno_rtt-100ms/cwnd") in stems
    for stem in stems:
        assert list(written.glob(f"{stem}.csv")) or list(written.glob(f"{stem}-*.csv")), stem


def test_svg_is_well_formed_and_as_wide_as_its_columns(written: Path) -> None:
    for path in written.rglob("*.svg"):
        root = ElementTree.parse(path).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        width = float(root.attrib["width"])
        assert min(abs(width - 252), abs(width - 516)) <= 3, (path.name, width)
        assert "currentColor" not in path.read_text()
        assert list(root.iter("{http://www.w3.org/2000/svg}path")), path.name


def test_a_figure_has_the_size_and_the_formats_that_are_asked_for(one: Path, tmp_path: Path) -> None:
    run = open_run(one)
    low, high = tmp_path / "low", tmp_path / "high"
    figures(run, low, ["svg", "png"], ["goodput-total"], Size(width_pt=340, height_pt=60))
    figures(run, high, ["svg"], ["goodput-total"], Size(width_pt=340, height_pt=160))
    assert sorted(p.name for p in low.iterdir()) == ["goodput-total.png", "goodput-total.svg"]
    roots = [ElementTree.parse(folder / "goodput-total.svg").getroot() for folder in (low, high)]
    widths, heights = zip(*((float(r.attrib["width"]), float(r.attrib["height"])) for r in roots), strict=True)
    assert all(abs(width - 340) <= 3 for width in widths)
    assert heights[1] - heights[0] >= 50
    header = (low / "goodput-total.png").read_bytes()[:24]
    assert abs(int.from_bytes(header[16:20], "big") - widths[0] * 300 / 72) <= 2


def test_pdf_has_one_page_of_the_same_size_and_its_fonts_inside(written: Path) -> None:
    for path in written.rglob("*.pdf"):
        data = path.read_bytes()
        assert data.startswith(b"%PDF-")
        assert data.rstrip().endswith(b"%%EOF")
        box = re.search(rb"/MediaBox ?\[([\d. ]+)\]", data)
        assert box is not None
        width = float(box[1].split()[2])
        assert min(abs(width - 252), abs(width - 516)) <= 3
        assert b"/FontFile2" in data, path.name


def test_pdf_offsets_are_right(written: Path) -> None:
    data = next(written.rglob("recoveries.pdf"), next(written.rglob("cwnd.pdf"))).read_bytes()
    start = int(re.findall(rb"startxref\s+(\d+)", data)[-1])
    assert data[start : start + 4] == b"xref"
    entries = re.findall(rb"(\d{10}) \d{5} n", data[start:])
    for number, entry in enumerate(entries, 1):
        assert data[int(entry) :].startswith(b"%d 0 obj" % number)
    for stream in re.findall(rb"/Filter /FlateDecode\s*>>\s*stream\r?\n(.*?)\r?\nendstream", data, re.S)[:5]:
        zlib.decompress(stream)


def test_csv_holds_what_is_drawn(written: Path) -> None:
    frame = pl.read_csv(written / "by-goodput-mean.csv")
    assert {"rtt (ms)", "cc", "panel", "Mean goodput (Mbps)", "repeats"} <= set(frame.columns)
    assert set(frame["cc"]) == {"reno", "bic"}


def test_the_same_run_gives_the_same_figures(written: Path, small: Path, tmp_path: Path) -> None:
    names = ["by-goodput-mean", "cwnd", "recoveries", "goodput-grid"]
    for path in figures(open_run(small), tmp_path, only=names):
        assert path.read_bytes() == (written / path.relative_to(tmp_path)).read_bytes(), path.name


def test_one_cell_needs_no_folders_and_only_what_is_asked_is_made(one: Path, tmp_path: Path) -> None:
    paths = figures(open_run(one), tmp_path, formats=["svg"], only=["rtt", "queue"])
    assert [p.relative_to(tmp_path).as_posix() for p in paths] == ["queue.svg", "rtt.svg"]


def cases(folder: Path, values: Sequence[str]) -> Run:
    """A run that was swept over ``case``, with arbitrary values."""
    write_run(folder, [Cell({"case": str(k)}) for k, _ in enumerate(values)], bell=Dumbbell(flows=2, duration=4))
    for file in (folder / "manifest.json", *folder.glob("cells/*/manifest.json")):
        manifest = json.loads(file.read_text())
        for cell in manifest.get("cells", [manifest]):
            cell["factors"]["case"] = values[int(cell["factors"]["case"])]
        file.write_text(json.dumps(manifest))
    return open_run(seal_run(folder))


def test_labels_that_differ_in_what_no_file_name_takes_have_figures_of_their_own(tmp_path: Path) -> None:
    values = ("a/b", "a:b", "a b", "x" * 300, "x" * 299 + "y", "Reno", "reno", "\u202e", "e\u0301", "../..", "plain")
    paths = figures(cases(tmp_path / "run", values), tmp_path / "out", formats=["csv"], only=["goodput-total"])
    folders = {p.parent.name for p in paths if p.parent != tmp_path / "out"}
    assert len({name.casefold() for name in folders}) == len(values)
    assert all(re.fullmatch(r"[A-Za-z0-9._+-]{1,100}", name) for name in folders)
    assert "case-plain" in folders
    with (tmp_path / "out" / "index.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["folder"] for row in rows} == folders
    written = {*values, r"\u202e"} - {"\u202e"}  # nothing in a table reorders what a reader sees
    assert {row["case"] for row in rows} == written
    fewer = figures(
        cases(tmp_path / "two", ("a/b", "plain")), tmp_path / "again", formats=["csv"], only=["goodput-total"]
    )
    assert {"case-a_b", "case-plain"} < {p.parent.name for p in fewer}


def test_two_hundred_flows_can_be_printed(many: Path, tmp_path: Path) -> None:
    (path,) = figures(open_run(many), tmp_path, formats=["svg"], only=["goodput-flows"])
    assert path.stat().st_size < 6e6
    ElementTree.parse(path)


def test_unknown_names_are_refused_with_the_nearest(one: Path, tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"no chart 'cwmd'.*cwnd"):
        figures(open_run(one), tmp_path, only=["cwmd"])
    with pytest.raises(ReportError, match=r"no format 'gif'.*svg, pdf, csv, png"):
        figures(open_run(one), tmp_path, formats=["gif"])
