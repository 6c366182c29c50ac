"""Rates of token buckets that change while a scenario runs."""

from __future__ import annotations

from typing import Any

import pytest

from shared import changing, execute
from weir import methods, scenario
from weir.scenario import ScenarioError

TBF = "{tbf: {rate: 8Mbps, queue: 9packets}}"
POLICE = "{police: {rate: 8Mbps, queue: 9packets}}"
TWO_RATES = "{police_two_rate: {rate: 8Mbps, peak: 10Mbps, queue: 9packets}}"
HTB = """{htb: {classes: {
  af: {dscp: af11, rate: 12Mbps, ceil: 20Mbps, queue: 9packets}, be: {rate: 8Mbps, queue: 9packets}}}}"""
SHAPED = """{wrr: {classes: {
  af: {dscp: af11, weight: 60%, queue: {tbf: {rate: 6Mbps, queue: 9packets}}}, be: {weight: 40%, queue: 9packets}}}}"""
TREE = """{htb: {rate: 18Mbps, classes: {
  all: {rate: 10Mbps, ceil: 18Mbps, queue: {htb: {classes: {
    af: {dscp: af11, rate: 4Mbps, ceil: 8Mbps, queue: {tbf: {rate: 3Mbps, queue: 9packets}}},
    be: {rate: 6Mbps, queue: 9packets}}}}}}}}"""


def plan(queue: str, change: str) -> dict[str, Any]:
    (cell,) = scenario.parse(changing(queue=queue, change=change)).cells()
    compiled: dict[str, Any] = cell.plan()
    return compiled


def mbps(rate: int, peak: int | None = None) -> dict[str, int | None]:
    return {"rate_bps": rate * 1_000_000, "peak_bps": None if peak is None else peak * 1_000_000}


@pytest.mark.parametrize(
    ("queue", "change", "rates"),
    [
        (TBF, "queue_rate: 3Mbps", [mbps(3)]),
        (POLICE, "queue_rate: {rate: 3Mbps}", [mbps(3)]),
        (TWO_RATES, "queue_rate: 3Mbps", [mbps(3, 10)]),
        (TWO_RATES, "queue_rate: {peak: 9Mbps}", [mbps(8, 9)]),
        (HTB, "class_rates: {af: 5Mbps}", [mbps(5, 20), mbps(8)]),
        (HTB, "class_rates: {af: {ceil: 15Mbps}, be: {rate: 2Mbps, ceil: 9Mbps}}", [mbps(12, 15), mbps(2, 9)]),
        (SHAPED, "class_rates: {af: 7Mbps}", [mbps(7)]),
        (TREE, "queue_rate: 16Mbps", [mbps(16), mbps(10, 18), mbps(4, 8), mbps(3), mbps(6)]),
        (
            TREE,
            "class_rates: {all: 12Mbps, all.af: 5Mbps, all.af.queue: 2Mbps}",
            [mbps(18), mbps(12, 18), mbps(5, 8), mbps(2), mbps(6)],
        ),
    ],
)
def test_what_is_not_named_keeps_its_rates(queue: str, change: str, rates: list[dict[str, int]]) -> None:
    (found,) = plan(queue, change)["changes"]
    assert found == {"at_ns": 2_000_000_000, "link": 0, "change": {"kind": "token_rates", "rates": rates}}


def test_a_second_change_starts_from_the_first() -> None:
    text = changing(queue=HTB, change="class_rates: {af: 5Mbps}")
    text = text.replace("measure:", "  - {at: 3s, link: bottleneck, class_rates: {be: 15Mbps}}\nmeasure:")
    (cell,) = scenario.parse(text).cells()
    made = cell.plan()
    assert [change["change"]["rates"] for change in made["changes"]] == [
        [mbps(5, 20), mbps(8)],
        [mbps(5, 20), mbps(15)],
    ]
    assert made["links"][0]["queue"]["classes"][0]["rate_bps"] == 12_000_000  # the link begins with its own rates


