"""Weights and quanta of classes that change while a scenario runs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

import shared
from shared import changing, execute
from weir import scenario
from weir.plan import HtbQueue, TbfQueue, class_groups, guaranteed_shares, queue_changes, queue_classes, typed
from weir.scenario import ScenarioError

WRR = "{wrr: {classes: {af: {dscp: af11, weight: 70%, queue: 9packets}, be: {weight: 30%, queue: 9packets}}}}"
DRR = "{drr: {classes: {af: {dscp: af11, quantum: 7kB, queue: 9packets}, be: {quantum: 3kB, queue: 9packets}}}}"


def plan(queue: str, change: str) -> dict[str, object]:
    (cell,) = scenario.parse(changing(queue=queue, change=change)).cells()
    compiled: dict[str, object] = cell.plan()
    return compiled


@pytest.mark.parametrize(
    ("queue", "change", "shares"),
    [
        (WRR, "weights: {be: 20%}", [700_000, 200_000]),
        (WRR, "weights: {af: 10%, be: 90%}", [100_000, 900_000]),
        (DRR, "quanta: {af: 4packets}", [4 * 1538, 3000]),
    ],
)
def test_classes_that_are_not_named_keep_their_shares(queue: str, change: str, shares: list[int]) -> None:
    made = plan(queue, change)
    assert made["changes"] == [{"at_ns": 2_000_000_000, "link": 0, "change": {"kind": "shares", "shares": shares}}]


HTB = "{htb: {classes: {af: {dscp: af11, rate: 14Mbps, queue: 9packets}, be: {rate: 6Mbps, queue: 9packets}}}}"
ETS = "{{ets: {{classes: {{af: {{dscp: af11, {af}queue: 9packets}}, be: {{quantum: 2kB, queue: 9packets}}}}}}}}"


@pytest.mark.parametrize(
    ("queue", "shares"),
    [
        (WRR, [700_000, 300_000]),
        (DRR, [700_000, 300_000]),
        (ETS.format(af="quantum: 6kB, "), [750_000, 250_000]),
        (ETS.format(af="strict: true, "), [None, None]),
        (HTB, [None, None]),
    ],
)
def test_weights_and_quanta_guarantee_shares(queue: str, shares: list[int | None]) -> None:
    made = typed(plan(queue, "rate: 20Mbps"))
    assert [share for _, share in queue_classes(made.links[0].queue)] == shares


def test_changed_quanta_guarantee_other_shares() -> None:
    made = typed(plan(DRR, "quanta: {af: 3kB}"))
    assert [[share for _, share in queue_classes(queue)] for _, queue in queue_changes(made, 0)] == [
        [700_000, 300_000],
        [500_000, 500_000],
    ]


_TENANT = """{htb: {classes: {tenant: {dscp: af11, rate: 8Mbps, ceil: 14Mbps, queue: {htb: {classes: {
  voice: {dscp: af11, rate: 1Mbps, queue: 9packets}, af: {rate: 7Mbps, queue: 9packets}}}}},
  be: {rate: 6Mbps, queue: 9packets}}}}"""


@pytest.mark.parametrize(
    ("queue", "change", "steps"),
    [
        (HTB, "class_rates: {af: 5Mbps}", [{"af": 700_000, "be": 300_000}, {"af": 250_000, "be": 300_000}]),
        (HTB, "rate: 40Mbps", [{"af": 700_000, "be": 300_000}, {"af": 350_000, "be": 150_000}]),
        # 20 Mb/s are guaranteed, but no longer there
        (HTB, "rate: 10Mbps", [{"af": 700_000, "be": 300_000}, {"af": None, "be": None}]),
        (HTB, "rate: 0", [{"af": 700_000, "be": 300_000}, {"af": 0, "be": 0}]),
        (
            _TENANT,
            "class_rates: {tenant.af: 3Mbps, be: 2Mbps}",
            [
                {"tenant": 400_000, "tenant.voice": 50_000, "tenant.af": 350_000, "be": 300_000},
                {"tenant": 400_000, "tenant.voice": 50_000, "tenant.af": 150_000, "be": 100_000},
            ],
        ),
    ],
)
def test_rates_of_classes_guarantee_their_parts_of_the_links_rate(
    queue: str, change: str, steps: list[dict[str, int | None]]
) -> None:
    found = guaranteed_shares(typed(plan(queue, change)), 0)
    assert [at_ns for at_ns, _ in found] == [0, 2_000_000_000]
    assert [shares for _, shares in found] == steps


def test_rates_beyond_those_of_the_queue_guarantee_nothing() -> None:
    made = typed(plan(_TENANT, "rate: 20Mbps"))
    queue = made.links[0].queue
    assert isinstance(queue, HtbQueue)
    tenant, be = queue.classes
    assert isinstance(tenant.queue, HtbQueue)
    inside = replace(tenant.queue, classes=tuple(replace(one, rate_bps=5_000_000) for one in tenant.queue.classes))
    over = replace(queue, classes=(replace(tenant, queue=inside), be))
    assert queue_classes(over, 20_000_000) == (("tenant.voice", None), ("tenant.af", None), ("be", 300_000))
    small = replace(queue, rate_bps=13_000_000)
    assert queue_classes(small, 20_000_000) == (("tenant.voice", None), ("tenant.af", None), ("be", None))


def test_buckets_inside_classes_keep_the_order_of_changes() -> None:
    shaped = HTB.replace("queue: 9packets}, be", "queue: {tbf: {rate: 3Mbps, queue: 9packets}}}, be")
    assert shaped != HTB
    made = typed(plan(shaped, "class_rates: {af.queue: 2Mbps, be: 1Mbps}"))
    assert [shares for _, shares in guaranteed_shares(made, 0)][1] == {"af": 700_000, "be": 50_000}
    changed = queue_changes(made, 0)[1][1]
    assert isinstance(changed, HtbQueue)
    shaper = changed.classes[0].queue
    assert isinstance(shaper, TbfQueue)
    assert shaper.rate_bps == 2_000_000


def test_a_second_change_starts_from_the_first() -> None:
    text = changing(queue=WRR, change="weights: {af: 20%}")
    text = text.replace("measure:", "  - {at: 3s, link: bottleneck, weights: {be: 80%}}\nmeasure:")
    (cell,) = scenario.parse(text).cells()
    made = typed(cell.plan())
    steps = [(at, [weight for _, weight in queue_classes(queue)]) for at, queue in queue_changes(made, 0)]
    assert steps == [
        (0, [700_000, 300_000]),
        (2_000_000_000, [200_000, 300_000]),
        (3_000_000_000, [200_000, 800_000]),
    ]


_NESTED = """\
title: A tenant with two classes
topology:
  dumbbell:
    pairs: 3
    access: {{rate: 100Mbps}}
    bottleneck: {{rate: 20Mbps, queue: {{{outer}: {{classes: {{
      tenant: {{dscp: [af11, af21], weight: 40%, queue: {inner}}}, be: {{weight: 60%, queue: 20packets}}}}}}}}}}
    rtt: 10ms
