"""The figures that lead a report: which they are, how they are told, and their picture."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import altair as alt
import polars as pl
import pytest
from reading import Page, page_of, read_page
from synthetic import Cell, Dumbbell, sweep, write_run

from shared import Weir
from weir.metrics.expect import Value
from weir.metrics.expect.resample import Resampling
from weir.metrics.expect.sides import NO_INTERVAL
from weir.metrics.expect.table import Sampled
from weir.metrics.expect.values import Amount
from weir.metrics.summary import Figure, Summarised, summarise
from weir.report import build
from weir.report.charts._base import is_cut
from weir.report.charts.summary import _scale, chart_of
from weir.report.figures import PAPER
from weir.report.lead import direction, lead_figures, metrics_of, origin
from weir.report.story import _doubt, _figure, _interval, question, story
from weir.report.verdicts import ShownVerdict
from weir.report.view import RunView
from weir.run import Run, open_run
from weir.run.quantity import ONE

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
    assert [len(rows.filter(pl.col("panel") == panel)) for panel in range(3)] == [4, 4, 2]
    gain = rows.filter(pl.col("figure") == "Gain")
    assert gain["row"].to_list() == ["rtt 20ms", "rtt 100ms"], "it does not depend on cc"
    assert gain["value"].n_unique() == 2
    assert gain["series"].is_null().all()
    assert rows["low"].is_not_null().all()


def test_the_sentences_say_the_figures_with_their_places(named_page: Page) -> None:
    lines = _lines(named_page)
    same = r"both have [\d.]+ Mbps, to within 2 %"
    assert re.fullmatch(f"Goodput of the page: at rtt 20ms, {same}; at rtt 100ms, {same}.", lines[0])
    assert lines[2].startswith("Gain: ")


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> RunView:
    """Four variants at three round-trip times."""
    cells = sweep(("reno", "bic", "cubic", "htcp"), ("20ms", "50ms", "100ms"))
    bell = Dumbbell(flows=2, duration=10, every=1)
    return RunView(open_run(write_run(tmp_path_factory.mktemp("four") / "run", cells, bell=bell)))


def _sentence(run: RunView, shares: dict[tuple[str, ...], float], *names: str) -> str:
    """The sentence of a figure whose values at the factors ``names`` are ``shares``."""
    values = tuple(Value(dict(zip(names, at, strict=True)), share, *NO_INTERVAL, 1) for at, share in shares.items())
    return _figure(run, Summarised(Figure("jain"), values)).text


def test_a_sentence_names_the_best_and_the_worst_at_both_ends_of_the_axis(four: RunView) -> None:
    of = {"reno": (0.9, 0.4, 0.8), "bic": (0.5, 1.0, 0.8), "cubic": (0.8, 0.9, 0.8), "htcp": (0.7, 0.9, 0.81)}
    shares = {(cc, rtt): own[k] for cc, own in of.items() for k, rtt in enumerate(("20ms", "50ms", "100ms"))}
    assert _sentence(four, shares, "cc", "rtt") == (
        "at rtt 20ms, from 0.500 (bic) to 0.900 (reno); at rtt 100ms, all 4 have 0.810, to within 2 %; "
        "in between down to 0.400 (reno, rtt 50ms) and up to 1.00 (bic, rtt 50ms)."
    )


def test_without_an_axis_a_sentence_names_the_extremes(four: RunView) -> None:
    shares = {("reno",): 0.9, ("bic",): 0.5, ("cubic",): 0.8, ("htcp",): 0.7}
    assert _sentence(four, shares, "cc") == "from 0.500 (bic) to 0.900 (reno)."


def test_few_values_are_told_one_by_one(four: RunView) -> None:
    shares = {("20ms",): 0.9, ("50ms",): 1.0, ("100ms",): 0.8}
    assert _sentence(four, shares, "rtt") == "0.900 (rtt 20ms), 1.00 (rtt 50ms), 0.800 (rtt 100ms)."


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


def _drawn(run: RunView, *values: str) -> pl.DataFrame:
    drawing = chart_of(summarise(run.run, [Figure(value) for value in values])).draw(run, PAPER)
    assert drawing is not None
    return drawing.data["summary"]


def test_a_picture_has_only_the_factors_that_an_expression_leaves_free(four: RunView) -> None:
    rows = _drawn(four, "max(goodput.mean over cc)", "goodput.mean{rtt: 50ms}", "jain{cc: bic, rtt: 20ms}", "jain")
    assert rows["panel"].to_list() == [0] * 3 + [1] * 4 + [2] + [3] * 12
    names = [rows.filter(pl.col("panel") == k)["row"].to_list() for k in range(4)]
    assert names[0] == ["rtt 20ms", "rtt 50ms", "rtt 100ms"]
    assert names[1] == ["reno", "bic", "cubic", "htcp"]
    assert names[2] == ["the run"]
    assert set(names[3]) == set(names[1])
    assert rows.filter(pl.col("panel") < 3)["series"].is_null().all()


def test_a_curve_over_the_axis_has_a_colour_only_for_a_free_factor(grid: Path) -> None:
    rows = _drawn(RunView(open_run(grid)), "max(goodput.mean over cc)", "goodput.mean")
    best, every = (rows.filter(pl.col("panel") == k) for k in (0, 1))
    assert len(best) == 8
    assert len(every) == 48
    assert best["series"].is_null().all()
    assert every["series"].n_unique() == 6
    assert best["x"].to_list() == [0, 11.5, 20, 50, 75, 100, 150, 200]
    assert best["value"].to_list() == pytest.approx(every.group_by("x").agg(pl.col("value").max()).sort("x")["value"])


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


def _over(*values: float, first: int = 0) -> Value:
    """A value over repeats, which begin with the number ``first``."""
    resampling = Resampling(tuple(range(first, first + len(values))), 0.95, alone=False)
    mean, total = sum(values) / len(values), sum(values)
    parts = tuple(Amount((total - value) / (len(values) - 1), ONE) for value in values)
    sampled = Sampled(resampling, Amount(mean, ONE), parts)
    return Value({}, mean, *sampled.interval, repeats=len(values), sampled=sampled)


def test_repeats_are_paired_before_an_order_is_called_chance() -> None:
    low, high = _over(1.0, 5.0, 9.0), _over(1.9, 6.0, 10.1)
    assert low.high > high.low, "the draws differ by more than the two places"
    assert _doubt(low, high) == "; repeat by repeat, they differ by 0.752 to 1.25 (95 % interval)"
    mixed = _over(1.9, 4.5, 10.1)
    assert _doubt(low, mixed).endswith("includes zero: the order may be chance")


def test_a_sentence_has_the_place_and_the_interval_of_each_of_few_values(four: RunView) -> None:
    values = (
        replace(_over(0.1, 0.5, 0.9), factors={"cc": "reno"}),
        replace(_over(0.2, 0.6, 1.01), factors={"cc": "bic"}),
    )
    assert _figure(four, Summarised(Figure("jain"), values)).text == (
        "0.500 (reno; 95 % interval −0.494 to 1.49), 0.603 (bic; 95 % interval −0.403 to 1.61); "
        "repeat by repeat, they differ by 0.0890 to 0.118 (95 % interval)."
    )


def test_without_common_repeats_the_two_intervals_decide() -> None:
    low, high = _over(1.0, 5.0, 9.0), _over(1.9, 6.0, 10.1, first=3)
    assert _doubt(low, high) == "; these intervals overlap, and the order may be chance"
    assert _doubt(_over(1.0, 1.01, 1.02), _over(5.0, 5.01, 5.02, first=3)) == ""


@pytest.mark.parametrize("values", [(4.6882, 4.6891), (4.6882, 4.6882), (100.0, 100.5)])
def test_a_difference_that_does_not_matter_does_not_fill_the_picture(values: tuple[float, float]) -> None:
    none = pl.Series([None, None], dtype=pl.Float64)
    low, high = _scale(pl.DataFrame({"value": values, "low": none, "high": none})).to_dict()["domain"]
    assert high - low >= 0.0199 * max(values)
    assert low < min(values)
    assert max(values) < high


def _framed(*rows: tuple[float, float | None, float | None]) -> pl.DataFrame:
    schema = {"value": pl.Float64, "low": pl.Float64, "high": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


@pytest.mark.parametrize(
    ("rows", "cut"),
    [
        # The page of examples/access-line.yaml: from 287 ms to 1.92 s around 1.10 s.
        (((1.10, 0.287, 1.92), (0.238, 0.173, 0.303)), False),
        # Two repeats: an interval of 2.4 times the largest value flattens the others.
        (((1.0, -0.2, 2.2), (0.5, 0.45, 0.55)), True),
        (((1.0, 0.1, 1.9), (1.0, None, None)), False),
        (((0.97, 0.2, 1.8), (0.95, 0.9, 1.0)), False),
    ],
)
def test_intervals_fit_into_the_picture_unless_they_are_out_of_proportion(
    rows: tuple[tuple[float, float | None, float | None], ...], cut: bool
) -> None:
    frame = _framed(*rows)
    low, high = _scale(frame).to_dict()["domain"]
    assert is_cut(frame, _scale(frame)) == cut
    assert low <= min(value for value, _, _ in rows)
    assert max(value for value, _, _ in rows) <= high
    for _, start, end in rows[1:] if cut else rows:
        if start is not None and end is not None:
            assert low <= start
            assert end <= high


def test_only_a_picture_that_cuts_an_interval_says_so(named_page: Page) -> None:
    (note,) = named_page.charts("lead")["summary"]["notes"]
    assert note == "Mean over 2 repeats with its 95 % confidence interval."
    assert not is_cut(_framed((1.0, -9.0, 9.0)), alt.Scale(zero=True)), "such a scale makes room"


def test_the_caption_says_why_the_figures_lead(named_page: Page, plain: Run, grid_page: Page) -> None:
    assert named_page.charts("lead")["summary"]["caption"].startswith("The figures of the scenario's summary. A scale")
    assert grid_page.charts("lead")["summary"]["caption"].startswith("The metric that most claims name. A scale")
    assert origin(plain, lead_figures(plain, several=True)).startswith("The scenario names no figures")


def test_claims_about_the_leading_metric_are_named_first(four: RunView) -> None:
    leading = metrics_of(four.figures[0].figure.value)
    shown = [
        ShownVerdict(f"claim {k}", "holds", (), metrics=frozenset(metrics))
        for k, metrics in enumerate([{"timeouts"}, {"timeouts"}, leading, set(), leading | {"timeouts"}])
    ]
    (line,) = (line for line in story(four, shown) if line.outcome == "holds")
    assert line.text == "claim 2; claim 4; claim 0; and 2 more."


def test_a_malformed_check_has_no_metrics() -> None:
    assert metrics_of("goodput.mean{cc: bic} < 2Mbps and jain@all > 0.9") == {"goodput", "jain"}
    assert metrics_of("goodput.mean <=") == metrics_of("no.such.metric") == frozenset()
