"""Every claim of the catalogue can be refuted: changes of its numbers, within what its cells allow, make it fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from shared import of_catalogue
from weir.cli._scenarios import catalogue_files
from weir.metrics.expect.parser import parse_check
from weir.metrics.reference import parse_reference
from weir.run.plan import plan_of
from weir.scenario import Scenario, Version, parse
from weir.study.claims import Store, Unit, parts_of, weaknesses
from weir.study.claims._limits import limits_of

RESULTS = Path(__file__).parent.parent.parent / "docs" / "claims" / "results"
BASIS = ("id", "paper", "tolerance", "refuted_by")
FILES = catalogue_files()
TWELVE = """
title: Twelve flows of 1 Gb/s into 10 Gb/s
topology:
  dumbbell: {pairs: 12, access: {rate: 1Gbps}, bottleneck: {rate: 10Gbps, queue: 16MB}, rtt: 10ms}
transport: {cc: reno}
workload:
  - {name: all, between: pairs, kind: bulk, until: 30s}
phases:
  late: {from: 10s, to: 30s}
sweep:
  transport.cc: [reno, bic, cubic]
  topology.dumbbell.rtt: [10ms, 20ms, 40ms, 80ms]
expect:
  - {claim: it, check: CHECK, where: {WHERE}}
"""


def _scenario(check: str, where: str = "") -> Scenario:
    return parse(TWELVE.replace("CHECK", f'"{check}"').replace("{WHERE}", f"{{{where}}}"), "<twelve>")


def _versions(name: str) -> list[Scenario]:
    """The scenario, and its version for real time with the claims that only that decides, if there are any."""
    scenario = of_catalogue(name)
    only = tuple(one for one in scenario.realtime().expect if one.realtime_only)
    return [scenario, *([replace(scenario.realtime(), expect=only)] if only else [])]


def _kept(
    name: str, scenario: Scenario, version: Version = "full", method: str = "sim"
) -> Mapping[str, Mapping[str, object]]:
    held = Store(RESULTS).cells(Unit(name, version, method))
    return {cell: held[cell].values for cell in (cell.id for cell in scenario.cells()) if cell in held}


@pytest.mark.parametrize("name", FILES)
def test_every_claim_says_what_the_paper_has_and_what_would_refute_it(name: str) -> None:
    for claim in (claim for scenario in _versions(name) for claim in scenario.expect):
        # The demo is a set-up of its own, and its parts are of no claim of the page.
        for key in (key for key in BASIS if (name, key) != ("demo", "id")):
            assert claim.basis.get(key), f"{name}: {claim.claim}: no {key}"


@pytest.mark.parametrize("name", FILES)
def test_every_part_of_every_check_can_fail(name: str) -> None:
    scenario, *small = _versions(name)
    found = weaknesses(scenario, _kept(name, scenario))
    found += [weak for one in small for weak in weaknesses(one, _kept(name, one, "realtime", "emul"))]
    assert not found, "\n".join(str(weak) for weak in found)


@pytest.mark.parametrize(
    ("check", "part"),
    [
        ("jain@late >= 0.83", "jain@late >= 0.83"),
        ("jain@late between 0.9 and 1", "jain@late <= 1"),
        ("efficiency.capacity.mean within 6% of 0.8968", "6% above 0.8968"),
        ("goodput.mean@late <= 800Mbps", "goodput.mean@late <= 800Mbps"),
        ("goodput.max <= 950Mbps", "goodput.max <= 950Mbps"),
        ("link.frames.max@late <= 9.9Gbps", "link.frames.max@late <= 9.9Gbps"),
        ("utilisation.mean <= 100%", "utilisation.mean <= 100%"),
        ("for each cc in {reno, bic}: jain@late >= 0.8", "jain@late >= 0.8"),
        ("spearman(goodput.mean over rtt) <= -0.9", "give the size"),
        ("jain@late >= 0.9 and goodput.aggregate.mean <= 9.5Gbps", "goodput.aggregate.mean <= 9.5Gbps"),
    ],
)
def test_a_check_that_cannot_fail_is_found(check: str, part: str) -> None:
    found = weaknesses(_scenario(check), {})
    assert len(found) == 1
    assert part in str(found[0])


@pytest.mark.parametrize(
    "check",
    [
        "jain@late >= 0.9",
        "efficiency.capacity.mean within 2% of 0.8968",
        "goodput.mean@late >= 700Mbps",
        "argmin(goodput.mean over cc) == 'reno'",
        "goodput.mean{rtt: 80ms} <= 0.8 * goodput.mean{rtt: 10ms}",
        "not goodput.mean{cc: reno} within 5% of 0.5 * (goodput.mean{cc: bic} + goodput.mean{cc: cubic})",
        "median(jain@late over cc) >= 0.9",
        "goodput.aggregate.reach[rate: 9Gbps] > 5s",
        "for some rtt: goodput.cov > 20%",
    ],
)
def test_a_check_that_can_fail_passes(check: str) -> None:
    assert weaknesses(_scenario(check), {}) == []


def test_a_claim_that_cannot_hold_is_found() -> None:
    (weak,) = weaknesses(_scenario("goodput.mean@late >= 800Mbps"), {})
    assert "hold" in weak.why


def test_the_parts_of_a_check_are_its_comparisons_with_each_end_alone() -> None:
    node = parse_check("jain between 0.9 and 1 and (loss <= 1% or goodput.mean within 5Mbps of 10Mbps)")
    assert [part.text for part in parts_of(node)] == [
        "jain >= 0.9",
        "jain <= 1",
        "loss <= 1%",
        "goodput.mean >= 5Mbps below 10Mbps",
        "goodput.mean <= 5Mbps above 10Mbps",
    ]
    node = parse_check("share(jain between 0.9 and 1 or loss <= 1% over repeat) >= 0.5")
    assert [part.text for part in parts_of(node)] == [
        "share(jain >= 0.9 over repeat) >= 0.5",
        "share(jain <= 1 over repeat) >= 0.5",
        "share(loss <= 1% over repeat) >= 0.5",
    ]


TRANSFERS = """
title: Four transfers of 10 MB, two at a time
topology:
  dumbbell: {pairs: 4, access: {rate: 100Mbps}, bottleneck: {rate: 200Mbps, queue: 1MB}, rtt: 10ms}
