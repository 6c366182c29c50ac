"""The figures of a summary: how they are written, and their values."""

from __future__ import annotations

import math
import re

import pytest

from weir.metrics import MetricError
from weir.metrics.expect import ExpectError, parse_number
from weir.metrics.summary import Figure, figures_of, parse_figures, summarise
from weir.run import Run, open_run

from .synthetic import CellSpec, FlowSpec, write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """10 and 40 Mb/s, in three repeats that differ by -1, 0 and +1 Mb/s."""
    cells = [
        CellSpec([FlowSpec([mbps + off] * 10)], factors={"cc": cc}, repeat=k)
        for cc, mbps in (("reno", 10.0), ("cubic", 40.0))
        for k, off in enumerate((-1.0, 0.0, 1.0))
    ]
    return open_run(write_run(tmp_path_factory.mktemp("run") / "run", cells))


def test_commas_in_brackets_and_quotes_separate_nothing() -> None:
    text = "goodput.mean(a, b), fairness.alpha[alpha: 2]{cc: reno, rtt: 1ms}, rank(jain over cc, 'a,b')"
    assert [f.value for f in parse_figures(text)] == [
        "goodput.mean(a, b)",
        "fairness.alpha[alpha: 2]{cc: reno, rtt: 1ms}",
        "rank(jain over cc, 'a,b')",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("jain >= 0.9", "a comparison is no number"),
        ("argmin(jain over cc)", "a word is no number"),
        ("3Mbps / 2", "no metric"),
        ("goodput.distribution", "is a distribution"),
        ("goodput.mea", "has no 'mea'"),
        ("goodput.mean + rtt.mean", "column"),
    ],
)
def test_what_is_no_number_is_refused(text: str, said: str) -> None:
    with pytest.raises(ExpectError) as caught:
        parse_number(text)
    assert said in str(caught.value)
    with pytest.raises(MetricError, match=re.escape(repr(text))):
        parse_figures(f"jain, {text}")


def test_names_of_other_scenarios_are_refused() -> None:
    with pytest.raises(ExpectError, match="no factor 'queue'"):
        parse_number("jain{queue: codel}", factors=["cc"], phases=[])
    with pytest.raises(ExpectError, match="no phase 'night'"):
        parse_number("jain@night", factors=["cc"], phases=["day"])


def test_values_have_the_intervals_of_their_repeats(run: Run) -> None:
    one, ratio = summarise(run, [Figure("goodput.mean"), Figure("goodput.mean{cc: cubic} / goodput.mean{cc: reno}")])
    assert [(dict(v.factors), v.value) for v in one.values] == [
        ({"cc": "reno"}, pytest.approx(10e6)),
        ({"cc": "cubic"}, pytest.approx(40e6)),
    ]
    # Student's t of three repeats with a standard deviation of 1 Mb/s: 4.303 / sqrt(3).
    assert one.values[0].high - one.values[0].value == pytest.approx(4.303e6 / math.sqrt(3), rel=1e-3)
    assert [(dict(v.factors), v.value) for v in ratio.values] == [({}, pytest.approx(4.0, rel=0.02))]


def test_a_figure_without_a_value_says_why_and_leaves_the_others(run: Run) -> None:
    missing, there = summarise(run, [Figure("goodput.mean(nobody)"), Figure("goodput.mean")])
    assert missing.values == ()
    assert "nobody" in missing.reason
    assert len(there.known) == 2
    assert missing.to_json()["values"] == []
    assert there.to_json()["unit"] == "bit/s"


def test_the_figures_of_a_run_are_those_of_its_manifest(run: Run) -> None:
    entries = [{"value": "jain", "title": "Fair"}, {"value": "rtt.p99"}]
    named = Run(run.path, run.cells, {**run.manifest, "summary": entries}, ())
    assert figures_of(named) == (Figure("jain", "Fair"), Figure("rtt.p99"))
    assert [f.name for f in figures_of(named)] == ["Fair", "rtt.p99"]
    assert figures_of(run) == ()
