"""Schedulers in the language: classes, their packets, and the mistakes that a scenario can make with them."""

from __future__ import annotations

from typing import Any

import pytest

from weir import methods, scenario
from weir.emulate._link import LinkOptions, plan
from weir.language import Problem

_DOCUMENT = """
title: Classes
topology:
  dumbbell:
    pairs: 3
    rtt: 20ms
    access: {{rate: 1Gbps}}
    bottleneck:
      rate: 1Gbps
      queue: {queue}
    reverse: {{rate: 1Gbps, queue: 100packets}}
workload:
  - {{name: gold, kind: cbr, between: "pairs[0..1]", rate: 10Mbps, dscp: af11}}
  - {{name: rest, kind: cbr, between: "pairs[2]", rate: 10Mbps}}
duration: 1s
"""


def parsed(queue: str) -> Any:
    return scenario.parse(_DOCUMENT.format(queue=queue))


def queue_of(queue: str) -> dict[str, Any]:
    (cell,) = parsed(queue).cells()
    return next(dict(one["queue"]) for one in cell.plan()["links"] if one["name"] == "bottleneck")


def problems(queue: str, severity: str = "error") -> list[Problem]:
    """The mistakes, or the remarks."""
    try:
        found = list(parsed(queue).problems)
    except scenario.ScenarioError as error:
        found = error.problems
    return [one for one in found if one.severity == severity]


def test_the_classes_of_a_scheduler_are_in_the_plan() -> None:
    made = queue_of(
        "{wrr: {classes: {af: {dscp: [af11, 12], weight: 90%, priority: high, queue: {red: {size: 50packets, "
        "min: 5packets, max: 15packets}}}, be: {weight: 10%, queue: 100packets}}}}"
    )
    af, be = made.pop("classes")
    assert made == {"kind": "wrr", "limit": {"bytes": 150 * 1538, "packets": None}, "burst_bytes": 2 * 1538}
    assert (af["name"], af["weight_ppm"], af["high"]) == ("af", 900_000, True)
    assert af["members"] == {"dscp": [10, 12], "flows": [], "rest": False}
    assert (af["queue"]["kind"], af["queue"]["curves"][0]["min_bytes"]) == ("red", 5 * 1538)
    assert (be["name"], be["weight_ppm"], be["high"]) == ("be", 100_000, False)
    assert be["members"] == {"dscp": [], "flows": [], "rest": True}
    assert be["queue"] == {"kind": "droptail", "limit": {"bytes": None, "packets": 100}}


def test_classes_may_share_a_limit_and_a_class_has_a_queue_by_itself() -> None:
    made = queue_of("{wrr: {size: 1MB, burst: 10kB, classes: {all: {weight: 100%}}}}")
    assert (made["limit"], made["burst_bytes"]) == ({"bytes": 1_000_000, "packets": None}, 10_000)
    assert made["classes"][0]["queue"]["limit"]["bytes"] == 2_500_000  # one BDP


@pytest.mark.parametrize(
    ("members", "flows"),
    [
        ("flows: gold", [0, 1]),
        ('flows: "gold[1]"', [1]),
        ('flows: ["gold[0]", rest]', [0, 2]),
        ("port: src0->left", [0]),
        ("port: [src0->left, src2->left]", [0, 2]),
        ("dscp: af11", []),
    ],
)
def test_a_class_has_flows_by_name_or_by_the_port_of_their_arrival(members: str, flows: list[int]) -> None:
    made = queue_of(f"{{wrr: {{classes: {{a: {{{members}, weight: 50%}}, b: {{weight: 50%}}}}}}}}")
    assert [one["members"]["flows"] for one in made["classes"]] == [flows, []]
    assert [one["members"]["rest"] for one in made["classes"]] == [False, True]


def test_schedulers_can_be_classes_of_schedulers() -> None:
    inner = "{wrr: {classes: {x: {dscp: af11, weight: 40%}, y: {weight: 60%}}}}"
    made = queue_of(f"{{wrr: {{classes: {{a: {{weight: 50%, queue: {inner}}}}}}}}}")
    assert [one["name"] for one in made["classes"][0]["queue"]["classes"]] == ["x", "y"]


_HTB = "{{htb: {{classes: {{a: {{{of}rate: 60Mbps, queue: {inner}}}, {other}}}}}}}"


