"""Queues that mark: step marking, CoDel's threshold for marks, random marks, and the coupled queues of L4S."""

from __future__ import annotations

from typing import Any

import pytest

from shared import assert_share, execute, marking, marks_of, plan_of
from weir import queues, scenario
from weir.hosts.wiring import WiringError, refuse_other_stacks
from weir.plan import CodelQueue, Dualpi2Queue, MarksQueue, StepQueue, queue_classes, typed
from weir.scenario import ScenarioError

_DOCUMENT = """
title: A queue
topology: {{dumbbell: {{pairs: 1, rtt: 10ms, access: {{rate: 1Gbps}}, bottleneck: {{rate: 100Mbps, queue: {queue}}}}}}}
transport: {{cc: dctcp, ecn: true{transport}}}
workload: [{{name: flow, kind: bulk, between: pairs}}]
duration: 1s
"""


def compiled(queue: str, transport: str = "") -> dict[str, Any]:
    (cell,) = scenario.parse(_DOCUMENT.format(queue=queue, transport=transport)).cells()
    plan: dict[str, Any] = cell.plan()
    return plan


def bottleneck(queue: str) -> Any:
    return next(one for one in typed(compiled(queue)).links if one.name == "bottleneck")


def test_a_threshold_in_time_is_one_in_bytes_at_the_rate_of_the_link() -> None:
    """1 ms at 100 Mb/s are 12 500 bytes; a packet has 1538."""
    for threshold, expected in [("1ms", 12_500), ("20packets", 20 * 1538), ("30kB", 30_000), ("0.1bdp", 12_500)]:
        queue = bottleneck(f"{{step: {{threshold: {threshold}}}}}").queue
        assert isinstance(queue, StepQueue)
        assert (queue.threshold_bytes, queue.drop, queue.limit.packets) == (expected, False, 1000)


def test_the_kernel_marks_by_a_codel_that_never_drops() -> None:
    link = bottleneck("{step: {size: 200packets, threshold: 1ms}}")
    assert queues.of(link.queue).arguments(link, on_wire=True) == (
        "codel limit 200 target 1000s interval 1000s noecn ce_threshold 1000us"
    )


@pytest.mark.parametrize(
    ("queue", "lacks"),
    [
        ("{step: {threshold: 1ms, drop: true}}", "step marking with `drop`"),
        ("{step: {threshold: 1B}}", "a threshold of less than a microsecond"),
        ("{codel: {ce_threshold: 1ms}}", "`ce_threshold`, whose marks Linux counts apart"),
        ("{marks: {p: 1%}}", "a queue marks, for which weir has no discipline of the kernel"),
        ("dualpi2", "a queue dualpi2, for which weir has no discipline of the kernel"),
    ],
)
def test_what_the_kernel_lacks(queue: str, lacks: str) -> None:
    assert queues.of(bottleneck(queue).queue).obstacle(bottleneck(queue)) == lacks


def test_codel_has_its_threshold_for_marks_only_where_it_is_given() -> None:
    """The plan of a queue without it is as before it existed, and so is its hash."""
    plain = next(one for one in compiled("codel")["links"] if one["name"] == "bottleneck")["queue"]
    assert set(plain["codel"]) == {"target_ns", "interval_ns", "mark"}
    given = bottleneck("{fq_codel: {ce_threshold: 1ms}}")
    assert given.queue.codel.ce_threshold_ns == 1_000_000
    codel = bottleneck("codel").queue
    assert isinstance(codel, CodelQueue)
    assert codel.codel.ce_threshold_ns is None


def test_dualpi2_has_the_parameters_of_the_rfc() -> None:
    """RFC 9332, appendix A.1: alpha and beta follow from a target of 15 ms and round-trip times of at most 100 ms."""
    queue = bottleneck("dualpi2").queue
    assert isinstance(queue, Dualpi2Queue)
    assert (queue.target_ns, queue.update_ns, queue.coupling) == (15_000_000, 15_000_000, 2)
    assert queue.alpha == pytest.approx(0.1 * 0.015 / 0.1**2)
    assert queue.beta == pytest.approx(0.3 / 0.1)
    assert (queue.threshold_ns, queue.range_ns, queue.spared_packets) == (800_000, 400_000, 1)
    assert (queue.classic_ppm, queue.shift_ns, queue.any_ect) == (100_000, None, False)
    shifted = bottleneck("{dualpi2: {shift: 50ms, classic: 5%, range: 0s, any_ect: true}}").queue
    assert isinstance(shifted, Dualpi2Queue)
    assert (shifted.shift_ns, shifted.classic_ppm, shifted.range_ns, shifted.any_ect) == (50_000_000, 50_000, 0, True)


def test_the_classes_of_dualpi2_have_names() -> None:
    assert queue_classes(bottleneck("dualpi2").queue) == (("l4s", None), ("classic", None))
    nested = bottleneck("{prio: {classes: {first: {dscp: default, queue: 10packets}, rest: {queue: dualpi2}}}}").queue
    assert queue_classes(nested) == (("first", None), ("rest.l4s", None), ("rest.classic", None))


