"""Queues: the registry against the declarations, and what a queue without a module gets."""

from __future__ import annotations

import pytest

from weir import queues, scenario
from weir.hosts import qdiscs
from weir.plan import Link, typed
from weir.queues import Discipline, Key

DECLARED = {one.name: one for one in queues.elements("queue")}
_DOCUMENT = """
title: A queue
topology: {{dumbbell: {{pairs: 1, rtt: 10ms, access: {{rate: 1Gbps}}, bottleneck: {{rate: 10Mbps, queue: {queue}}}}}}}
transport: {{cc: reno}}
workload: [{{name: flow, kind: bulk, between: pairs}}]
duration: 1s
"""
WRITTEN = {
    "droptail": "{droptail: {size: 100packets}}",
    "red": "{red: {size: 100packets, min: 10packets, max: 30packets, gentle: false, weight: 0.001953125, ecn: true}}",
    "codel": "{codel: {ecn: true}}",
    "fq": "{fq: {max_rate: 5Mbps, ce_threshold: 1ms}}",
    "fq_codel": "{fq_codel: {ecn: true}}",
    "sfq": "{sfq: {size: 100packets}}",
    "pie": "{pie: {ecn: true}}",
    "prio": "{prio: {classes: {af: {dscp: 0, queue: 100packets}, be: {queue: 100packets}}}}",
    "drr": "{drr: {classes: {af: {dscp: 0, quantum: 9kB, queue: 100packets}, be: {queue: 100packets}}}}",
    "ets": "{ets: {classes: {af: {dscp: 0, strict: true, queue: 100packets}, be: {queue: 100packets}}}}",
    "htb": "{htb: {classes: {af: {dscp: 0, rate: 6Mbps, queue: 100packets}, be: {rate: 4Mbps, queue: 100packets}}}}",
    "tbf": "{tbf: {rate: 8Mbps, queue: 100packets}}",
    "step": "{step: {threshold: 20packets}}",
}
SCHEDULERS = {"prio", "drr", "ets", "htb"}
"""Queues whose classes have the limits."""


def link(queue: str) -> Link:
    """The bottleneck of a scenario with ``queue``."""
    (cell,) = scenario.parse(_DOCUMENT.format(queue=queue)).cells()
    return next(one for one in typed(cell.plan()).links if one.name == "bottleneck")


def marking(keys: tuple[Key, ...]) -> bool:
    return any(key.type == "ecn" for key in keys)


def test_every_module_is_of_a_declared_queue() -> None:
    in_linux = {kind for kind in queues.QUEUES if queues.discipline(kind).names}
    assert in_linux == set(WRITTEN)
    assert set(queues.QUEUES) <= set(DECLARED)
    assert queues.DEFAULT in DECLARED
    for kind in queues.QUEUES:
        made = queues.discipline(kind)
        assert type(made) is not Discipline
        assert made.kind == kind
        assert made.plain == DECLARED[kind].plain


@pytest.mark.parametrize("kind", WRITTEN)
def test_the_kernel_is_told_a_name_that_the_module_has(kind: str) -> None:
    one = link(WRITTEN[kind])
    assert qdiscs.obstacle(one, on_wire=True) is None
    what, words = next(qdiscs.commands(one, "root", 5000, on_wire=True))
    root, handle, number, name, *arguments = words.split()
    assert (what, root, handle, number) == ("qdisc", "root", "handle", f"{qdiscs.QUEUE:x}:")
    assert name in queues.of(one.queue).names
    assert ("limit" in arguments) == (kind not in SCHEDULERS)
    assert ("ecn" in arguments) == marking(DECLARED[kind].forms[0].keys)


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_queue_that_marks_counts_its_marks(kind: str) -> None:
    marks = kind in ("step", "fq") or marking(DECLARED[kind].forms[0].keys)
    assert (queues.discipline(kind).marks_word is not None) == marks


def test_the_time_in_which_nothing_is_dropped_is_codel_s_interval() -> None:
    """RFC 8289, section 5.2."""
    patience = {kind: queues.discipline(kind).patience_ns(link(text)) for kind, text in WRITTEN.items()}
    assert {kind: ns for kind, ns in patience.items() if ns} == {"codel": 100_000_000, "fq_codel": 100_000_000}


def test_a_burst_of_a_flow_fits_a_fair_queue_up_to_its_limit() -> None:
    """50 packets of 1538 bytes at 10 Mb/s; a flow that is paced has no burst."""
    assert queues.discipline("fq").patience_ns(link("{fq: {flow_limit: 50}}")) == 50 * 1538 * 8 * 100
    assert queues.discipline("fq").patience_ns(link("{fq: {max_rate: 5Mbps}}")) == 0


def test_a_fair_queue_is_told_to_pace_only_at_a_maximum_rate() -> None:
    plain = queues.discipline("fq").arguments(link("{fq: {size: 500packets}}"), on_wire=True)
    assert plain == (
        "fq limit 500 flow_limit 100 orphan_mask 1023 quantum 3028 initial_quantum 15140 refill_delay 40000us nopacing"
    )
    paced = queues.discipline("fq").arguments(link(WRITTEN["fq"]), on_wire=True)
    assert paced.endswith("pacing maxrate 5000000bit ce_threshold 1000us")


def test_the_thresholds_of_red_are_told_in_the_bytes_that_the_kernel_counts() -> None:
    """Ten full packets stay ten: of 1538 bytes on the wire, of 1500 bytes of IP."""
    one = link(WRITTEN["red"])
    words = {on_wire: queues.of(one.queue).arguments(one, on_wire=on_wire).split() for on_wire in (True, False)}
    told = {on_wire: dict(zip(found[1::2], found[2::2], strict=False)) for on_wire, found in words.items()}
    assert [told[True][name] for name in ("limit", "min", "max")] == ["153800", "15380", "46140"]
    assert [told[False][name] for name in ("limit", "min", "max")] == ["150000", "15000", "45000"]


def test_a_fair_queue_of_linux_has_a_power_of_two_of_buckets() -> None:
    assert queues.discipline("fq").obstacle(link("{fq: {buckets: 64}}")) is None
    why = queues.discipline("fq").obstacle(link("{fq: {buckets: 100}}"))
    assert why == "100 buckets of a fair queue, where Linux has a power of two"


def test_a_queue_without_a_module_is_one_that_linux_lacks() -> None:
    lacking = queues.discipline("headdrop")
    assert type(lacking) is Discipline
    assert not lacking.plain
    assert lacking.obstacle(link("1bdp")) == "a queue headdrop, for which weir has no discipline of the kernel"
    with pytest.raises(ValueError, match="Linux has no queue headdrop"):
        lacking.arguments(link("1bdp"), on_wire=True)