@pytest.mark.parametrize(
    ("of", "inner", "other"),
    [
        (
            "dscp: [af11, ef], ",
            "{htb: {classes: {x: {dscp: ef, rate: 1Mbps}, y: {dscp: af11, rate: 2Mbps}}}}",
            "b: {rate: 1Mbps}",
        ),
        (
            "dscp: [af11, ef], ",
            "{tbf: {rate: 9Mbps, queue: {drr: {classes: {x: {dscp: [ef, af11]}}}}}}",
            "b: {rate: 1Mbps}",
        ),
        ("", "{htb: {classes: {x: {dscp: [POINTS], rate: 1Mbps}}}}", "b: {dscp: af11, rate: 1Mbps}"),
    ],
    ids=["code points", "within a shaper", "the rest"],
)
def test_classes_in_a_class_need_no_code_points_but_its_own(of: str, inner: str, other: str) -> None:
    points = ", ".join(str(point) for point in range(64) if point != 10)
    queue = _HTB.format(of=of, inner=inner.replace("POINTS", points), other=other)
    assert not [one for one in problems(queue) if "no traffic" not in one.message]
    both = _DOCUMENT.format(queue=queue).replace("dscp: af11}\n", "dscp: af11}\n  - {name: ef, kind: cbr, "
        "between: \"pairs[2]\", rate: 1Mbps, dscp: ef}\n")  # fmt: skip
    (cell,) = scenario.parse(both).cells()
    assert methods.get("sim").obstacle(cell.plan()) is None, "the plan is one that the simulator takes"


def test_a_code_point_of_the_class_around_without_a_class_is_named() -> None:
    inner = "{htb: {classes: {x: {dscp: ef, rate: 1Mbps}}}}"
    (found,) = problems(_HTB.format(of="dscp: [af11, ef], ", inner=inner, other="b: {rate: 1Mbps}"))
    assert "packets with `af11` (10) have no class; give one class neither" in found.message
    (found,) = problems(_HTB.format(of="dscp: ef, flows: gold, ", inner=inner, other="b: {rate: 1Mbps}"))
    assert "some code points have no class" in found.message, "the flows may have any"


def test_a_class_that_gets_the_code_points_that_never_come_still_needs_traffic() -> None:
    inner = "{htb: {classes: {x: {dscp: af11, rate: 1Mbps}, y: {dscp: ef, rate: 1Mbps}}}}"
    (found,) = problems(_HTB.format(of="dscp: [af11, ef], ", inner=inner, other="b: {rate: 1Mbps}"))
    assert "class `a.y` of link `bottleneck` has no traffic; expected a flow of it" in found.message


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ("70", "`70` is not a share; expected `70%` or `0.7`"),
        ("7.5", "`7.5` is not a share; expected `7.5%` or `0.075`"),
        ("100", "`100` is not a share; expected `100%`"),
        ("700", "expected a share such as `90%` or `0.9`, in steps of 0.0001%, found `700`"),
        ("heavy", "expected a share such as `90%` or `0.9`, in steps of 0.0001%, found `heavy`"),
    ],
)
def test_what_is_no_share_is_told_what_was_expected(weight: str, message: str) -> None:
    (found,) = problems(f"{{wrr: {{classes: {{a: {{weight: {weight}}}}}}}}}")
    assert found.message == message


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ("{a: {dscp: af11, weight: 60%}, b: {weight: 50%}}", "the weights add up to 110 %; expected 100 % at most"),
        (
            "{a: {dscp: af11, weight: 1%}, b: {dscp: 10, weight: 1%}, c: {weight: 1%}}",
            "code point `af11` (10) is in two classes",
        ),
        ("{a: {dscp: [af12, af14], weight: 1%}, b: {weight: 1%}}", "class 1 of assured forwarding has `af11`"),
        ("{a: {dscp: af51, weight: 1%}, b: {weight: 1%}}", "there is no code point `af51`"),
        ("{a: {dscp: efs, weight: 1%}, b: {weight: 1%}}", "did you mean `ef`?"),
        ("{a: {weight: 1%}, b: {weight: 1%}}", "only one class can have the rest"),
        ("{a: {dscp: af11, weight: 1%}}", "some code points have no class"),
        (
            "{a: {flows: gold, weight: 1%}, b: {flows: 'gold[1]', weight: 1%}, c: {weight: 1%}}",
            "flow `gold[1]` is in two",
        ),
        ("{a: {flows: golf, weight: 1%}, b: {weight: 1%}}", "there is no workload entry `golf`"),
        ("{a: {flows: 'gold[7]', weight: 1%}, b: {weight: 1%}}", "`gold` has no such flow"),
        ("{a: {port: nowhere, weight: 1%}, b: {weight: 1%}}", "there is no link `nowhere`"),
        ("{a: {weight: 0.00001%}}", "expected a share such as `90%`"),
        ("{a: {weight: 1%, priority: highest}}", "`highest` is not a value of `priority`"),
        ("{a: {weight: 1%, wait: 1s}}", "unknown key `wait`"),
        ("{a: {}}", "`weight` is missing"),
        ("{'a b': {weight: 1%}}", "is not the name of a class"),
        ("{}", "expected 1 to 64 classes, found 0"),
    ],
)
def test_a_mistake_is_named_at_its_place(classes: str, message: str) -> None:
    (found,) = problems(f"{{wrr: {{classes: {classes}}}}}")
    assert message in found.message
    assert found.line == 10
    assert found.column > len("      queue: "), "a place within the queue"


