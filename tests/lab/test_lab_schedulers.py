"""The kernel's schedulers and shapers against weir's: rates of classes, in the lab's kernel and in the simulator."""

from __future__ import annotations

from typing import Any

import pytest

from shared import Memory, execute, plan_of
from weir.lab import Kernel
from weir.methods.lab._links import choose
from weir.plan import queue_classes, typed

_SCENARIO = """
title: Classes that ask for more than the link
topology:
  dumbbell:
    pairs: 3
    access: {{rate: 100Mbps}}
    bottleneck: {{rate: 20Mbps, queue: {queue}}}
    rtt: 10ms
transport: {{cc: reno}}
workload:
  - {{name: voice, kind: cbr, between: "pairs[0]", rate: 2Mbps, packet: 200B, dscp: ef}}
  - {{name: af, kind: cbr, between: "pairs[1]", rate: 18Mbps, packet: 1000B, dscp: af11}}
  - {{name: be, kind: cbr, between: "pairs[2]", rate: 18Mbps}}
duration: 4s
measure: {{goodput: 500ms, tcp: 0, links: 100ms}}
methods: {{lab: {{links: netem}}}}
"""
_CLASSES = (
    "{{voice: {{dscp: ef, {voice}queue: 50packets}}, af: {{flows: af, {af}queue: 50packets}}, "
    "be: {{{be}queue: 50packets}}}}"
)
QUEUES = {
    "prio": "{prio: {classes: " + _CLASSES.format(voice="", af="", be="") + "}}",
    "drr": "{drr: {classes: " + _CLASSES.format(voice="", af="quantum: 9kB, ", be="quantum: 3kB, ") + "}}",
    "ets": "{ets: {classes: "
    + _CLASSES.format(voice="strict: true, ", af="quantum: 7kB, ", be="quantum: 3kB, ")
    + "}}",
    "htb": "{htb: {classes: {voice: {dscp: ef, rate: 3Mbps, queue: 50packets}, "
    "tenant: {rate: 15Mbps, ceil: 18Mbps, queue: {htb: {classes: {"
    "af: {flows: af, rate: 9Mbps, ceil: 18Mbps, queue: 50packets}, "
    "be: {rate: 3Mbps, ceil: 6Mbps, queue: 50packets}}}}}}}}",
    "tbf": "{prio: {classes: {voice: {dscp: ef, queue: 50packets}, "
    "af: {flows: af, queue: {tbf: {rate: 5Mbps, burst: 3packets, queue: 50packets}}}, be: {queue: 50packets}}}}",
    "nested": "{prio: {classes: {voice: {dscp: ef, queue: 50packets}, all: {queue: "
    "{drr: {classes: {af: {dscp: af11, quantum: 6kB, queue: 50packets}, be: {quantum: 2kB, queue: 50packets}}}}}}}}",
}
_FROM_NS, _TO_NS = 1_000_000_000, 4_000_000_000
"""The time in which the classes are full."""


def _rates(sink: Memory, plan: dict[str, Any], column: str = "out_bytes") -> dict[str, float]:
    """Bytes of each class of the bottleneck in a second."""
    link = next(number for number, one in enumerate(plan["links"]) if one["name"] == "bottleneck")
    names = [name for name, _ in queue_classes(typed(plan).links[link].queue)]
    found = dict.fromkeys(names, 0.0)
    rows = sink.columns("classes")
    for time, of, number, size in zip(rows["time_ns"], rows["link"], rows["class"], rows[column], strict=True):
        if of == link and _FROM_NS < time <= _TO_NS:
            found[names[number]] += size / ((_TO_NS - _FROM_NS) / 1e9)
    return found


@pytest.fixture(scope="module", params=QUEUES)
def both(request: pytest.FixtureRequest, kernel: Kernel) -> tuple[str, dict[str, Any], Memory, Memory]:
    """A queue: its name, its plan, and the tables of the lab and of the simulator."""
    plan = plan_of(_SCENARIO.format(queue=QUEUES[request.param]))
    return request.param, plan, execute("lab", plan)[0], execute("sim", plan)[0]


def test_class_rates_are_the_simulators_within_one_per_cent(
    both: tuple[str, dict[str, Any], Memory, Memory],
) -> None:
    name, plan, lab, sim = both
    expected = _rates(sim, plan)
    assert sum(expected.values()) > 0.9 * 20e6 / 8, f"{name}: the link is full"
    for one, rate in _rates(lab, plan).items():
        assert rate == pytest.approx(expected[one], rel=0.01, abs=500), (name, one)


