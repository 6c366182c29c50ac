"""The figures that lead a report: which they are, how they are told, and their picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest
from reading import Page, page_of, read_page
from synthetic import Cell, Dumbbell, sweep, write_run

from shared import Weir
from weir.metrics.expect import Value
from weir.metrics.summary import Figure
from weir.report import build
from weir.report.charts.summary import _scale
from weir.report.lead import direction, lead_figures
from weir.report.story import _doubt, _interval, question
from weir.run import Run, open_run

_BELL = Dumbbell(flows=3, duration=20, every=2, step=0.5, groups=("page", "call"))
_FIGURES = (
    {"value": "goodput.mean(page)", "title": "Goodput of the page"},
    {"value": "jain@all", "title": ""},
    {"value": "goodput.mean{cc: bic} / goodput.mean{cc: reno}", "title": "Gain"},
)


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose scenario names its figures."""
    cells = sweep(("reno", "bic"), ("20ms", "100ms"), 2)
    return write_run(tmp_path_factory.mktemp("named") / "run", cells, bell=_BELL, summary=_FIGURES)


@pytest.fixture(scope="module")
def named_page(named: Path) -> Page:
    return page_of(named)


def _lines(page: Page) -> list[str]:
    (told,) = page.all("ul", "story")
    first = page.elements.index(told)
    return [" ".join(e.text.split()) for e in page.elements[first:] if e.tag == "li" and e.text in told.text]


def test_the_page_begins_with_question_outcome_and_one_picture_then_verdicts(grid_page: Page) -> None:
    ids = [s.attributes["id"] for s in grid_page.all("section")]
    assert ids[:2] == ["outcome", "verdicts"]
    order = [e.attributes.get("id") or e.attributes.get("class", "") for e in grid_page.elements]
    assert order.index("outcome") < order.index("charts lead") < order.index("verdicts")
    (lead,) = grid_page.all("div", "lead")
    assert list(grid_page.charts(lead.attributes["data-blob"])) == ["summary"]


@pytest.fixture(scope="module")
def grid_page(grid: Path) -> Page:
    return page_of(grid)


def test_figures_that_the_scenario_names_are_the_picture_a_panel_each(named_page: Page) -> None:
    item = named_page.charts("lead")["summary"]
    titles = [part["layer"][-1]["encoding"]["x"]["title"] for part in item["spec"]["concat"]]
    assert titles == ["Goodput of the page (Mbps)", "jain@all", "Gain"]
    rows = pl.DataFrame(item["data"]["summary"], strict=False)
    assert rows["panel"].value_counts(sort=True)["count"].to_list() == [4, 4, 4]
    gain = rows.filter(pl.col("figure") == "Gain")
    assert gain["value"].n_unique() == 2  # it does not depend on cc, so that it is the same for both
    assert rows["low"].is_not_null().all()


def test_the_sentences_say_the_figures_with_their_places(named_page: Page) -> None:
    lines = _lines(named_page)
    assert lines[0].startswith("Goodput of the page: from ")
    assert " Mbps (" in lines[0]
    assert " to " in lines[0]
    assert lines[0].count("; 95 % interval ") == 2, "of the smallest and of the largest mean"
    assert lines[2].startswith("Gain: ")


def test_an_interval_whose_ends_are_written_the_same_is_told_in_words() -> None:
    assert _interval("81.6 Mbps", "81.7 Mbps", 3) == "95 % interval 81.6 Mbps to 81.7 Mbps"
    assert _interval("81.7 Mbps", "81.7 Mbps", 3) == "nearly the same in all 3 repeats"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("goodput.cov@all", "less is steadier"),
        ("rtt.sd", "less is steadier"),
        ("queue.delay", "less is better"),
        ("completion.mean", "less is better"),
        ("link.loss", "less is better"),
        ("loss.synchronisation", ""),
        ("goodput.mean", ""),
        ("jain", ""),
        ("goodput.mean{cc: bic} / goodput.mean{cc: reno}", ""),
    ],
)
def test_a_figure_says_if_small_values_are_good(value: str, said: str) -> None:
    assert direction(Figure(value)) == said


