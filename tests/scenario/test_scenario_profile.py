"""Rate profiles: their form in plans."""

from __future__ import annotations

from typing import Any

import pytest

from weir import scenario

_TEXT = """
title: t
topology: {{dumbbell: {{pairs: 2, access: {{rate: 1Gbps}}, bottleneck: {{rate: 100Mbps, queue: 1MB}}, rtt: 10ms}}}}
transport: {{cc: constant}}
duration: 9s
workload: [{{name: f, between: pairs, start: [0s, 2s], {entry}}}]
{more}
"""


def plans(entry: str, more: str = "") -> list[list[tuple[int, int]] | None]:
    """The profile of each flow, as instants (ns) and rates (bit/s)."""
    found: list[dict[str, Any]] = []
    for cell in scenario.parse(_TEXT.format(entry=entry, more=more)).cells():
        found += [flow["transport"] for flow in cell.plan()["flows"]]
    return [
        [(step["at_ns"], step["rate_bps"]) for step in tcp["profile"]] if "profile" in tcp else None for tcp in found
    ]


def test_steps_are_instants_of_the_run() -> None:
    one, other = plans("kind: bulk, profile: [{rate: 30Mbps}, {at: 1500ms, rate: 70Mbps}]")
    assert one == [(0, 30_000_000), (1_500_000_000, 70_000_000)]
    assert other == [(2_000_000_000, 30_000_000), (3_500_000_000, 70_000_000)]


def test_a_single_rate_is_a_profile_and_none_leaves_the_plan_as_it_was() -> None:
    assert plans("kind: transfer, size: 1MB, profile: 5Mbps")[0] == [(0, 5_000_000)]
    assert plans("kind: transfer, size: 1MB") == [None, None]


def test_a_rate_of_the_wire_becomes_that_of_the_ip_packets() -> None:
    (step,) = plans("kind: bulk, profile: [{wire_rate: 1Gbps}]")[0] or []
    assert step == (0, 1_000_000_000 * 1500 // 1538)


def test_a_sweep_varies_a_step() -> None:
    swept = plans("kind: bulk, profile: [{rate: 1Mbps}]", "sweep: {'workload.f.profile[0].rate': [2Mbps, 3Mbps]}")
    assert [steps[0][1] for steps in swept if steps] == [2_000_000, 2_000_000, 3_000_000, 3_000_000]


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        (
            "[{rate: 480Mbps}, {at: 1s, wire_rate: 600Mbps}]",
            "1.2Gbps on the wire exceed the 100Mbps of link `bottleneck`",
        ),
        ("49Mbps", "100.483Mbps on the wire exceed the 100Mbps of link `bottleneck`"),
        ("48Mbps", None),
        ("[{wire_rate: 50Mbps}]", None),
    ],
)
def test_a_profile_above_the_bottleneck_is_told_once(profile: str, said: str | None) -> None:
    text = _TEXT.format(entry=f"kind: bulk, streams: 2, profile: {profile}", more="")
    told = [one.message for one in scenario.parse(text).problems if one.severity == "warning"]
    assert told == ([] if said is None else [f"flow `f[0]`: {said}, so that it falls behind its profile"])


def test_a_profile_above_the_hosts_own_link_is_told() -> None:
    text = _TEXT.replace("access: {{rate: 1Gbps}}", "access: {{rate: 10Mbps}}")
    (problem,) = scenario.parse(text.format(entry="kind: bulk, profile: 11Mbps", more="")).problems
    assert problem.severity == "warning"
    assert "11.2787Mbps on the wire exceed the 10Mbps of link `src0->left`" in problem.message