def test_a_shaper_and_a_policer_have_a_queue_inside() -> None:
    made = queue_of("{tbf: {rate: 100Mbps, queue: 50packets}}")
    inside = {"kind": "droptail", "limit": {"bytes": None, "packets": 50}}
    assert made == {
        "kind": "tbf",
        "limit": {"bytes": 51 * 1538, "packets": None},
        "rate_bps": 100_000_000,
        "burst_bytes": 15_380,
        "queue": inside,
    }
    made = queue_of("{police: {rate: 1Mbps, burst: 10kB, excess: 5kB, yellow: drop, queue: 50packets}}")
    assert (made["burst_bytes"], made["excess_bytes"], made["drop_yellow"], made["queue"]) == (
        10_000,
        5_000,
        True,
        inside,
    )
    made = queue_of("{police_two_rate: {rate: 1Mbps, peak: 2Mbps, queue: codel}}")
    assert (made["kind"], made["peak_bps"], made["peak_burst_bytes"]) == ("police", 2_000_000, 15_380)


def test_a_shaper_may_be_around_classes_and_inside_of_one() -> None:
    classes = "{a: {flows: gold, weight: 50%, queue: {tbf: {rate: 1Mbps}}}, b: {weight: 50%}}"
    made = queue_of(f"{{tbf: {{rate: 100Mbps, queue: {{wrr: {{classes: {classes}}}}}}}}}")
    a, _ = made["queue"]["classes"]
    assert (a["members"]["flows"], a["queue"]["kind"]) == ([0, 1], "tbf")


@pytest.mark.parametrize(
    ("queue", "message"),
    [
        ("{tbf: {rate: 0}}", "at rate 0 nothing ever passes"),
        ("{tbf: {rate: 1Mbps, burst: 100B}}", "a bucket of 100 bytes never holds a full packet"),
        ("{police_two_rate: {rate: 2Mbps, peak: 1Mbps}}", "`peak` must not be below `rate`"),
        ("{drr: {classes: {a: {quantum: 100B}}}}", "a quantum of 100 bytes is less than a full packet"),
        ("{ets: {classes: {a: {quantum: 100B}}}}", "a quantum of 100 bytes is less than a full packet"),
        (
            "{ets: {classes: {a: {dscp: ef}, b: {strict: true}}}}",
            "class `b` is strict, behind `a`, which is not; put it before",
        ),
        ("{htb: {classes: {a: {rate: 2Mbps, ceil: 1Mbps}}}}", "`ceil` must not be below `rate`"),
        ("{htb: {classes: {a: {rate: 0}}}}", "at rate 0 a class has no guarantee"),
        ("{htb: {classes: {a: {rate: 20Gbps}}}}", "the rates add up to 20000 Mb/s"),
        ("{htb: {classes: {a: {rate: 1Mbps, burst: 100B}}}}", "a bucket of 100 bytes never holds a full packet"),
        (
            "{htb: {classes: {a: {rate: 2Mbps, queue: {htb: {classes: {b: {rate: 3Mbps}}}}}}}}",
            "the rates add up to 3 Mb/s; 2 Mb/s at most are guaranteed",
        ),
        ("{wfq: {classes: {a: {weight: 0%}}}}", "class `a` has weight 0"),
        ("{police: {rate: 1Mbps, yellow: purple}}", "`purple` is not a value of `yellow`"),
    ],
)
def test_a_mistake_in_a_shaper_is_named(queue: str, message: str) -> None:
    (found,) = problems(queue)
    assert message in found.message