measure: {{links: 500ms}}
workload:
  - {{name: gold, kind: cbr, rate: 20Mbps, between: "pairs[0]", dscp: af11, until: 3s}}
  - {{name: silver, kind: cbr, rate: 20Mbps, between: "pairs[1]", dscp: af21, until: 3s}}
  - {{name: be, kind: cbr, rate: 20Mbps, between: "pairs[2]", until: 3s}}
"""
_INNER = (
    "{{{kind}: {{classes: {{gold: {{dscp: af11, {key}: {gold}, queue: 20packets}}, "
    "silver: {{{key}: {silver}, queue: 20packets}}}}}}}}"
)
_PARTS = _INNER.format(kind="wfq", key="weight", gold="80%", silver="20%")
_TURNS = _INNER.format(kind="drr", key="quantum", gold="8kB", silver="2kB")
_OF_LINK = _INNER.format(kind="wrr", key="weight", gold="32%", silver="8%")
_TOO_MUCH = _INNER.format(kind="wrr", key="weight", gold="80%", silver="20%")


@pytest.mark.parametrize(("outer", "inner"), [("wrr", _PARTS), ("wrr", _TURNS), ("wrr", _OF_LINK), ("wfq", _OF_LINK)])
def test_classes_in_a_class_get_the_share_that_they_are_guaranteed(outer: str, inner: str) -> None:
    text = _NESTED.format(outer=outer, inner=inner)
    made = shared.plan_of(text)
    (queue,) = [link.queue for link in typed(made).links if link.name == "bottleneck"]
    assert queue_classes(queue) == (("tenant.gold", 320_000), ("tenant.silver", 80_000), ("be", 600_000))
    assert [(one.name, one.share, one.members) for one in class_groups(queue)] == [("tenant", 400_000, range(2))]
    link = [one["name"] for one in made["links"]].index("bottleneck")
    rows = execute("sim", made)[0].columns("classes")
    sent = [0, 0, 0]
    for time, where, number, size in zip(rows["time_ns"], rows["link"], rows["class"], rows["out_bytes"], strict=True):
        if where == link and time > 500_000_000:
            sent[number] += size
    assert [one / sum(sent) for one in sent] == pytest.approx([0.32, 0.08, 0.6], abs=0.005)


def test_weights_of_the_link_that_exceed_the_class_around_guarantee_nothing() -> None:
    found = scenario.parse(_NESTED.format(outer="wrr", inner=_TOO_MUCH))
    (queue,) = [link.queue for link in typed(found.cells()[0].plan()).links if link.name == "bottleneck"]
    assert queue_classes(queue) == (("tenant.gold", None), ("tenant.silver", None), ("be", 600_000))
    (warning,) = [one.message for one in found.problems if one.severity == "warning"]
    assert warning == (
        "the weights of the classes in `tenant` are parts of the link and add up to 100 %, but it has a share of 40 %: "
        "they guarantee nothing"
    )


@pytest.mark.parametrize(
    ("queue", "change", "message"),
    [
        (WRR, "weights: {be: 40%}", "the weights then add up to 110 %; expected 100 % at most"),
        (WRR, "weights: {bee: 20%}", "link `bottleneck` has no class `bee`"),
        (WRR, "quanta: {be: 3kB}", "the queue of link `bottleneck` has no classes with quanta"),
        ("9packets", "weights: {be: 20%}", "the queue of link `bottleneck` has no classes with weights"),
        (DRR, "quanta: {be: 100B}", "class `be`: a quantum of 100 bytes is less than a full packet (1538 bytes)"),
    ],
)
def test_a_change_that_cannot_be_is_refused(queue: str, change: str, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        plan(queue, change)
    assert message in str(caught.value)


@pytest.mark.parametrize(("queue", "change"), [(WRR, "weights: {af: 30%, be: 70%}"), (DRR, "quanta: {be: 17kB}")])
def test_the_simulator_gives_the_new_shares(queue: str, change: str) -> None:
    rows = execute("sim", plan(queue, change))[0].columns("classes")
    sent = {(number, late): 0 for number in (0, 1) for late in (False, True)}
    for time, link, number, size in zip(rows["time_ns"], rows["link"], rows["class"], rows["out_bytes"], strict=True):
        if link == 0 and time > 500_000_000:
            sent[number, time > 2_000_000_000] += size
    first, second = (sent[0, late] / (sent[0, late] + sent[1, late]) for late in (False, True))
    assert first == pytest.approx(0.7, abs=0.005)
    assert second == pytest.approx(0.3 if queue == WRR else 7 / 24, abs=0.005)


def test_a_check_of_a_link_without_the_class_is_an_error() -> None:
    """The bottleneck has it, its other direction has none."""
    text = changing(queue=WRR, change="rate: 20Mbps").replace(
        "rtt:", "reverse: {rate: 20Mbps, queue: 9packets}\n    rtt:"
    )
    text += "expect:\n  - {claim: it has some, check: 'METRIC > 1%'}\n"
    assert not scenario.parse(text.replace("METRIC", "class.share[class: af](bottleneck)")).problems
    with pytest.raises(
        ScenarioError, match=r"`af`.*link bottleneck\.reverse has no such class: its queue has no classes"
    ):
        scenario.parse(text.replace("METRIC", "class.share[class: af](bottleneck.reverse)")).cells()
