"""The terminal and the page agree on a run: the same windows, directions and numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from reading import Page, read_page
from synthetic import Dumbbell, write_run

from shared import Weir
from weir.report import build
from weir.run import open_run


def _show(weir: Weir, folder: Path, *options: str) -> str:
    ran = weir("show", str(folder), *options)
    assert ran.code == 0, ran.err
    return ran.out


def _said(page: Page) -> dict[str, list[str]]:
    """The rows of the summary: text of the fields by name."""
    table = next(e for e in page.all("table") if "Metric" in e.text)
    cells = [e for e in page.elements if e.tag in ("th", "td")]
    start = next(i for i, e in enumerate(cells) if e.tag == "th" and e.text == "Metric")
    rows: dict[str, list[str]] = {}
    name = ""
    for element in cells[start + 1 :]:
        if element.tag == "th":
            name = element.text
            if name in rows:
                break
            rows[name] = []
        else:
            rows[name].append(element.text)
    assert table
    return rows


@pytest.mark.parametrize("uploads", [0, 2])
@pytest.mark.parametrize("phases", [(), ("five", "all")], ids=["whole run", "phases"])
def test_show_and_the_report_have_the_same_windows_and_directions(
    weir: Weir, tmp_path: Path, uploads: int, phases: tuple[str, ...]
) -> None:
    bell = Dumbbell(flows=7, duration=24, every=2, step=0.5, uploads=uploads, phase_names=phases)
    folder = write_run(tmp_path / "run", bell=bell)
    rows: list[dict[str, Any]] = json.loads(_show(weir, folder, "--json"))["metrics"]
    page = read_page(build(open_run(folder)))
    said = _said(page)
    assert {row["phase"] for row in rows} == (set(phases) or {None})
    assert len(rows) == 3 * max(1, len(phases)) * (2 if uploads else 1)
    places = list(phases) or [None]
    for row in rows:
        way = f", {row['direction']}" if uploads else ""
        (name,) = [n for n in said if re.match(rf"{re.escape(row['metric'])}( \(\w+\))?{way}( \(\w+\))?$", n)]
        text = said[name][places.index(row["phase"])].replace("\u202f", "")
        if row["value"] is None:  # no upload has begun
            assert text == "–"
            continue
        unit = {"Mbps": 1e6, "Gbps": 1e9}.get(name.split("(")[-1].rstrip(")"), 1.0)
        assert float(text) * unit == pytest.approx(row["value"], rel=6e-3), (name, row)


def test_a_metric_that_is_asked_for_says_which_window_it_is_of(weir: Weir, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", bell=Dumbbell(flows=3, duration=24, every=2, step=0.5))
    assert "over the whole run, unless a phase is named" in _show(weir, folder, "-m", "goodput.mean")
    assert "whole run" not in _show(weir, folder, "-m", "goodput.mean", "--phase", "all")
    assert "whole run" not in _show(weir, folder, "-m", "goodput.mean@all")
    assert "whole run" in _show(weir, folder, "-m", "goodput.mean@all", "-m", "jain")
    assert "all" in _show(weir, folder).split()


def test_packets_are_counted(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", bell=Dumbbell(flows=3, duration=60, every=2, step=0.5, capacity=1e9))
    page = read_page(build(open_run(folder)))
    at = next(i for i, e in enumerate(page.elements) if e.text.startswith("Retransmitted (packets)"))
    fields = [e.text for e in page.elements[at:] if e.tag == "td"][:7]
    assert re.fullmatch(r"\d{1,3}(\u202f\d{3})*", fields[4]), fields
    assert re.fullmatch(r"\d+", fields[6]), fields