def test_schedulers_are_not_nested_without_end() -> None:
    queue = "10packets"
    for _ in range(5):
        queue = f"{{wrr: {{classes: {{a: {{weight: 50%, queue: {queue}}}}}}}}}"
    assert any("5 deep; the limit is 4" in one.message for one in problems(queue))


def test_a_class_without_traffic_is_a_mistake() -> None:
    classes = "{a: {dscp: af11, weight: 10%}, b: {dscp: ef, weight: 10%}, c: {weight: 10%}}"
    (found,) = problems(f"{{wrr: {{classes: {classes}}}}}")
    assert "class `b` of link `bottleneck` has no traffic; expected a flow of it on the link" in found.message
    assert "those of the scenario have `default` (0), `af11` (10)" in found.message


def test_the_class_with_the_rest_may_have_nothing_to_do() -> None:
    classes = "{a: {dscp: [default, af11], weight: 10%}, c: {weight: 10%}}"
    assert not problems(f"{{wrr: {{classes: {classes}}}}}")
    (found,) = [one for one in problems(f"{{wrr: {{classes: {classes}}}}}", "warning") if "traffic" in one.message]
    assert "class `c` of link `bottleneck` has no traffic: every flow" in found.message


def test_programs_choose_the_code_points_of_their_packets() -> None:
    queue = "{wrr: {classes: {a: {dscp: ef, weight: 10%}, b: {flows: [gold], weight: 10%}, c: {weight: 10%}}}}"
    rest = '- {name: rest, kind: cbr, between: "pairs[2]", rate: 10Mbps}'
    document = _DOCUMENT.format(queue=queue)
    assert rest in document
    (message,) = [one.message for one in problems(queue)]
    assert "class `a` of link `bottleneck` has no traffic" in message
    program = '- {name: rest, kind: command, command: [ping], transport: {cc: cubic}, between: "pairs[2]"}'
    scenario.parse(document.replace(rest, program))
    with pytest.raises(scenario.ScenarioError, match="class `a` of link `bottleneck` has no traffic"):
        scenario.parse(document.replace(rest, program).replace("[gold]", "[gold, rest]"))


def test_a_link_for_a_program_may_have_classes_of_code_points() -> None:
    queue = "{wrr: {classes: {voice: {dscp: ef, weight: 20%, queue: 9packets}, data: {weight: 80%, queue: 9packets}}}}"
    up = plan(LinkOptions(rate="20Mbps", queue=queue), LinkOptions())["links"][0]
    assert [one["members"]["dscp"] for one in up["queue"]["classes"]] == [[46], []]


@pytest.mark.parametrize(
    ("queue", "changes", "idle"),
    [
        ("{tbf: {rate: 1.2Gbps, queue: 9packets}}", "", 1),
        ("{tbf: {rate: 1Gbps, queue: 9packets}}", "", 1),
        ("{tbf: {rate: 999Mbps, queue: 9packets}}", "", 0),
        ("{prio: {classes: {a: {dscp: af11, queue: {tbf: {rate: 2Gbps, queue: codel}}}, b: {queue: codel}}}}", "", 1),
        ("{police: {rate: 2Gbps, queue: 9packets}}", "", 0),
        ("{tbf: {rate: 1.2Gbps, queue: 9packets}}", "{at: 1ms, link: bottleneck, rate: 2Gbps}", 0),
        ("{tbf: {rate: 1.2Gbps, queue: 9packets}}", "{at: 1ms, link: bottleneck, queue_rate: {rate: 5Mbps}}", 0),
        ("{tbf: {rate: 1.2Gbps, queue: 9packets}}", "{at: 1ms, link: bottleneck, loss: 1%}", 1),
    ],
)  # fmt: skip
def test_a_shaper_that_is_as_fast_as_its_link_is_told(queue: str, changes: str, idle: int) -> None:
    found = scenario.parse(_DOCUMENT.format(queue=queue) + f"changes: [{changes}]\n").problems
    told = [one for one in found if "never holds a packet back" in one.message]
    assert [one.severity for one in told] == ["warning"] * idle
    assert all(one.message.startswith("the shaper has ") and "its link 1000 Mb/s" in one.message for one in told)
