"""Claims that are known to fail, and claims that only the full version can decide."""

from __future__ import annotations

import pytest

from weir.metrics.expect import Expectation, Verdict
from weir.metrics.expect.verdict import Outcome
from weir.scenario import ScenarioError, parse

TEXT = """
title: Claims
topology:
  dumbbell: {pairs: 1, access: {rate: 1Gbps}, bottleneck: {rate: 1Gbps, queue: 100packets}, rtt: 10ms}
transport: {cc: reno}
workload:
  - {name: f, between: pairs, kind: bulk, until: 10s}
quick: {workload.f.until: 1s}
expect:
  - {claim: a, check: goodput.mean > 0}
  - {claim: b, check: goodput.mean > 0, full_only: true}
  - {claim: c, check: goodput.mean > 2Gbps, expected: fails, note: no link is that fast}
"""


_REAL = "realtime: {workload.f.until: 2s}\n"


def test_quick_leaves_out_what_only_the_full_version_can_decide() -> None:
    scenario = parse(TEXT)
    assert [e.claim for e in scenario.expect] == ["a", "b", "c"]
    assert [e.claim for e in scenario.quick().expect] == ["a", "c"]


def test_what_only_real_machines_have_is_judged_in_real_time_only() -> None:
    scenario = parse(TEXT.replace("full_only: true", "realtime_only: true").replace("expect:", f"{_REAL}expect:"))
    assert [e.claim for e in scenario.expect] == [e.claim for e in scenario.quick().expect] == ["a", "c"]
    assert [(u.claim, u.realtime_only) for u in scenario.unjudged] == [("b", True)]
    assert "`--realtime` judges it" in scenario.unjudged[0].reason
    assert [e.claim for e in scenario.realtime().expect if e.realtime_only] == ["b"]


def test_the_known_outcome_is_part_of_the_claim() -> None:
    assert [e.expected for e in parse(TEXT).expect] == ["holds", "holds", "fails"]


def test_the_quick_version_may_have_another_outcome() -> None:
    known = "expected: fails, note: no link is that fast"
    scenario = parse(TEXT.replace(known, f"{known}, quick: {{expected: holds, note: slow links are}}"))
    assert [(e.expected, e.note) for e in scenario.expect][-1] == ("fails", "no link is that fast")
    assert [(e.expected, e.note) for e in scenario.quick().expect][-1] == ("holds", "slow links are")


def test_a_claim_known_to_fail_says_why() -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(TEXT.replace(", note: no link is that fast", ""))
    assert "note" in str(caught.value)


def test_a_claim_says_what_was_fitted_to_it_or_that_it_is_beyond_the_source() -> None:
    fitted = TEXT.replace("full_only: true", "full_only: true, fitted: the  queue")
    assert parse(fitted).expect[1].basis == {"fitted": "the queue"}
    beyond = TEXT.replace("full_only: true", "full_only: true, beyond: a later queue")
    assert parse(beyond).expect[1].basis == {"beyond": "a later queue"}
    chance = TEXT.replace("full_only: true", "full_only: true, chance: seed 2 has 3 Mb/s")
    assert parse(chance).expect[1].basis == {"chance": "seed 2 has 3 Mb/s"}
    with pytest.raises(ScenarioError) as caught:
        parse(TEXT.replace("full_only: true", "fitted: the queue, beyond: a later queue"))
    assert "either `fitted` to a figure of the source or `beyond` the source" in str(caught.value)


@pytest.mark.parametrize(
    ("expected", "outcome", "settled", "news"),
    [
        ("holds", "holds", True, ""),
        ("holds", "fails", False, ""),
        ("holds", "undecided", False, ""),
        ("fails", "fails", True, "known to fail"),
        ("fails", "holds", True, "holds, although"),
        ("fails", "undecided", False, "says that it fails"),
    ],
)
def test_only_what_nobody_knew_is_a_failure(expected: str, outcome: Outcome, settled: bool, news: str) -> None:
    claim = Expectation.of({"check": "goodput.mean > 0", "expected": expected, "note": "because"})
    verdict = Verdict("", "", claim.check, {}, outcome, (), (), "", (), claim.note, claim.expected)
    assert verdict.settled is settled
    assert verdict.news.startswith(news) if expected == outcome else news in verdict.news
    assert verdict.to_json()["expected"] == expected
