"""``summary``: the figures on top, in every version of a scenario."""

from __future__ import annotations

from scenario_support import dumbbell

from weir.scenario import parse

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
