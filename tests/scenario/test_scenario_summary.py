"""``summary``: the figures on top, in every version of a scenario."""

from __future__ import annotations

import pytest
from scenario_support import dumbbell

from weir.scenario import ScenarioError, parse

_TEXT = """\
summary:
  - goodput.mean
  - {value: "goodput.mean{cc: reno}", title: Reno}
sweep: {transport.cc: [reno, cubic]}
quick: {sweep.transport.cc: [cubic]}
"""


def test_entries_are_expressions_with_or_without_titles() -> None:
    shown = parse(dumbbell() + _TEXT).summary
    assert [(one.value, one.title) for one in shown] == [("goodput.mean", ""), ("goodput.mean{cc: reno}", "Reno")]


def test_a_version_leaves_out_figures_about_values_that_it_leaves_out() -> None:
    assert [one.value for one in parse(dumbbell() + _TEXT).quick().summary] == ["goodput.mean"]


def test_without_it_there_are_none() -> None:
    assert parse(dumbbell()).summary == ()


@pytest.mark.parametrize("figure", ["class.share[class: gold]", "goodput.mean{cc: reno}"])
def test_a_figure_that_yaml_reads_as_a_mapping_is_told_to_need_quotes(figure: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(dumbbell() + f"summary:\n  - {figure}\n")
    (problem,) = caught.value.problems
    written = figure.removesuffix("}")  # YAML keeps the bracket in the value
    assert "an expression with `: ` needs quotes" in problem.message
    assert written in problem.message
