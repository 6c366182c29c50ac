"""Schedulers and shapers in the kernel: the disciplines, classes and filters of ``tc``, and what the kernel lacks."""

from __future__ import annotations

import pytest

from weir import scenario
from weir.hosts import qdiscs
from weir.plan import Link, queue_classes, typed

_DOCUMENT = """
title: A tree of queues
topology:
  dumbbell: {{pairs: 2, rtt: 10ms, access: {{rate: 1Gbps}}, bottleneck: {{rate: 10Mbps, queue: {queue}}}}}
transport: {{cc: reno}}
workload:
  - {{name: bulk, kind: bulk, between: "pairs[0]"}}
  - {{name: voice, kind: cbr, between: "pairs[1]", rate: 1Mbps, dscp: ef}}
{marked}
duration: 1s
"""
_MARKED = "\n".join(
    f'  - {{name: marked{point}, kind: cbr, between: "pairs[1]", rate: 10kbps, dscp: {point}}}'
    for point in range(1, 46)
)
"""A flow of each other code point, so that no class is without traffic."""
_FIRST_PORT = 5000
_TWO = "{{{kind}: {{classes: {{af: {{dscp: [af11, af12], {af}queue: {first}}}, be: {{{be}queue: {second}}}}}}}}}"


def link(queue: str) -> Link:
    """The bottleneck of a scenario with ``queue``."""
    (cell,) = scenario.parse(_DOCUMENT.format(queue=queue, marked=_MARKED)).cells()
    return next(one for one in typed(cell.plan()).links if one.name == "bottleneck")


def two(kind: str, first: str = "10packets", second: str = "20packets", af: str = "", be: str = "") -> Link:
    """A link with two classes: code points 10 and 12, and the rest."""
    return link(_TWO.format(kind=kind, first=first, second=second, af=af, be=be))


def lines(one: Link, *, in_bucket: bool = False) -> list[str]:
    made = qdiscs.commands(one, "parent 2:1", _FIRST_PORT, on_wire=True, in_bucket=in_bucket)
    return [f"{what} {words}" for what, words in made]


def test_a_scheduler_has_a_discipline_and_filters_for_each_class() -> None:
    assert lines(two("drr", af="quantum: 9kB, ", be="quantum: 3kB, ")) == [
        "qdisc parent 2:1 handle 3: drr",
        "class parent 3: classid 3:1 drr quantum 9000",
        "qdisc parent 3:1 handle 10: pfifo limit 10",
        "filter parent 3: protocol ip prio 2 flower ip_tos 0x28/0xfc classid 3:1",
        "filter parent 3: protocol ip prio 2 flower ip_tos 0x30/0xfc classid 3:1",
        "class parent 3: classid 3:2 drr quantum 3000",
        "qdisc parent 3:2 handle 11: pfifo limit 20",
        "filter parent 3: protocol ip prio 3 matchall classid 3:2",
    ]


def test_bands_of_strict_priority_are_there_already() -> None:
    made = lines(two("prio"))
    assert made[0] == "qdisc parent 2:1 handle 3: prio bands 2 priomap" + " 1" * 16, "the second class has the rest"
    assert not any(line.startswith("class ") for line in made)
    alone = lines(link("{prio: {classes: {all: {queue: 10packets}}}}"))
    assert alone[0].startswith("qdisc parent 2:1 handle 3: prio bands 2 "), "the kernel has no fewer"


def test_bands_of_transmission_selection_are_the_strict_classes_then_the_others_with_their_quanta() -> None:
    classes = "{voice: {dscp: ef, strict: true, queue: 9packets}, be: {quantum: 3kB, queue: 9packets}, "
    classes += "af: {dscp: af11, quantum: 9kB, queue: 9packets}}"
    made = lines(link(f"{{ets: {{classes: {classes}}}}}"))
    assert made[0] == "qdisc parent 2:1 handle 3: ets bands 3 strict 1 quanta 3000 9000 priomap" + " 1" * 16
    assert [line.split()[2] for line in made if line.startswith("qdisc ")] == ["2:1", "3:1", "3:2", "3:3"]
    assert lines(two("ets"))[0].startswith("qdisc parent 2:1 handle 3: ets bands 2 quanta 1538 1538 priomap ")


def test_a_hierarchy_is_one_discipline_whose_root_class_lends_what_the_link_has() -> None:
    inner = "{htb: {classes: {gold: {dscp: af11, rate: 2Mbps, ceil: 10Mbps, queue: 9packets}, "
    inner += "silver: {rate: 1Mbps, priority: 1, queue: 9packets}}}}"
    tenant = f"{{dscp: [af11, af12], rate: 6Mbps, ceil: 8Mbps, queue: {inner}}}"
    one = link(f"{{htb: {{classes: {{tenant: {tenant}, rest: {{rate: 4Mbps, queue: 9packets}}}}}}}}")
    assert lines(one) == [
        "qdisc parent 2:1 handle 3: htb",
        "class parent 3: classid 3:1 htb rate 10000000bit ceil 10000000bit burst 3076 cburst 3076",
        "class parent 3:1 classid 3:2 htb rate 6000000bit ceil 8000000bit burst 3076 cburst 3076 prio 0 quantum 1538",
        "class parent 3:2 classid 3:3 htb rate 2000000bit ceil 10000000bit burst 3076 cburst 3076 prio 0 quantum 1538",
        "qdisc parent 3:3 handle 10: pfifo limit 9",
        "filter parent 3:2 protocol ip prio 2 flower ip_tos 0x28/0xfc classid 3:3",
        "class parent 3:2 classid 3:4 htb rate 1000000bit ceil 1000000bit burst 3076 cburst 3076 prio 1 quantum 1538",
        "qdisc parent 3:4 handle 11: pfifo limit 9",
        "filter parent 3:2 protocol ip prio 3 matchall classid 3:4",
        "filter parent 3: protocol ip prio 2 flower ip_tos 0x28/0xfc classid 3:2",
        "filter parent 3: protocol ip prio 2 flower ip_tos 0x30/0xfc classid 3:2",
        "class parent 3:1 classid 3:5 htb rate 4000000bit ceil 4000000bit burst 3076 cburst 3076 prio 0 quantum 1538",
        "qdisc parent 3:5 handle 12: pfifo limit 9",
        "filter parent 3: protocol ip prio 3 matchall classid 3:5",
    ]
    assert [leaf.handle for leaf in qdiscs.leaves(one)] == [0x10, 0x11, 0x12]