def test_drops_of_classes_add_up_to_those_of_the_link(both: tuple[str, dict[str, Any], Memory, Memory]) -> None:
    name, plan, lab, sim = both
    drops, of_link = _rates(lab, plan, "drop_packets"), _drops(lab)
    assert sum(drops.values()) * 3 == pytest.approx(of_link)
    assert of_link > 1000
    for one, rate in _rates(sim, plan, "drop_packets").items():
        assert drops[one] == pytest.approx(rate, rel=0.02, abs=3), (name, one)


def test_without_a_size_table_the_lab_takes_the_emulator(kernel: Kernel) -> None:
    text = _SCENARIO.format(queue=QUEUES["drr"]).replace("links: netem", "links: auto")
    sink, _ = execute("lab", plan_of(text.replace("duration: 4s", "duration: 500ms")))
    assert "which needs the sizes of packets on the wire" in sink.text("lab.json")


def test_by_default_the_lab_counts_the_classes_of_strict_priority(kernel: Kernel) -> None:
    """The kernel's links can do the queue, but count the link as a whole."""
    text = _SCENARIO.format(queue=QUEUES["prio"]).replace("links: netem", "links: auto").replace("4s", "2s")
    plan = plan_of(text)
    lab, sim = (execute(method, plan)[0] for method in ("lab", "sim"))
    assert "link bottleneck: counts of each class" in lab.text("lab.json")
    assert _rates(lab, plan) == pytest.approx(_rates(sim, plan), rel=0.01, abs=500)


@pytest.mark.parametrize(
    ("ask", "links"),
    [
        ("", "weir-emu"),
        (", acks: {from: 0s, to: 1s}", "kernel"),  # only the kernel's links have these
        (", links: 0", "kernel"),
    ],
)
def test_the_emulator_takes_the_kernels_place_for_recorded_classes(ask: str, links: str) -> None:
    text = _SCENARIO.format(queue=QUEUES["prio"]).replace("links: netem", "links: auto")
    if "links" in ask:
        text = text.replace(", links: 100ms", "")
    plan = typed(plan_of(text.replace("tcp: 0", "tcp: 0" + ask)))
    assert choose(plan, None)[0].links == links


def test_the_kernels_links_can_be_asked_for_without_counts_of_classes() -> None:
    text = _SCENARIO.format(queue=QUEUES["prio"]).replace("links: netem", "links: kernel")
    assert choose(typed(plan_of(text)), None)[0].links == "kernel"


FAIR = {
    "sfq": "{sfq: {size: 60packets}}",
    "fq": "{fq: {}}",
    "fq, short turns": "{fq: {quantum: 1514B, flow_limit: 40}}",
    "fq, paced by turns": "{fq: {max_rate: 5Mbps}}",
    "fq, paced by packets": "{fq: {max_rate: 500kbps}}",
}
_UNMARKED = _SCENARIO.replace(", dscp: ef", "").replace(", dscp: af11", "")


@pytest.mark.parametrize("name", FAIR)
def test_flows_of_fair_queues_have_the_rates_and_drops_of_the_simulator(kernel: Kernel, name: str) -> None:
    """The loads ask for 10, 90 and 90 % of the link: the first gets what it asks for, the others half of the rest."""
    plan = plan_of(_UNMARKED.format(queue=FAIR[name]))
    lab, sim = (execute(method, plan)[0] for method in ("lab", "sim"))
    rates = _goodputs(sim, len(plan["flows"]))
    assert _goodputs(lab, len(plan["flows"])) == pytest.approx(rates, rel=0.01)
    assert rates[1] == pytest.approx(rates[2], rel=0.05)
    assert _drops(sim) > 4000
    assert _drops(lab) == pytest.approx(_drops(sim), rel=0.01)


def test_only_the_kernels_fq_has_bands_of_priority(kernel: Kernel) -> None:
    """Linux forwards code point AF11 in the last of three bands, which have weights of 9, 3 and 1."""
    plan = plan_of(_SCENARIO.format(queue="{fq: {}}"))
    lab, sim = (_goodputs(execute(method, plan)[0], len(plan["flows"])) for method in ("lab", "sim"))
    assert lab[2] > 2 * lab[1]
    assert sim[2] == pytest.approx(sim[1], rel=0.05)


def _goodputs(sink: Memory, flows: int) -> list[float]:
    """Bytes of each flow that arrive in a second."""
    rows, found = sink.columns("goodput"), [0.0] * flows
    for time, flow, size in zip(rows["time_ns"], rows["flow"], rows["delivered_bytes"], strict=True):
        if _FROM_NS < time <= _TO_NS:
            found[flow] += size / ((_TO_NS - _FROM_NS) / 1e9)
    return found


def _drops(sink: Memory) -> int:
    """Packets that the bottleneck drops while the flows are full."""
    rows = sink.columns("links")
    return sum(
        dropped
        for time, link, dropped in zip(rows["time_ns"], rows["link"], rows["drop_packets"], strict=True)
        if link == 0 and _FROM_NS < time <= _TO_NS
    )
