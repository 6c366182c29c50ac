"""Topologies: the resulting delays, rates and queues."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenario_support import dumbbell, plan_of

from weir.scenario import ScenarioError, parse

Plan = dict[str, Any]


def link(plan: Plan, name: str) -> dict[str, Any]:
    """The link called ``name``."""
    (found,) = [x for x in plan["links"] if x["name"] == name]
    return dict(found)


def rtt(plan: Plan, flow: int) -> int:
    """Two-way propagation delay of a flow, ns."""
    f = plan["flows"][flow]
    return sum(plan["links"][i]["delay"]["delay_ns"] for i in [*f["path"], *f["reverse_path"]])


def network(topology: str, ends: str = "pairs", **keys: str) -> Plan:
    """The plan of bulk flows on a topology."""
    entry = f"[{{name: flows, kind: bulk, between: {ends}}}]"
    return plan_of(dumbbell(topology=topology, workload=entry, **keys))


def names(plan: Plan, flow: int) -> list[str]:
    """The links of a flow's path."""
    return [plan["links"][i]["name"] for i in plan["flows"][flow]["path"]]


def errors(text: str) -> str:
    """The problems of a scenario that must have some."""
    with pytest.raises(ScenarioError) as caught:
        parse(text)
    return "\n".join(str(p) for p in caught.value.problems)


BASE = "access: {rate: 1Gbps}, capacity: 10Gbps"


def test_a_dumbbell_has_the_links_its_documentation_names() -> None:
    plan = network(f"{{dumbbell: {{pairs: 2, {BASE}, buffer: 10ms, rtt: 20ms}}}}")
    assert [x["name"] for x in plan["links"]] == [
        "bottleneck",
        "bottleneck.reverse",
        "src0->left",
        "left->src0",
        "dst0->right",
        "right->dst0",
        "src1->left",
        "left->src1",
        "dst1->right",
        "right->dst1",
    ]
    assert names(plan, 1) == ["src1->left", "bottleneck", "right->dst1"]
    assert [n["kind"] for n in plan["nodes"][:3]] == ["router", "router", "host"]
    assert [x["name"] for x in plan["links"] if x["host_nic"]] == [
        "src0->left",
        "dst0->right",
        "src1->left",
        "dst1->right",
    ]


@pytest.mark.parametrize(
    "keys",
    [
        "rtt: 11.5ms",
        "rtt: 0ms",
        "rtt: 1ns",
        "rtt: 33333333ns",
        "access: {rate: 1Gbps, delay: 1ms}, rtt: 11.5ms",
        "access: {rate: 1Gbps, delay: [0ms, 1ms, 2ms]}, rtt: 11.5ms",
        "bottleneck: {rate: 1Gbps, delay: 2ms, queue: 1ms}, rtt: 11.5ms",
    ],
)
def test_delays_add_up_to_the_rtt(keys: str) -> None:
    needed = {"access": "access: {rate: 1Gbps}", "bottleneck": "bottleneck: {rate: 1Gbps, queue: 1ms}"}
    whole = ", ".join([keys, *(text for name, text in needed.items() if name not in keys)])
    plan = network(f"{{dumbbell: {{pairs: 3, {whole}}}}}")
    asked = {"11.5ms": 11_500_000, "0ms": 0, "1ns": 1, "33333333ns": 33_333_333}[keys.rsplit("rtt: ")[1]]
    assert [rtt(plan, i) for i in range(3)] == [asked] * 3


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=6), st.integers(0, 10**6))
def test_each_pair_has_its_own_rtt(rtts: list[int], access: int) -> None:
    rtts = [r + 4 * access for r in rtts]
    text = ", ".join(f"{r}ns" for r in rtts)
    keys = (
        f"pairs: {len(rtts)}, access: {{rate: 1Gbps, delay: {access}ns}}, capacity: 1Gbps, buffer: 1ms, rtt: [{text}]"
    )
    plan = network(f"{{dumbbell: {{{keys}}}}}", duration="3000s")
    assert [rtt(plan, i) for i in range(len(rtts))] == rtts


def test_a_spread_is_in_multiples_of_the_rtt() -> None:
    keys = f"pairs: 3, {BASE}, buffer: 10ms, rtt_spread: [1, 1.2, 3]"
    plan = network(f"{{dumbbell: {{{keys}, rtt: 20ms}}}}", sweep="{topology.dumbbell.rtt: [10ms]}")
    assert [rtt(plan, i) for i in range(3)] == [10_000_000, 12_000_000, 30_000_000]
    assert "`rtt_spread` is in multiples of `rtt`" in errors(
        dumbbell(
            topology=f"{{dumbbell: {{{keys}, bottleneck: {{rate: 1Gbps, delay: 1ms}}}}}}".replace(
                "capacity: 10Gbps, buffer: 10ms, ", ""
            )
        )
    )
    assert "2 values for 3 pairs" in errors(
        dumbbell(topology=f"{{dumbbell: {{pairs: 3, {BASE}, buffer: 10ms, rtt_spread: [1, 2], rtt: 20ms}}}}")
    )


