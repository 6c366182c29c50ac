"""The page in a real browser, without a network."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from reading import page_of
from synthetic import Cell, Dumbbell, write_run

BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
         "--enable-logging=stderr", "--virtual-time-budget=30000")  # fmt: skip

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")


def _browse(profile: Path, url: str, *flags: str) -> tuple[str, list[str]]:
    """The document after its scripts ran, and what they wrote to the console."""
    command = [str(BROWSER), *FLAGS, f"--user-data-dir={profile}", *flags, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def _page(run: Path) -> Path:
    page_of(run)
    return run / "report.html"


@pytest.mark.parametrize("name", ["small", "many", "one"])
def test_every_chart_is_drawn_without_a_complaint(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    page = _page(request.getfixturevalue(name))
    document, console = _browse(tmp_path / "profile", page.as_uri(), "--window-size=1300,900", "--dump-dom")
    assert console == []
    assert 'data-ready="yes"' in document
    figures = re.split(r'<figure class="chart"', document)[1:]
    assert len(figures) >= 8
    for figure in figures:
        assert '<svg class="marks"' in figure or '<svg xmlns="http://www.w3.org/2000/svg"' in figure, figure[:80]
        assert re.search(r'class="mark-(line|area|rect|symbol|rule)', figure), figure[:80]
    assert '<p class="problem">' not in document


def test_long_names_on_an_axis_push_nothing_off_the_page(tmp_path: Path) -> None:
    names = ("reno", "{name: cubic, hystart: 2, max_ssthresh: 100}", "a-rather-long-name-of-my-own")
    bell = Dumbbell(flows=2, duration=20, every=2, step=0.5)
    run = write_run(tmp_path / "run", [Cell({"cc": name}) for name in names], bell=bell)
    document, console = _browse(tmp_path / "profile", _page(run).as_uri(), "--window-size=1300,900", "--dump-dom")
    assert console == []
    halves = re.findall(r'<figure class="chart half".*?<svg[^>]*? width="([\d.]+)"', document, re.DOTALL)
    assert len(halves) >= 5
    # Half of the text column, which is at most 1132 pixels wide, less the gap.
    assert all(float(width) <= 1132 / 2 for width in halves), halves


def test_a_link_opens_the_cell_it_names(small: Path, tmp_path: Path) -> None:
    page = _page(small)
    document, console = _browse(tmp_path / "profile", f"{page.as_uri()}#cell-3", "--dump-dom")
    assert console == []
    shown = re.findall(r'<article class="cell" id="cell-(\d+)"[^>]*?>', document)
    hidden = re.findall(r'<article class="cell" id="cell-(\d+)"[^>]*? hidden', document)
    assert set(shown) - set(hidden) == {"3"}
    assert "4 of 4" in document


def test_it_prints(small: Path, tmp_path: Path) -> None:
    page = _page(small)
    _browse(tmp_path / "profile", page.as_uri(), f"--print-to-pdf={tmp_path / 'report.pdf'}", "--no-pdf-header-footer")
    data = (tmp_path / "report.pdf").read_bytes()
    assert data.startswith(b"%PDF")
    assert len(data) > 50_000


def _altered(page: Path, target: Path, script: str) -> str:
    """Writes the page with a script before its own; returns the address."""
    text = re.sub(r"<meta http-equiv=.Content-Security-Policy[^>]*>", "", page.read_text(encoding="utf-8"))
    begin = text.rindex("<script")  # that of the page, after Vega's
    target.write_text(f"{text[:begin]}<script>{script}</script>{text[begin:]}", encoding="utf-8")
    return target.as_uri()


def test_folds_are_open_while_it_is_printed_and_the_details_of_verdicts_are_at_the_end(
    small: Path, tmp_path: Path
) -> None:
    script = """
      addEventListener("load", () => setTimeout(() => {
        const count = (wanted) => [...document.querySelectorAll(wanted)].length;
        const here = "details:not([open]):not(.bulk):not(.asked):not(.verdicts > .verdict > details)";
        const told = () => [here, ".verdicts > .verdict", ".at-end > .verdict > dl", ".at-end details:not([open])",
          "details.bulk:not([open])"].map(count).join(" ");
        const found = [told()];
        for (const name of ["beforeprint", "afterprint"]) {
          dispatchEvent(new Event(name));
          found.push(told());
        }
        document.documentElement.dataset.folds = found.join(" ");
      }, 5000));"""
    url = _altered(_page(small), tmp_path / "page.html", script)
    document, console = _browse(tmp_path / "profile", url, "--dump-dom")
    assert console == []
    told = re.search(r'data-folds="([\d ]+)"', document)
    assert told is not None
    numbers = list(map(int, told[1].split()))
    before, printed, after = numbers[:5], numbers[5:10], numbers[10:]
    assert before == after
    shut, verdicts, details, _, bulk = before
    assert shut > 0
    assert verdicts > 0
    assert details == 0
    assert printed == [0, verdicts, verdicts, 0, bulk]


def test_a_long_legend_is_stacked_on_a_narrow_page(grid: Path, tmp_path: Path) -> None:
    # A window of this browser is at least 500 pixels wide.
    url = _altered(_page(grid), tmp_path / "page.html", 'document.body.style.width = "400px";')
    document, console = _browse(tmp_path / "profile", url, "--window-size=500,900", "--dump-dom")
    assert console == []
    halves = re.findall(r'<figure class="chart half".*?<svg[^>]*? width="([\d.]+)"', document, re.DOTALL)
    assert len(halves) >= 8
    assert all(float(width) <= 400 for width in halves), halves


def test_a_link_can_name_the_window_of_time(small: Path, tmp_path: Path) -> None:
    page = _page(small)
    document, console = _browse(tmp_path / "profile", f"{page.as_uri()}#cell-1@10-20", "--dump-dom")
    assert console == []
    figure = document.split('id="cell-1-data-goodput-total"')[1].split("</figure>")[0]
    axis = re.search(r'X-axis titled .Time \(s\).[^"]*with values from ([\d.]+) to ([\d.]+)', figure)
    assert axis is not None, figure[:2000]
    assert (float(axis[1]), float(axis[2])) == (10, 20)


def test_drawings_of_a_figure_do_not_interleave(small: Path, tmp_path: Path) -> None:
    """The page becomes narrower twice while its pictures are drawn; the drawing for the first width takes longer."""
    text = re.sub(r"<meta http-equiv=.Content-Security-Policy[^>]*>", "", _page(small).read_text(encoding="utf-8"))
    slow = """<script>
      const usual = window.vegaEmbed;
      window.vegaEmbed = async (...all) => {
        const wait = document.body.style.width === "900px" ? 900 : 0;
        await new Promise((done) => setTimeout(done, wait));
        return usual(...all);
      };
      new MutationObserver((_, self) => {
        if (!document.documentElement.dataset.ready) return;
        self.disconnect();
        [900, 700].forEach((width, i) => setTimeout(() => {
          document.documentElement.dataset.narrow = "yes";
          document.body.style.width = `${width}px`;
          window.dispatchEvent(new Event("resize"));
        }, 400 * i));
      }).observe(document.documentElement, { attributes: true });
    </script>"""
    begin = text.rindex("<script")  # that of the page, after Vega's
    page = tmp_path / "narrow.html"
    page.write_text(text[:begin] + slow + text[begin:], encoding="utf-8")
    document, console = _browse(tmp_path / "profile", page.as_uri(), "--window-size=1300,900", "--dump-dom")
    assert console == []
    assert 'data-narrow="yes"' in document
    wide = re.findall(r'<figure class="chart".*?<svg[^>]*? width="([\d.]+)"', document, re.DOTALL)
    assert wide
    assert all(float(width) <= 700 for width in wide), wide