def test_the_direction_stands_in_the_sentence_and_below_the_picture(tmp_path: Path) -> None:
    figures = [{"value": "goodput.cov@all", "title": "Steady?"}, {"value": "jain@all", "title": "Shared?"}]
    cells = [Cell({"cc": cc}) for cc in ("reno", "bic")]
    page = read_page(build(open_run(write_run(tmp_path / "run", cells, bell=_BELL, summary=figures))))
    lines = _lines(page)
    assert lines[0].startswith("Steady? (less is steadier): ")
    assert lines[1].startswith("Shared?: ")
    assert page.charts("lead")["summary"]["notes"] == ["Steady?: less is steadier."]


def test_one_cell_has_sentences_and_the_chart_of_its_claims(one: Path) -> None:
    page = page_of(one)
    (lead,) = page.all("div", "lead")
    assert lead.attributes["data-only"] in page.charts(lead.attributes["data-blob"])
    assert _lines(page)[0].startswith("Aggregate goodput, all: ")


def test_a_verdict_is_a_row_that_opens_on_demand(grid_page: Page) -> None:
    rows = grid_page.all("li", "verdict")
    at = [grid_page.elements.index(row) for row in rows]
    following = [grid_page.elements[i + 1] for i in at]
    assert [e.tag for e in following] == ["details"] * 4
    assert not any("open" in e.attributes for e in following)
    heads = [" ".join(grid_page.elements[i + 2].text.split()) for i in at]
    assert heads[0].startswith("fails Reno stays below 3.5 Gb/s ")
    assert heads[0].endswith("Gbps against 3.5 Gbps")