@pytest.mark.parametrize(
    ("rtt", "limit"),
    [("1ms", {"bytes": None, "packets": 10}), ("100ms", {"bytes": 125_000, "packets": None})],
)
def test_a_queue_has_at_least_its_least(rtt: str, limit: dict[str, Any]) -> None:
    queue = "{droptail: {size: 0.1bdp, least: 10packets}}"
    keys = f"pairs: 1, access: {{rate: 1Gbps}}, bottleneck: {{rate: 100Mbps, queue: {queue}}}, rtt: {rtt}"
    assert link(network(f"{{dumbbell: {{{keys}}}}}"), "bottleneck")["queue"]["limit"] == limit


def test_the_remainder_of_the_rtt_is_on_the_bottleneck_and_the_difference_at_the_receivers() -> None:
    plan = network(f"{{dumbbell: {{pairs: 2, {BASE}, buffer: 10ms, rtt: [20ms, 60ms]}}}}")
    assert link(plan, "bottleneck")["delay"]["delay_ns"] == 10_000_000
    assert link(plan, "bottleneck.reverse")["delay"]["delay_ns"] == 10_000_000
    assert link(plan, "right->dst1")["delay"]["delay_ns"] == 20_000_000
    assert link(plan, "src1->left")["delay"]["delay_ns"] == 0


def test_an_rtt_below_the_delays_is_refused() -> None:
    keys = "pairs: 1, access: {rate: 1Gbps, delay: 1ms}, capacity: 1Gbps, buffer: 1ms, rtt: 3ms"
    assert "an RTT of 3ms is impossible: the links' own delays add up to 4ms" in errors(
        dumbbell(topology=f"{{dumbbell: {{{keys}}}}}")
    )


def test_the_names_of_the_thesis_give_the_same_network() -> None:
    ours = "pairs: 12, access: {rate: 1Gbps}, bottleneck: {rate: 10Gbps, queue: {droptail: {size: 0.5bdp}}}, rtt: 10ms"
    thesis = "multiplexing: 12, aggregation: 10, capacity: 10Gbps, buffer: 0.5bdp, rtt: 10ms, mtu: 1500B"
    assert network(f"{{dumbbell: {{{ours}}}}}") == network(f"{{dumbbell: {{{thesis}}}}}")


@pytest.mark.parametrize(
    ("queue", "limit"),
    [
        ("100packets", {"bytes": None, "packets": 100}),
        ("64KiB", {"bytes": 65_536, "packets": None}),
        ("10ms", {"bytes": 1_250_000, "packets": None}),
        ("0.5bdp", {"bytes": 1_250_000, "packets": None}),
        ("{droptail: {size: 1bdp}}", {"bytes": 2_500_000, "packets": None}),
    ],
)
def test_queue_sizes_become_bytes_or_packets(queue: str, limit: dict[str, int | None]) -> None:
    plan = network(
        f"{{dumbbell: {{pairs: 1, access: {{rate: 1Gbps}}, bottleneck: {{rate: 1Gbps, queue: {queue}}}, rtt: 20ms}}}}"
    )
    assert link(plan, "bottleneck")["queue"] == {"kind": "droptail", "limit": limit}


def test_bdp_takes_the_mean_of_several_rtts() -> None:
    plan = network("{dumbbell: {pairs: 2, access: {rate: 1Gbps}, capacity: 1Gbps, buffer: 1bdp, rtt: [10ms, 30ms]}}")
    assert link(plan, "bottleneck")["queue"]["limit"]["bytes"] == 2_500_000


def _queue(text: str) -> dict[str, Any]:
    keys = f"pairs: 1, access: {{rate: 1Gbps}}, bottleneck: {{rate: 1Gbps, queue: {text}}}, rtt: 20ms"
    return dict(link(network(f"{{dumbbell: {{{keys}}}}}"), "bottleneck")["queue"])


def test_red_and_wred() -> None:
    red = _queue("{red: {size: 100packets, min: 10packets, max: 5ms, max_p: 2%, gentle: false, ecn: true}}")
    curve = {"min_bytes": 15_380, "max_bytes": 625_000, "max_p": 0.02}
    assert red["curves"] == [{"dscp_from": 0, "dscp_to": 63, **curve}]
    assert (red["weight"], red["gentle"], red["mark"]) == (0.002, False, "ecn")
    classes = "[{dscp: [af11, 11], min: 1kB, max: 2kB}, {min: 3kB, max: 4kB}]"
    wred = _queue(f"{{wred: {{size: 100packets, classes: {classes}}}}}")
    ranges = [(c["dscp_from"], c["dscp_to"], c["min_bytes"]) for c in wred["curves"]]
    assert ranges == [(0, 9, 3000), (10, 11, 1000), (12, 63, 3000)]