transport: {cc: reno}
workload:
  - {name: all, between: pairs, kind: transfer, size: 10MB}
duration: 60s
"""


@pytest.mark.parametrize(
    ("text", "metric", "low", "high"),
    [
        # 1448 of 1538 bytes are payload. Ten flows fill the link, two may get nothing: 10² / (12 · 10).
        (TWELVE, "jain@late", 10 / 12, 1.0),
        (TWELVE, "goodput.mean@late", 0.0, 1e10 * 1448 / 1538 / 12),
        (TWELVE, "goodput.max@late(all[3])", 0.0, 1e9 * 1448 / 1538),
        (TWELVE, "goodput.aggregate.mean(all[0:5])", 0.0, 5e9 * 1448 / 1538),
        (TWELVE, "efficiency.capacity.mean", 0.0, 1448 / 1538),
        (TWELVE, "link.frames.max", 0.0, 1e10 * 1518 / 1538),
        (TWELVE, "utilisation.mean", 0.0, 1.0),
        # Five flows cannot fill the link: nothing keeps one of them from having everything.
        (TWELVE, "jain@late(all[0:5])", 1 / 5, 1.0),
        # 80 Mb at 94.15 Mb/s are 0.85 s. Two go at once: 0.85, 0.85, 1.7 and 1.7 s.
        (TRANSFERS, "completion.min", 0.8497, 60.0),
        (TRANSFERS, "completion.mean", 1.2746, 60.0),
        (TRANSFERS, "completion.makespan", 1.6994, 60.0),
        (TRANSFERS, "completion.jain", 0.9, 1.0),
    ],
)
def test_the_limits_of_a_metric_are_those_of_its_links(text: str, metric: str, low: float, high: float) -> None:
    bare = text.partition("sweep:")[0].partition("expect:")[0]
    plan = plan_of(Path("plan"), parse(bare, "<limits>").cells()[0].plan())
    limits = limits_of(plan, parse_reference(metric))
    assert limits.low == pytest.approx(low, rel=1e-3)
    assert limits.high == pytest.approx(high, rel=1e-3)
