"""The real-time version of a scenario: the changes, and the claims that are judged by figures of its scale."""

from __future__ import annotations

import pytest

from weir.scenario import Scenario, ScenarioError, parse

TEXT = """
title: Scaled
topology:
  dumbbell: {pairs: 1, access: {rate: 1Gbps}, bottleneck: {rate: 1Gbps, queue: 1MB}, rtt: 10ms}
workload:
  - {name: f, between: pairs, kind: bulk, until: 100s}
sweep:
  transport.cc: [reno, cubic]
quick: {workload.f.until: 10s}
realtime:
  topology.dumbbell.access.rate: 100Mbps
  topology.dumbbell.bottleneck: {rate: 100Mbps, queue: 100kB}
  sweep.transport.cc: [reno]
expect:
"""


def scenario(*claims: str) -> Scenario:
    return parse(TEXT + "\n".join(f"  - {{claim: c{n}, {claim}}}" for n, claim in enumerate(claims)))


def reasons(found: Scenario) -> dict[str, str]:
    return {claim.claim: claim.reason for claim in found.unjudged}


def test_its_changes_come_after_those_of_quick() -> None:
    found = scenario("check: jain > 0.9")
    (cell,) = found.realtime().cells()
    plan = cell.plan()
    assert plan["end_ns"] == 10 * 10**9, "quick's"
    assert {link["rate_bps"] for link in plan["links"]} == {100_000_000}
    assert found.quick().cells()[0].plan()["links"][0]["rate_bps"] == 10**9
    assert found.version("realtime") is found.realtime()
    assert found.version("full") is found


def test_without_a_section_it_is_the_quick_version() -> None:
    found = parse(TEXT[: TEXT.index("realtime:")])
    assert found.realtime() is found.quick()


def test_the_command_line_comes_last() -> None:
    found = parse(TEXT + "  - {claim: c, check: jain > 0.9}", realtime=True, overrides={"workload.f.until": "3s"})
    assert found.cells()[0].plan()["end_ns"] == 3 * 10**9


@pytest.mark.parametrize(
    ("check", "word"),
    [
        ("goodput.mean >= 500Mbps", "500Mbps"),
        ("0.5 * goodput.mean >= goodput.min - 1Mbps", "1Mbps"),
        ("queue.delay <= 3ms", "3ms"),
        ("'goodput.share[from: 930Mbps] >= 40%'", "from of goodput.share"),
        ("'goodput.aggregate.reach[rate: 900Mbps] > goodput.aggregate.reach[rate: 90Mbps]'", "rate of"),
    ],
)
def test_a_check_with_an_absolute_figure_is_not_judged(check: str, word: str) -> None:
    found = scenario(f"check: {check}")
    assert found.realtime().expect == ()
    assert word in reasons(found.realtime())["c0"]
    assert "absolute" in reasons(found.realtime())["c0"]
    assert [e.claim for e in found.quick().expect] == ["c0"], "of its own scale"


@pytest.mark.parametrize(
    "check",
    [
        "utilisation >= 98%",
        "efficiency.capacity.mean within 3% of 0.94",
        "'goodput.mean{cc: reno} <= 1.1 * goodput.mean'",
        "'goodput.reach[share: 0.9] > 0 * goodput.reach[share: 0.5]'",
    ],
)
def test_a_check_of_shares_is_judged(check: str) -> None:
    found = scenario(f"check: {check}")
    assert [e.claim for e in found.realtime().expect] == ["c0"]
    assert found.realtime().unjudged == ()


def test_an_author_gives_a_check_of_that_scale_an_outcome_or_a_reason() -> None:
    found = scenario(
        "check: goodput.mean >= 500Mbps, realtime: {check: goodput.mean >= 50Mbps}",
        "check: jain >= 0.9, realtime: {expected: fails, note: three saw-teeth are too few}",
        "check: jain >= 0.8, realtime: {skip: no saw-tooth ends in ten seconds}",
        "check: queue.delay <= 3ms, realtime: {note: delays do not scale}",
    ).realtime()
    assert [(e.claim, e.check, e.expected) for e in found.expect] == [
        ("c0", "goodput.mean >= 50Mbps", "holds"),
        ("c1", "jain >= 0.9", "fails"),
        ("c3", "queue.delay <= 3ms", "holds"),
    ]
    assert found.expect[1].note == "three saw-teeth are too few"
    assert reasons(found) == {"c2": "no saw-tooth ends in ten seconds"}


def test_claims_about_what_is_left_out_are_named() -> None:
    found = scenario("check: jain >= 0.9, where: {cc: cubic}", "check: jain >= 0.9, full_only: true")
    assert reasons(found) == {}
    assert reasons(found.quick()) == {"c1": "only the full version can decide it"}
    assert reasons(found.realtime()) == {
        "c0": "it is about cc cubic, which this version leaves out",
        "c1": "only the full version can decide it",
    }


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("realtime:", "realtime: [1]\nrepeat:", "expected a mapping of dotted paths"),
        ("  sweep.transport.cc: [reno]", "  quick.repeat: 1", "`quick` cannot be changed here"),
        ("  sweep.transport.cc: [reno]", "  workload.g.until: 1s", "no item of this list is named `g`"),
        ("check: jain", "check: jain > 0.9, realtime: {check: jain =}, note: jain", "check, at its character"),
        ("check: jain", "check: jain > 0.9, realtime: {expected: fails}, source: jain", "needs a `note`"),
        ("check: jain", "check: jain > 0.9, realtime: {skp: x}, source: jain", "did you mean `skip`"),
    ],
)
def test_mistakes_say_where_and_what(old: str, new: str, message: str) -> None:
    text = (TEXT + "  - {claim: c, check: jain > 0.9}").replace(old, new, 1)
    with pytest.raises(ScenarioError) as caught:
        parse(text)
    assert message in str(caught.value)
    assert all(problem.line > 1 for problem in caught.value.problems)
