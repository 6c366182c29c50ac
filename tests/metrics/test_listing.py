"""The registry, and the document generated from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from weir.metrics import Category, MetricError, View, catalogue, catalogue_markdown, get, metric, names
from weir.metrics.registry import UNIT, resolve
from weir.metrics.results import Values
from weir.metrics.window import Window

DOCS = Path(__file__).parents[2] / "docs"


def test_the_document_is_current() -> None:
    text = (DOCS / "metrics.md").read_text(encoding="utf-8")
    assert text.endswith(catalogue_markdown()), "docs/metrics.md is not current; run `make docs`"


def test_every_category_and_point_of_view_has_a_metric() -> None:
    infos = catalogue()
    assert {info.category for info in infos} == set(Category)
    assert {view for info in infos for view in info.views} == set(View)


@pytest.mark.parametrize(
    ("category", "view", "wanted"),
    [
        # Table 2.III of the thesis
        ("throughput", "end user", ["goodput", "completion"]),
        ("throughput", "protocol designer", ["cwnd", "throughput", "efficiency"]),
        ("throughput", "network provider", ["throughput.aggregate", "utilisation"]),
        ("delay", "end user", ["rtt"]),
        ("delay", "protocol designer", ["queue.delay"]),
        ("delay", "network provider", ["queue.delay"]),
        ("loss", "end user", ["timeouts"]),
        ("loss", "protocol designer", ["loss"]),
        ("loss", "network provider", ["loss", "link.loss"]),
        ("reactivity", "end user", ["aggressiveness"]),
        ("reactivity", "protocol designer", ["responsiveness", "aggressiveness"]),
        ("reactivity", "network provider", ["aggressiveness"]),
        ("stability", "end user", ["goodput.variance"]),
        ("stability", "protocol designer", ["goodput.variance", "smoothness"]),
        ("stability", "network provider", ["goodput.cov"]),
        ("fairness", "end user", ["fairness.delta"]),
        ("fairness", "protocol designer", ["jain"]),
        ("fairness", "network provider", ["fairness.maxmin", "fairness.proportional", "fairness.alpha"]),
        ("convergence", "protocol designer", ["convergence"]),
        ("robustness", "end user", ["retransmissions"]),
        ("robustness", "protocol designer", ["performability"]),
        ("robustness", "network provider", ["ks.weighted"]),
        ("deployability", "end user", ["deployability.application"]),
        ("deployability", "protocol designer", ["deployability.code_lines"]),
        ("deployability", "network provider", ["deployability.network"]),
    ],
)
def test_table_2_3_is_covered(category: str, view: str, wanted: list[str]) -> None:
    for name in wanted:
        info = get(name)
        assert info.category.value == category
        assert view in {v.value for v in info.views}


def test_every_metric_is_described() -> None:
    for info in catalogue():
        assert info.symbol, info.name
        assert info.formula, info.name
        assert info.source, info.name
        assert info.unit in UNIT
        assert info.summary.endswith((".", ":", ";")) or "\n" in info.doc, info.name


def test_names_are_sorted_and_unique() -> None:
    assert names() == sorted(set(names()))


def _function(window: Window) -> Values:
    """Does nothing."""
    raise AssertionError("a listing computes nothing")


@pytest.mark.parametrize(
    ("name", "unit", "problem"),
    [("goodput", "1", "twice"), ("Good Put", "1", "not a metric name"), ("brand.new", "furlongs", "unit")],
)
def test_a_bad_registration_is_refused(name: str, unit: str, problem: str) -> None:
    catalogue()
    decorate = metric(
        name,
        symbol="x",
        formula="x",
        unit=unit,
        category=Category.LOSS,
        scope="flow",
        views=(),
        source="",
        tables=(),
    )
    with pytest.raises(ValueError, match=problem):
        decorate(_function)


def test_arguments_must_be_declared() -> None:
    def undeclared(window: Window, *, level: float) -> Values:
        """Does nothing."""
        raise AssertionError("a listing computes nothing")

    decorate = metric(
        "brand.new",
        symbol="x",
        formula="x",
        unit="1",
        category=Category.LOSS,
        scope="flow",
        views=(),
        source="",
        tables=(),
    )
    with pytest.raises(ValueError, match="level"):
        decorate(undeclared)
    assert "brand.new" not in names()


@pytest.mark.parametrize(
    ("name", "metric_name", "stats"),
    [
        ("goodput", "goodput", ()),
        ("goodput.max", "goodput", ("max",)),
        ("goodput.p99_9.min", "goodput", ("p99_9", "min")),
        ("goodput.aggregate.sd", "goodput.aggregate", ("sd",)),
        ("goodput.sd", "goodput.sd", ()),
        ("queue.delay.max", "queue.delay.max", ()),
        ("completion.cov", "completion", ("cov",)),
    ],
)
def test_the_longest_registered_name_is_the_metric(name: str, metric_name: str, stats: tuple[str, ...]) -> None:
    info, found = resolve(name)
    assert (info.name, found) == (metric_name, stats)


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(MetricError, match="Did you mean 'jain'"):
        get("jane")


def test_a_statistic_is_suggested_before_a_metric_that_is_spelled_less_alike() -> None:
    with pytest.raises(MetricError, match=r"Did you mean 'goodput\.mean'"):
        resolve("goodput.men")
