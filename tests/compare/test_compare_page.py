"""The report of a comparison: self-contained, complete, reproducible; and its figures."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from compare_support import Cell, write_run

import weir
from weir.compare import Comparison
from weir.compare.charts import _points

BROWSER = next((f for n in ("chromium", "chromium-browser", "google-chrome") if (f := shutil.which(n))), None)


@pytest.fixture
def comparison(pair: tuple[Path, Path]) -> Comparison:
    return weir.compare(pair)


@pytest.fixture
def page(comparison: Comparison, tmp_path: Path) -> str:
    return comparison.report(tmp_path / "page.html").read_text(encoding="utf-8")


def _charts(page: str, blob: str) -> list[dict[str, object]]:
    packed = re.search(rf'<script type="application/gzip" id="{blob}">([^<]*)<', page)
    assert packed, blob
    found: list[dict[str, object]] = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    return found


def test_the_page_holds_everything_and_may_load_nothing(page: str) -> None:
    assert not re.search(r"<(?:link|img|iframe|object)\b|@import|url\(", page.split("<script>")[0])
    assert not re.search(r'\bsrc="', page.split("<script>")[0])
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert "default-src &#39;none&#39;" in policy[1] or "default-src 'none'" in policy[1]
    for script in re.findall(r"<script>(.*?)</script>", page, re.DOTALL):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert digest in policy[1].replace("&#43;", "+").replace("&#61;", "=").replace("&#47;", "/")


def test_it_has_verdicts_differences_warnings_and_provenance(page: str) -> None:
    ids = re.findall(r'<section id="([a-z]+)"', page)
    assert ids == [
        "verdicts",
        "matrix",
        "metrics",
        "differences",
        "traces",
        "cells",
        "alignment",
        "warnings",
        "provenance",
    ]
    assert "the machine was busy" in page
    assert "all agree" in page
    assert re.search(r'<td class="number main d3">\+20 %</td>', page), "coloured by its size, and said in words"


def _seen(page: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", page.split("<main>")[0].split("<header>")[1]).split())


def _of(folder: Path, goodput: list[list[int]]) -> str:
    """The page of two runs of one repeat, of which the second has this goodput."""
    runs = [
        write_run(folder / name, [Cell(rates, factors={"cc": "reno"})], method=name)
        for name, rates in (("sim", [[20, 20], [10, 10]]), ("emul", goodput))
    ]
    return weir.compare(runs).report(folder / "page.html").read_text(encoding="utf-8")


def test_the_largest_differences_and_unknown_chance_stand_on_top(page: str, tmp_path: Path) -> None:
    said = _seen(_of(tmp_path / "other", [[20, 20], [13, 13]]))
    assert "Largest: " in said
    assert "goodput.aggregate.mean +10 %" in said
    assert "of a single flow goodput.mean +30 % (flow[1])" in said
    assert "Without repeats of both runs, it is unknown how much of a difference is chance." in said
    assert "chance" not in _seen(page), "its runs have repeats"


def test_a_series_that_is_only_shifted_in_time_has_no_colour(tmp_path: Path) -> None:
    shifted = [[10, 30, 10, 30, 10, 30], [10, 10, 10, 10, 10, 10]]
    back = [[30, 10, 30, 10, 30, 10], [10, 10, 10, 10, 10, 10]]
    runs = [write_run(tmp_path / n, [Cell(g)], method=n) for n, g in (("sim", shifted), ("emul", back))]
    text = weir.compare(runs).report(tmp_path / "page.html").read_text(encoding="utf-8")
    rows = text.split('<section id="traces"')[1].split("</section>")[0]
    assert '<td class="number" data-title="instant by instant">100 %</td>' in rows
    assert '<td class="number d0" data-title="of values">0 %</td>' in rows


def test_the_scatter_has_shares_in_percent_and_leaves_zeros_out(pair: tuple[Path, Path], tmp_path: Path) -> None:
    shares = ["efficiency.capacity.mean", "timeouts", "goodput.mean"]
    text = weir.compare(pair, metrics=shares).report(tmp_path / "page.html").read_text(encoding="utf-8")
    (chart,) = _charts(text, "run")
    points = chart["data"]["points"]  # type: ignore[index]
    assert set(points["panel"]) == {"efficiency.capacity.mean (%)", "goodput.mean (Mbps)"}
    assert chart["notes"] == ["Not drawn, because zero everywhere: timeouts."]
    known = zip(points["panel"], points["kind"], points["x"], points["flow"], strict=True)
    dots = [(panel, x, flow) for panel, kind, x, flow in known if kind == "point"]
    assert {x for panel, x, _ in dots if panel.startswith("efficiency")} == {30, 30.5}
    assert {flow for _, _, flow in dots} == {"all flows", "flow[0]", "flow[1]"}


def test_every_cell_has_its_overlays(page: str) -> None:
    for number in range(2):
        charts = _charts(page, f"cell-{number}-data")
        names = [chart["name"] for chart in charts]
        assert names == ["overlay-goodput-aggregate", "overlay-goodput", "overlay-cwnd", "overlay-queue"]
        series = charts[1]["data"]["series"]  # type: ignore[index]
        assert set(series["run"]) == {"sim", "emul"}
        assert set(series["name"]) == {"flow[0]", "flow[1]"}
        assert set(series["time_s"]) == {1, 2}


def test_the_scatter_has_a_diagonal_in_each_panel(page: str) -> None:
    (chart,) = _charts(page, "run")
    points = chart["data"]["points"]  # type: ignore[index]
    for panel in set(points["panel"]):
        ends = [
            (x, y)
            for name, kind, x, y in zip(points["panel"], points["kind"], points["x"], points["y"], strict=True)
            if name == panel and kind == "diagonal"
        ]
        assert len(ends) == 2
        assert all(x == y for x, y in ends)
        assert ends[0][0] < ends[1][0]


def test_the_same_comparison_gives_the_same_bytes(pair: tuple[Path, Path], page: str, tmp_path: Path) -> None:
    assert weir.compare(pair).report(tmp_path / "again.html").read_text(encoding="utf-8") == page


def test_figures_are_written_for_each_cell(comparison: Comparison, tmp_path: Path) -> None:
    written = comparison.figures(tmp_path / "figures", ["svg", "csv"])
    names = {str(path.relative_to(tmp_path / "figures")) for path in written}
    assert {"metric-against-metric.svg", "cc-bic/overlay-cwnd.svg", "cc-bic/overlay-cwnd.csv"} <= names
    assert all(path.stat().st_size for path in written)
    with pytest.raises(weir.report.ReportError, match="no format 'gif'"):
        comparison.figures(tmp_path / "figures", ["gif"])


@pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")
def test_a_browser_draws_every_chart_without_a_complaint(page: str, tmp_path: Path) -> None:
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
               f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=30000", "--dump-dom",
               (tmp_path / "page.html").as_uri()]  # fmt: skip
    assert page
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    assert 'data-ready="yes"' in done.stdout
    assert '<p class="problem">' not in done.stdout
    assert done.stdout.count('<svg xmlns="http://www.w3.org/2000/svg"') + done.stdout.count('class="marks"') >= 5


@pytest.mark.parametrize("values", [(18.99e6, 19.0e6), (19.0e6, 19.0e6)])
def test_values_that_hardly_differ_have_a_panel_of_some_width(values: tuple[float, float]) -> None:
    row = {"metric": "goodput.aggregate.mean", "flow": None, "unit": "bit/s", "cell": 0, "phase": None, "b": "lab",
           "a_value": values[0], "b_value": values[1]}  # fmt: skip
    own = pl.DataFrame([row], schema_overrides={"flow": pl.String, "phase": pl.String})
    points, _ = _points(SimpleNamespace(groups=[SimpleNamespace(name="cell")]), own)  # type: ignore[arg-type]
    ends = points.filter(pl.col("kind") == "diagonal")["x"].to_list()
    assert ends[1] - ends[0] >= 0.0199 * 19