def test_accurate_feedback_is_part_of_ecn() -> None:
    (flow,) = compiled("dualpi2", ", accecn: true")["flows"]
    assert flow["transport"]["accecn"] is True
    (flow,) = compiled("dualpi2")["flows"]
    assert "accecn" not in flow["transport"]
    without = _DOCUMENT.replace("ecn: true", "ecn: false")
    with pytest.raises(ScenarioError, match="`accecn` is feedback of ECN; set `ecn: true` as well"):
        scenario.parse(without.format(queue="dualpi2", transport=", accecn: true")).cells()[0].plan()


def remarks(queue: str, cc: str) -> list[str]:
    """What a check of the document says with this queue and control."""
    text = _DOCUMENT.format(queue=queue, transport="").replace("cc: dctcp", f"cc: {cc}")
    return [one.message for one in scenario.parse(text).problems if one.severity == "warning"]


@pytest.mark.parametrize(
    ("queue", "cc", "said"),
    [
        ("dualpi2", "dctcp", "`dctcp` of flow `flow[0]` sends ECT(0), which `dualpi2` takes for classic traffic"),
        ("{dualpi2: {any_ect: true}}", "dctcp", None),
        ("{step: {threshold: 1ms}}", "dctcp", None),
        ("dualpi2", "prague", None),
        ("dualpi2", "bbr3", "`bbr3` does not react to marks"),
        ("dualpi2", "cubic", None),
        ("{dualpi2: {any_ect: true}}", "cubic", "`cubic` of flow `flow[0]` sends ECT(0), which `any_ect: true` puts"),
        ("{dualpi2: {any_ect: true}}", "prague", None),
    ],
)
def test_a_control_whose_marks_do_not_reach_it_is_remarked_on(queue: str, cc: str, said: str | None) -> None:
    found = [text for text in remarks(queue, cc) if "marks" in text or "ECT" in text]
    assert len(found) == (0 if said is None else 1)
    assert said is None or said in found[0]


def test_the_remark_points_at_the_queue() -> None:
    """It pointed at the rate of the link."""
    text = _DOCUMENT.format(queue="dualpi2", transport="")
    (found,) = [one for one in scenario.parse(text).problems if "ECT(0)" in one.message]
    assert text.splitlines()[found.line - 1][found.column - 1 :].startswith("dualpi2")


def test_prague_behind_coupled_queues_needs_the_simulator() -> None:
    """A kernel sends ECT(0) for it, so that it would share the classic queue."""
    text = _DOCUMENT.replace("cc: dctcp", "cc: prague")
    classic = typed(scenario.parse(text.format(queue="dualpi2", transport="")).cells()[0].plan())
    with pytest.raises(WiringError, match=r"prague \(flow\[0\]\): it sends ECT\(1\) in the simulator only"):
        refuse_other_stacks(classic)
    any_ect = scenario.parse(text.format(queue="{dualpi2: {any_ect: true}}", transport="")).cells()[0].plan()
    refuse_other_stacks(typed(any_ect))


def test_random_marks_have_a_probability_and_a_limit() -> None:
    queue = bottleneck("{marks: {p: 1%}}").queue
    assert isinstance(queue, MarksQueue)
    assert (queue.p, queue.limit.packets) == (0.01, 1000)
    assert bottleneck("{marks: {size: 50packets, p: 0.25}}").queue.limit.packets == 50


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        ("marks", "`marks` needs `p`"),
        ("{marks: {size: 50packets}}", "p"),
        ("{marks: {p: 120%}}", "120%"),
        ("{marks: {p: 1%, threshold: 1ms}}", "threshold"),
    ],
)
def test_mistakes_in_random_marks_are_told(queue: str, said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        compiled(queue)
    assert said in str(caught.value)


def test_the_share_of_random_marks_is_their_probability() -> None:
    """All marks are the first flow's: the packets of the other one cannot carry any, and pass."""
    plan = plan_of(marking(p=0.02, rate="300Mbps", until="15s"))
    sink, _ = execute("sim", plan)
    found = marks_of(sink, plan)
    assert found[1] > 100_000
    assert_share(found, 0.02)
    flows = sink.columns("flows")
    # The link may have marked a packet or two that were still on their way at the end.
    assert flows["marked_packets"] == [pytest.approx(found[0], abs=20), 0]
    assert flows["lost_packets"] == [0, 0]


def test_a_seed_marks_the_same_packets_again() -> None:
    def windows(seed: int) -> list[int]:
        text = marking(until="1s").replace("tcp: 1s", "tcp: 5ms") + f"seed: {seed}\n"
        found: list[int] = execute("sim", plan_of(text))[0].columns("samples")["cwnd"]
        return found

    assert windows(1) == windows(1)
    assert windows(1) != windows(2)