@pytest.mark.parametrize("name", ["codel", "fq_codel", "pie"])
def test_an_active_queue_can_be_named_alone(name: str) -> None:
    assert _queue(name) == _queue(f"{{{name}: {{}}}}")
    assert _queue(name)["kind"] == name


def test_losses_and_jitter_are_only_on_the_direction_they_are_written_for() -> None:
    spec = "rate: 1Gbps, queue: 1ms, loss: 1%, jitter: {deviation: 1ms, distribution: uniform}"
    plan = network(f"{{dumbbell: {{pairs: 1, access: {{rate: 1Gbps}}, bottleneck: {{{spec}}}, rtt: 20ms}}}}")
    there, back = link(plan, "bottleneck"), link(plan, "bottleneck.reverse")
    assert there["loss"] == {"kind": "bernoulli", "p": 0.01}
    assert there["delay"] == {
        "kind": "jitter",
        "delay_ns": 10_000_000,
        "jitter_ns": 1_000_000,
        "normal": False,
        "reorder": False,
    }
    assert back["loss"] is None
    assert back["delay"] == {"kind": "fixed", "delay_ns": 10_000_000}
    assert back["queue"] == there["queue"]


def test_an_asymmetric_bottleneck() -> None:
    shared = "capacity: 40Mbps, buffer: 10ms, reverse: {rate: 4Mbps, queue: codel}"
    keys = f"pairs: 1, access: {{rate: 1Gbps}}, rtt: 600ms, {shared}"
    plan = network(f"{{dumbbell: {{{keys}}}}}")
    assert link(plan, "bottleneck")["rate_bps"] == 40_000_000
    assert link(plan, "bottleneck.reverse")["rate_bps"] == 4_000_000
    assert link(plan, "bottleneck.reverse")["queue"]["kind"] == "codel"
    assert rtt(plan, 0) == 600_000_000