@pytest.mark.parametrize(
    ("queue", "change", "message"),
    [
        ("9packets", "queue_rate: 3Mbps", "the queue of link `bottleneck` has no token buckets"),
        (HTB, "queue_rate: 3Mbps", "has no rate itself; its classes have: give `class_rates`"),
        (HTB, "class_rates: {bf: 3Mbps}", "link `bottleneck` has no class `bf` with a rate; expected `af` or `be`"),
        (SHAPED, "class_rates: {be: 3Mbps}", "link `bottleneck` has no class `be` with a rate"),
        (TBF, "queue_rate: 0Mbps", "the queue: at rate 0 nothing ever passes; expected a rate above 0"),
        (TBF, "queue_rate: {peak: 3Mbps}", "the queue of link `bottleneck` has no `peak`"),
        (HTB, "class_rates: {af: {peak: 3Mbps}}", "class `af` of link `bottleneck` has no `peak`"),
        (HTB, "class_rates: {af: {}}", "this changes nothing: give `rate` or `ceil`"),
        (HTB, "class_rates: {af: {ceil: 1Mbps}}", "class `af`: `ceil` is then 1 Mb/s, below `rate`, which is 12 Mb/s"),
        (TWO_RATES, "queue_rate: 11Mbps", "the queue: `peak` is then 10 Mb/s, below `rate`, which is 11 Mb/s"),
        (
            HTB,
            "class_rates: {be: 9Mbps}",
            "the rates of af, be then add up to 21 Mb/s; 20 Mb/s at most are guaranteed",
        ),
        (
            TREE,
            "class_rates: {all: 9Mbps}",
            "the rates of af, be then add up to 10 Mb/s; 9 Mb/s at most are guaranteed",
        ),
        (HTB, "quanta: {af: 3kB}", "keep their quanta for the whole run; `class_rates` changes their rates"),
    ],
)
def test_a_change_that_cannot_be_is_refused(queue: str, change: str, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        plan(queue, change)
    assert message in str(caught.value)


_EXECUTED = [
    (TBF, "queue_rate: 3Mbps", (8, 3)),
    (POLICE, "queue_rate: 3Mbps", (8, 3)),
    (HTB, "class_rates: {be: 2Mbps, af: {rate: 5Mbps, ceil: 10Mbps}}", (20, 12)),
    (SHAPED, "class_rates: {af: 1Mbps}", (20, 20)),
]


def rates_before_and_after(method: str, made: dict[str, Any]) -> tuple[float, float]:
    """Mb/s on the wire of the bottleneck, more than half a second after the begin and after the change."""
    rows = execute(method, made)[0].columns("links")
    sent = [0, 0]
    for time, link, size, packets in zip(
        rows["time_ns"], rows["link"], rows["out_bytes"], rows["out_packets"], strict=True
    ):
        if link == 0 and time % 2_000_000_000 > 500_000_000:
            sent[time > 2_000_000_000] += 8 * (size + 38 * packets)
    return sent[0] / 1.5e6, sent[1] / 1.5e6


@pytest.mark.parametrize(("queue", "change", "expected"), _EXECUTED)
def test_the_simulator_has_the_new_rates(queue: str, change: str, expected: tuple[int, int]) -> None:
    assert rates_before_and_after("sim", plan(queue, change)) == pytest.approx(expected, rel=0.07)


@pytest.mark.parametrize(
    ("method", "links", "why"),
    [("lab", "kernel", "token buckets"), ("lab", "netem", "changes while"), ("emul", "netem", "changes while")],
)
def test_the_kernels_links_refuse_them_with_the_reason(method: str, links: str, why: str) -> None:
    made = plan(TBF, "queue_rate: 3Mbps")
    made["methods"] = {**made.get("methods", {}), method: {"links": links}}
    assert why in str(methods.get(method).obstacle(made))