def test_a_class_that_names_flows_has_their_ports_in_both_directions_before_any_code_point() -> None:
    made = lines(link("{prio: {classes: {voice: {flows: voice, dscp: ef, queue: 9packets}, be: {queue: 9packets}}}}"))
    chosen = [line for line in made if line.endswith("classid 3:1")]
    ports = [f"ip_proto {name} {side}_port 5001" for name in ("tcp", "udp") for side in ("dst", "src")]
    assert [line.partition(" flower ")[2].rpartition(" classid")[0] for line in chosen[:4]] == ports
    assert all(" prio 1 " in line for line in chosen[:4])
    assert chosen[4].startswith("filter parent 3: protocol ip prio 2 flower ip_tos 0xb8/0xfc")


def test_shapers_and_schedulers_nest_and_the_leaves_are_the_classes_of_the_table() -> None:
    inner = _TWO.format(kind="drr", first="codel", second="{tbf: {rate: 1Mbps, burst: 2packets}}", af="", be="")
    one = two("prio", first=inner)
    assert [name for name, _ in queue_classes(one.queue)] == ["af.af", "af.be", "be"]
    made = lines(one)
    disciplines = [line.split()[2:6] for line in made if line.startswith("qdisc ")]
    assert disciplines == [
        ["2:1", "handle", "3:", "prio"],
        ["3:1", "handle", "10:", "drr"],
        ["10:1", "handle", "11:", "codel"],
        ["10:2", "handle", "12:", "tbf"],
        ["12:1", "handle", "13:", "bfifo"],
        ["3:2", "handle", "14:", "pfifo"],
    ]
    assert "qdisc parent 10:2 handle 12: tbf rate 1000000bit burst 3076 limit 1538" in made
    leaves = qdiscs.leaves(one)
    assert [leaf.handle for leaf in leaves] == [0x11, 0x13, 0x14]
    assert [leaf.marks_word for leaf in leaves] == [6, None, None]
    assert qdiscs.leaves(link("codel")) == ()


def _many(classes: int) -> Link:
    named = "".join(f"c{point}: {{dscp: {point}, queue: 2packets}}, " for point in range(classes - 1))
    return link(f"{{prio: {{classes: {{{named}rest: {{queue: 2packets}}}}}}}}")


_RED = "{red: {size: 100packets, min: 15kB, max: 45kB, gentle: false, weight: 0.001953125}}"


def test_red_below_a_bucket_or_in_a_class_learns_that_it_is_empty() -> None:
    shaped = lines(link(f"{{tbf: {{rate: 5Mbps, queue: {_RED}}}}}"), in_bucket=True)
    assert [line.split()[5] for line in shaped] == ["ets", "tbf", "ets", "red"]
    made = lines(two("prio", second=_RED))
    assert "qdisc parent 3:2 handle 12: ets bands 1 strict 1" in made
    assert any(line.startswith("qdisc parent 12:1 handle 11: red ") for line in made)
    assert qdiscs.obstacle(two("prio", second=_RED), on_wire=True) is None


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (two("drr", second=_RED), "class be: a queue below drr, which does not tell it that it is empty"),
        (two("ets", first=_RED), "class af: a queue below ets, which does not tell it that it is empty"),
        (
            two("wrr", af="weight: 90%, ", be="weight: 10%, "),
            "a queue wrr, for which weir has no discipline of the kernel",
        ),
        (
            two("prio", second="{red: {size: 1bdp, min: 15kB, max: 45kB, gentle: true}}"),
            "class be: RED in a form that the kernel lacks (several curves, gentle, or its weight)",
        ),
        (
            link("{prio: {size: 5packets, classes: {a: {dscp: ef, queue: 9packets}, b: {queue: 9packets}}}}"),
            "a limit over all classes of prio, less than the sum of theirs",
        ),
        (_many(17), "prio of 17 classes (the kernel has 16 at most)"),
        (_many(16), None),
    ],
    ids=["red", "red in a band", "wrr", "gentle", "limit", "too many", "many"],
)
def test_what_the_kernel_lacks_is_told_with_the_class(one: Link, said: str | None) -> None:
    assert qdiscs.obstacle(one, on_wire=True) == said


def test_without_a_size_table_sizes_on_the_wire_are_refused() -> None:
    """A device of the lab's own links counts IP bytes; priorities know no sizes."""
    assert qdiscs.obstacle(two("drr")) == "a queue drr, which needs the sizes of packets on the wire"
    shaped = two("prio", second="{tbf: {rate: 1Mbps, queue: 9packets}}")
    assert qdiscs.obstacle(shaped) == "class be: a queue tbf, which needs the sizes of packets on the wire"
    assert qdiscs.obstacle(two("prio")) is None