def test_access_links_may_differ_by_side_and_by_pair() -> None:
    keys = "pairs: 2, access: {rate: [1Gbps, 2Gbps], queue: 50packets}, sink_access: {rate: 3Gbps}"
    plan = network(f"{{dumbbell: {{{keys}, capacity: 10Gbps, buffer: 1ms, rtt: 1ms}}}}")
    rates = {x["name"]: x["rate_bps"] // 10**9 for x in plan["links"]}
    assert (rates["src0->left"], rates["src1->left"], rates["right->dst0"], rates["right->dst1"]) == (1, 2, 3, 3)
    assert link(plan, "src0->left")["queue"]["limit"]["packets"] == 50
    assert link(plan, "dst0->right")["queue"]["limit"]["packets"] == 1000


def test_access_links_may_differ_by_direction() -> None:
    satellite = "access: {rate: 4Mbps, down: [40Mbps, 20Mbps]}, sink_access: {rate: 1Gbps}"
    plan = network(f"{{dumbbell: {{pairs: 2, {satellite}, capacity: 40Mbps, buffer: 1ms, rtt: 600ms}}}}")
    rates = {x["name"]: x["rate_bps"] // 10**6 for x in plan["links"]}
    assert [rates[f"src{i}->left"] for i in range(2)] == [4, 4]
    assert [rates[f"left->src{i}"] for i in range(2)] == [40, 20]
    assert {rates["dst0->right"], rates["right->dst0"]} == {1000}
    star = network("{star: {hosts: 2, access: {rate: 1Mbps, down: 8Mbps}, port: {queue: 2ms}, rtt: 1ms}}", "[h0, h1]")
    assert [link(star, name)["rate_bps"] for name in ("h0->hub", "hub->h0")] == [1_000_000, 8_000_000]
    with pytest.raises(ScenarioError, match=r"`access\.down` and `port\.rate` say the same"):
        network("{star: {hosts: 2, access: {rate: 1Mbps, down: 8Mbps}, port: {rate: 8Mbps, queue: 1ms}, rtt: 1ms}}")


def test_a_hierarchical_dumbbell_spreads_pairs_over_its_leaves() -> None:
    levels = (
        "[{branches: 2, link: {rate: 5Gbps, delay: 1ms, queue: 1ms}}, {branches: 3, link: {rate: 2Gbps, queue: 1ms}}]"
    )
    plan = network(f"{{hierarchical: {{pairs: 7, {BASE}, buffer: 10ms, rtt: 20ms, levels: {levels}}}}}")
    assert [rtt(plan, i) for i in range(7)] == [20_000_000] * 7
    assert names(plan, 0) == [
        "src0->left.0.0",
        "left.0.0->left.0",
        "left.0->left",
        "bottleneck",
        "right->right.0",
        "right.0->right.0.0",
        "right.0.0->dst0",
    ]
    leaves = [names(plan, i)[1] for i in range(7)]
    assert len(set(leaves[:6])) == 6
    assert leaves[6] == leaves[0]


def test_a_parking_lot() -> None:
    spec = "bottlenecks: 3, bottleneck: {rate: 1Gbps, queue: 1ms}, pairs: 2, cross: 2, access: {rate: 1Gbps}"
    topology = f"{{parking_lot: {{{spec}, rtt: 100ms, cross_rtt: 50ms}}}}"
    plan = network(topology)
    assert names(plan, 0) == ["src0->r0", "bottleneck0", "bottleneck1", "bottleneck2", "r3->dst0"]
    assert [rtt(plan, i) for i in range(2)] == [100_000_000] * 2
    cross = network(topology, "cross")
    assert [names(cross, i)[1] for i in range(6)] == [f"bottleneck{b}" for b in (0, 0, 1, 1, 2, 2)]
    assert [rtt(cross, i) for i in range(6)] == [50_000_000] * 6
    assert names(network(topology, "cross1"), 1)[1] == "bottleneck1"
    assert "an RTT of 10ms is impossible" in errors(dumbbell(topology=topology.replace("50ms", "10ms")))


def test_a_star_has_its_queues_at_the_ports() -> None:
    topology = "{star: {hosts: 4, access: {rate: 1Gbps}, port: {queue: 30packets}, rtt: 200us}}"
    plan = network(topology, "{from: 'h[1..3]', to: h0}")
    assert [names(plan, i) for i in range(3)] == [[f"h{i}->hub", "hub->h0"] for i in (1, 2, 3)]
    assert [rtt(plan, i) for i in range(3)] == [200_000] * 3
    assert link(plan, "hub->h0")["queue"]["limit"]["packets"] == 30
    assert link(plan, "h0->hub")["host_nic"]
    assert not link(plan, "hub->h0")["host_nic"]


GRAPH = """{graph: {hosts: [a, b], routers: [r, s, t], rtt: 10ms, links: [
  {between: [a, r], rate: 1Gbps}, {between: [s, b], rate: 1Gbps},
  {name: slow, between: [r, s], rate: 1Gbps, delay: 5ms},
  {name: one, between: [r, t], rate: 1Gbps, delay: %s}, {name: two, between: [t, s], rate: 1Gbps, delay: 2ms}]}}"""


@pytest.mark.parametrize(
    ("delay", "way"), [("1ms", ["one", "two"]), ("3ms", ["slow"]), ("4ms", ["slow"]), ("2999999ns", ["one", "two"])]
)
def test_a_graphs_packets_take_the_path_of_least_delay_then_fewest_links(delay: str, way: list[str]) -> None:
    plan = network(GRAPH % delay, "[a, b]")
    assert names(plan, 0) == ["a->r", *way, "s->b"]


def test_of_equal_paths_the_link_written_first_is_taken() -> None:
    for first, second in (("x", "y"), ("y", "x")):
        links = ", ".join(f"{{name: {n}, between: [r, s], rate: 1Gbps, delay: 1ms}}" for n in (first, second))
        ends = "{between: [a, r], rate: 1Gbps}, {between: [s, b], rate: 1Gbps}"
        plan = network(f"{{graph: {{hosts: [a, b], routers: [r, s], rtt: 9ms, links: [{ends}, {links}]}}}}", "[a, b]")
        assert names(plan, 0)[1] == first


def test_hosts_do_not_forward() -> None:
    links = "{between: [a, b], rate: 1Gbps}, {between: [b, c], rate: 1Gbps}"
    text = dumbbell(
        topology=f"{{graph: {{hosts: [a, b, c], links: [{links}]}}}}",
        workload="[{name: f, kind: bulk, between: [a, c]}]",
    )
    assert "there is no path from `a` to `c`" in errors(text)


def test_a_oneway_link_has_no_way_back() -> None:
    links = "{between: [a, b], rate: 1Gbps, oneway: true}"
    text = dumbbell(
        topology=f"{{graph: {{hosts: [a, b], links: [{links}]}}}}", workload="[{name: f, kind: bulk, between: [a, b]}]"
    )
    assert "there is no path from `b` to `a`" in errors(text)


def test_overhead_and_mtu_are_on_every_link() -> None:
    keys = f"pairs: 1, {BASE}, buffer: 1ms, rtt: 1ms, mtu: 9000B, overhead: 18B"
    plan = network(f"{{dumbbell: {{{keys}}}}}")
    assert {(x["mtu_bytes"], x["overhead_bytes"]) for x in plan["links"]} == {(9000, 18)}