def _claims(*checks: str) -> list[dict[str, Any]]:
    return [{"claim": f"claim {k}", "check": check} for k, check in enumerate(checks)]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run without claims."""
    cells = sweep(("reno", "bic"), ("20ms", "100ms"))
    return open_run(write_run(tmp_path_factory.mktemp("plain") / "run", cells, bell=_BELL))


def _led(run: Run, *checks: str) -> str:
    claimed = Run(run.path, run.cells, {**run.manifest, "expect": _claims(*checks)}, ())
    (figure,) = lead_figures(claimed, several=True)
    return figure.figure.value


def test_the_figure_is_the_metric_that_most_claims_are_about(plain: Run) -> None:
    assert _led(plain, "rtt.p99 <= 1s", "goodput.sd > 0bps", "rtt.mean@all <= 1s") in ("rtt.p99", "rtt.mean@all")
    assert _led(plain, "goodput.sd > 0bps", "goodput.sd > 1bps", "rtt.p99 <= 1s") == "goodput.sd"
    assert _led(plain, "goodput.mean{cc: bic}@all > goodput.mean@all{cc: reno}") == "goodput.mean@all"


def test_of_a_metric_the_reference_that_most_claims_name_is_taken(plain: Run) -> None:
    assert _led(plain, "rtt.p99 <= 1s", "rtt.mean <= 1s", "rtt.mean >= 1ms") == "rtt.mean"


def test_a_metric_that_is_the_same_everywhere_tells_nothing(plain: Run) -> None:
    same = "completion.count >= 0"
    assert _led(plain, same, same, "rtt.mean <= 1s") == "rtt.mean"


def test_without_claims_a_usual_metric_of_the_last_phase_leads(plain: Run) -> None:
    assert _led(plain) == "goodput.mean@all"


def test_a_figure_without_a_value_is_named_among_the_warnings(tmp_path: Path) -> None:
    cells = [Cell({"cc": cc}) for cc in ("reno", "bic")]
    figures = [{"value": "delay.p95", "title": ""}, {"value": "jain", "title": ""}]
    page = read_page(build(open_run(write_run(tmp_path / "run", cells, bell=_BELL, summary=figures))))
    assert "summary: delay.p95" in page.by_id("warnings").text
    assert set(page.charts("lead")["summary"]["data"]["summary"]["figure"]) == {"jain"}


def test_show_prints_the_figures_first_and_has_them_as_json(weir: Weir, named: Path) -> None:
    text = weir("show", str(named)).out
    assert text.index("Goodput of the page") < text.index("goodput.aggregate.mean")
    summary = json.loads(weir("show", str(named), "--json").out)["summary"]
    assert [one["title"] for one in summary] == ["Goodput of the page", "", "Gain"]
    assert [one["unit"] for one in summary] == ["bit/s", "1", "1"]
    assert [row["factors"] for row in summary[2]["values"]] == [{"rtt": "20ms"}, {"rtt": "100ms"}]
    assert all(low <= row["value"] <= high for row in summary[0]["values"] for low, high in [row["ci"]])


def test_the_command_line_draws_one_picture_of_expressions(weir: Weir, named: Path, tmp_path: Path) -> None:
    ran = weir("report", str(named), "--chart", "goodput.mean(page, call), jain{rtt: 20ms}", "-o", str(tmp_path))
    assert ran.code == 0, ran.err
    assert sorted(p.name for p in (tmp_path / "figures").iterdir()) == ["chart.csv", "chart.pdf", "chart.svg"]
    assert not (tmp_path / "report.html").exists()
    rows = pl.read_csv(tmp_path / "figures" / "chart.csv")
    assert set(rows["figure"]) == {"goodput.mean(page, call)", "jain{rtt: 20ms}"}
    ElementTree.parse(tmp_path / "figures" / "chart.svg")


@pytest.mark.parametrize(
    ("text", "said"),
    [("goodput.mea", "has no 'mea'"), ("jain > 1", "a comparison is no number"), ("jain,", "metric"),
     ("delay.p95", "delay.p95")],
)  # fmt: skip
def test_expressions_that_cannot_be_drawn_are_refused(weir: Weir, named: Path, text: str, said: str) -> None:
    ran = weir("report", str(named), "--chart", text)
    assert ran.code == 2
    assert said in ran.err


def test_the_question_is_the_beginning_of_the_rationale() -> None:
    text = "A line of 10 Mb/s. Who waits?\n\nThe set-up is long."
    assert question(text).first == "A line of 10 Mb/s. Who waits?"
    assert question(text).rest == ("The set-up is long.",)
    long = "One sentence that is long enough to fill more than a line of the page by itself, and goes on and on. " * 4
    assert question(long).first.count(".") == 2
    assert question("").first == ""


@pytest.mark.parametrize(
    ("low", "high", "doubtful"),
    [
        ((0.2, 0.3), (0.0, 2.9), True),
        ((0.2, 0.3), (0.9, 1.5), False),
        ((float("nan"),) * 2, (float("nan"),) * 2, False),
    ],
)
def test_an_order_that_the_intervals_do_not_confirm_is_called_that(
    low: tuple[float, float], high: tuple[float, float], doubtful: bool
) -> None:
    least, largest = Value({}, 0.25, *low, repeats=2), Value({}, 1.23, *high, repeats=2)
    assert ("the order may be chance" in _doubt(least, largest)) == doubtful


@pytest.mark.parametrize("values", [(4.6882, 4.6891), (4.6882, 4.6882), (100.0, 100.5)])
def test_a_difference_that_does_not_matter_does_not_fill_the_picture(values: tuple[float, float]) -> None:
    none = pl.Series([None, None], dtype=pl.Float64)
    low, high = _scale(pl.DataFrame({"value": values, "low": none, "high": none}), "x").to_dict()["domain"]
    assert high - low >= 0.0199 * max(values)
    assert low < min(values)
    assert max(values) < high
