"""Workloads: endpoints, payload, times, transports, and the sources of random draws."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenario_support import dumbbell, plan_of, workload

from shared import ROOT
from weir import _weir, cc
from weir.language.problem import Invalid, Log
from weir.language.scalars import SIZE
from weir.language.tree import read
from weir.scenario import ScenarioError, parse
from weir.scenario._distribution import DistributionType

S = 10**9


def flows(*entries: str, **keys: str) -> list[dict[str, Any]]:
    """The flows of a dumbbell of three pairs of 1 Gb/s with these entries, for ten seconds."""
    return list(plan_of(workload(*entries, **keys))["flows"])


def starts(start: str, n: int = 3) -> list[int]:
    """The starts of the flows of one entry, in seconds."""
    found = flows(f"name: a, kind: bulk, between: pairs, flows: {n}, start: {start}", duration="10000s")
    return [f["start_ns"] for f in sorted(found, key=lambda f: f["index"])]


def test_flows_are_named_after_their_entry_and_in_the_order_of_their_start() -> None:
    found = flows(
        "name: late, kind: bulk, between: 'pairs[0..1]', start: [2s, 1s]",
        "name: early, kind: bulk, between: 'pairs[2]', streams: 2",
    )
    names = ["early[0].0", "early[0].1", "late[1]", "late[0]"]
    assert [f["name"] for f in found] == names
    assert [(f["group"], f["index"], f["stream"]) for f in found] == [
        ("early", 0, 0),
        ("early", 0, 1),
        ("late", 1, 0),
        ("late", 0, 0),
    ]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("5s", [5 * S] * 3),
        ("[1s, 2s, 0s]", [S, 2 * S, 0]),
        ("{every: 200s}", [0, 200 * S, 400 * S]),
        ("{every: 2s, first: 1s}", [S, 3 * S, 5 * S]),
        ("{every: [1s, 3s]}", [0, S, 4 * S]),
        ("{first: 7s}", [7 * S] * 3),
        ("{every: 1s, jitter: 100ms}", [100_000_000, 1_100_000_000, 2_100_000_000]),
    ],
)
def test_starts(start: str, expected: list[int]) -> None:
    assert starts(start) == expected


def test_random_starts_are_within_their_bounds_and_differ() -> None:
    drawn = starts("{uniform: [1s, 2s]}", 50)
    assert all(S <= t <= 2 * S for t in drawn)
    assert len(set(drawn)) == 50


def test_arrivals_of_a_poisson_process_have_the_mean_asked_for() -> None:
    drawn = starts("{every: {exponential: {mean: 2s}}}", 1000)
    # The standard error of the mean of 999 gaps of mean 2 s is 63 ms; the tolerance is five of them.
    assert abs(drawn[-1] / 999 / S - 2) < 0.32
    assert drawn == sorted(drawn)


@pytest.mark.parametrize(
    ("keys", "stops"),
    [
        ("until: 9s", [9 * S] * 3),
        ("stop: [5s, 6s, 7s]", [5 * S, 6 * S, 7 * S]),
        ("stop: {every: 1s, first: 5s}", [5 * S, 6 * S, 7 * S]),
        ("duration: 2s", [2 * S, 3 * S, 4 * S]),
        ("duration: [4s, 3s, 2s]", [4 * S, 4 * S, 4 * S]),
    ],
)
def test_stops(keys: str, stops: list[int]) -> None:
    found = flows(f"name: a, kind: bulk, between: pairs, start: {{every: 1s}}, {keys}")
    assert [f["stop_ns"] for f in found] == stops


def test_the_run_ends_with_the_last_flow_unless_it_has_a_duration() -> None:
    entry = "[{name: a, kind: bulk, between: pairs, start: {every: 1s}, duration: 5s}]"
    text = "\n".join(line for line in dumbbell(workload=entry).split("\n") if not line.startswith("duration"))
    assert plan_of(text)["end_ns"] == 7 * S
    assert plan_of(dumbbell(workload=entry))["end_ns"] == 10 * S


def test_reverse_and_background_traffic_have_their_direction_and_role() -> None:
    found = flows(
        "name: a, kind: bulk, between: 'pairs[0]'",
        "name: b, kind: bulk, between: 'pairs[0]', reverse: true",
        "name: c, kind: bulk, between: 'pairs[0]', background: true",
        "name: d, kind: bulk, between: 'pairs[0]', reverse: true, background: true",
    )
    assert [f["role"] for f in found] == ["test", "test", "background", "reverse"]
    assert ["reverse" in f for f in found] == [False, True, False, False]
    assert (found[1]["from"], found[1]["to"]) == (found[0]["to"], found[0]["from"])
    assert found[1]["path"] == found[0]["reverse_path"]


def tcp(transport: str, entry: str = "") -> dict[str, Any]:
    """The transport of a flow."""
    own = f", transport: {entry}" if entry else ""
    return dict(flows(f"name: a, kind: bulk, between: pairs{own}", transport=transport)[0]["transport"])


def test_defaults_are_those_of_the_stack_and_all_are_in_the_plan() -> None:
    linux = {
        "protocol": "tcp",
        "cc": "cubic",
        "cc_options": {},
        "stack": "linux",
        "mss_bytes": 1448,
        "timestamps": True,
        "sack": True,
        "ecn": False,
        "initial_window": 10,
        "send_buffer_bytes": 4 << 20,
        "receive_buffer_bytes": 6 << 20,
        "pacing": False,
        "ack": "delayed",
        "processing_ns": 10_000,
    }
    assert tcp("{cc: cubic}") == linux
    old = {"stack": "linux-2.6", "initial_window": 3, "send_buffer_bytes": 131_072, "receive_buffer_bytes": 174_760}
    assert tcp("{cc: cubic, stack: linux-2.6}") == linux | old


def test_an_entrys_transport_takes_precedence_key_by_key() -> None:
    merged = tcp("{cc: reno, send_buffer: 1MB, sack: false, ecn: true}", "{cc: cubic, buffers: 2MB, sack: true}")
    assert (merged["cc"], merged["sack"], merged["ecn"]) == ("cubic", True, True)
    assert merged["send_buffer_bytes"] == merged["receive_buffer_bytes"] == 2_000_000


@pytest.mark.parametrize(
    ("transport", "key", "value"),
    [
        ("{cc: reno, timestamps: false}", "mss_bytes", 1460),
        ("{cc: reno, mss: 536B}", "mss_bytes", 536),
        ("{cc: reno, buffers: 2bdp}", "send_buffer_bytes", 5_000_000),
        ("{cc: reno, buffers: 1MB, send_buffer: 3MB}", "send_buffer_bytes", 3_000_000),
        ("{cc: {name: cubic, hystart: false}}", "cc_options", {"hystart": 0}),
        ("{cc: {name: cubic, hystart: true}}", "cc_options", {"hystart": 1}),
        ("{cc: linux:bbr}", "cc", "linux:bbr"),
        ("{cc: reno, ack: every}", "ack", "every"),
        ("{cc: reno, initial_window: 2}", "initial_window", 2),
        ("{cc: reno, pacing: true}", "pacing", True),
    ],
)
def test_tcp_settings(transport: str, key: str, value: Any) -> None:
    assert tcp(transport)[key] == value


def test_a_shared_object_is_found_next_to_the_scenario(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cc.compiled(EXAMPLE, tmp_path / "mine.so")
    text = dumbbell(transport="{cc: ./mine.so}")
    scenario = parse(text, str(tmp_path / "a.yaml"))
    assert scenario.cells()[0].plan()["flows"][0]["transport"]["cc"] == str(tmp_path / "mine.so")
    monkeypatch.chdir(tmp_path)
    here = parse(text, "a.yaml").cells()[0].plan()["flows"][0]["transport"]["cc"]
    assert here == "./mine.so"


EXAMPLE = ROOT / "examples" / "my_cc" / "my_cc.c"


def transfers(keys: str, **top: str) -> list[dict[str, int]]:
    """The transfers of one flow."""
    return list(flows(f"name: a, kind: transfer, between: 'pairs[0]', {keys}", **top)[0]["source"]["transfers"])


def test_transfers_have_their_sizes_and_waits() -> None:
    assert transfers("size: 5MB") == [{"wait_ns": 0, "bytes": 5_000_000}]
    assert transfers("size: [1MB, 2MB], wait: 1s, count: 3") == [
        {"wait_ns": 0, "bytes": 1_000_000},
        {"wait_ns": S, "bytes": 2_000_000},
        {"wait_ns": S, "bytes": 1_000_000},
    ]


def test_transfers_without_a_count_are_enough_to_last_and_no_more_than_fit() -> None:
    found = transfers("size: 1MB, wait: 80ms", duration="5s")
    # Each takes at least its wait, an RTT of 20 ms and 8 ms at 1 Gb/s.
    assert len(found) == math.ceil(5 / 0.108)


def test_transfers_are_enough_also_for_a_path_that_gets_better() -> None:
    better = (
        "[{at: 2s, link: [bottleneck, src0->left, right->dst0], rate: 10Gbps}, {at: 3s, link: bottleneck, delay: 0ms}]"
    )
    found = transfers("size: 100MB, wait: 1ns", changes=better)
    # 80 ms at 10 Gb/s, and the 10 ms that are left of the RTT.
    assert len(found) == math.ceil(10 / 0.090000001)


def test_a_source_keeps_its_draws_when_it_gets_parallel_streams() -> None:
    keys = "name: a, kind: transfer, between: pairs, size: {exponential: 1MB}, count: 4"
    one, two = flows(keys), flows(keys + ", streams: 2")
    assert [f["source"] for f in two if f["stream"] == 0] == [f["source"] for f in one]


def test_an_onoff_source_sends_sizes_over_tcp_and_times_over_udp() -> None:
    over_tcp, over_udp = flows(
        "name: a, kind: onoff, between: 'pairs[0]', on: 1MB, off: 1s",
        "name: b, kind: onoff, between: 'pairs[0]', on: 2s, off: 3s, rate: 1Mbps, packet: 500B",
    )
    assert over_tcp["source"]["kind"] == "transfers"
    assert over_udp["transport"] == {"protocol": "udp", "payload_bytes": 472}
    assert over_udp["source"] == {"kind": "cbr", "rate_bps": 1_000_000, "periods_ns": [2 * S, 3 * S] * 2}


def test_a_constant_bit_rate_source_repeats_its_periods() -> None:
    always, periodic = flows(
        "name: a, kind: cbr, between: 'pairs[0]', rate: 1Mbps",
        "name: b, kind: cbr, between: 'pairs[0]', rate: 1Mbps, periods: [1s, 2s], until: 5s",
    )
    assert always["source"]["periods_ns"] == []
    assert always["transport"]["payload_bytes"] == 1472
    assert periodic["source"]["periods_ns"] == [S, 2 * S, S, 2 * S]


@pytest.mark.parametrize(
    ("entry", "count", "role"),
    [
        ("kind: bulk, congestion_level: 1", 1, "test"),
        ("kind: bulk, congestion_level: 2", 2, "test"),
        ("kind: bulk, congestion_level: 0", 0, "test"),
        ("kind: transfer, size: 1MB, reverse_level: 3", 3, "reverse"),
        ("kind: bulk, background_level: 1", 1, "background"),
        ("kind: cbr, rate: 100Mbps, background_level: 0.2", 2, "background"),
        ("kind: onoff, on: 1s, off: 1s, rate: 500Mbps, congestion_level: 0.5", 2, "test"),
        # 1 MB takes 8 ms at 1 Gb/s: on for a quarter of the time
        ("kind: onoff, on: 1MB, off: 24ms, congestion_level: 0.5", 2, "test"),
        ("kind: onoff, on: {exponential: 1MB}, off: {exponential: 24ms}, congestion_level: 0.75", 3, "test"),
        ("kind: onoff, on: 1MB, off: 24ms, streams: 3, congestion_level: 0.5", 3, "test"),
    ],
)
def test_levels_choose_the_number_of_sources(entry: str, count: int, role: str) -> None:
    found = flows(f"name: a, between: pairs, {entry}")
    assert [f["role"] for f in found] == [role] * count


@pytest.mark.parametrize(
    ("entry", "rates"),
    [
        ("kind: cbr, background_level: 0.3", [100_000_000] * 3),
        ("kind: cbr, background_level: 0.3, flows: 1", [300_000_000]),
        ("kind: cbr, background_level: 0.3, streams: 2", [50_000_000] * 6),
        ("kind: cbr, periods: [1s, 3s], background_level: 0.3", [400_000_000] * 3),
        ("kind: onoff, on: {exponential: 1s}, off: {exponential: 3s}, background_level: 0.3", [400_000_000] * 3),
    ],
)
def test_levels_of_udp_give_the_rates(entry: str, rates: list[int]) -> None:
    assert [f["source"]["rate_bps"] for f in flows(f"name: a, between: pairs, {entry}")] == rates


def test_reverse_levels_are_shares_of_the_reverse_capacity() -> None:
    keys = "pairs: 2, access: {rate: 1Gbps}, capacity: 1Gbps, buffer: 1ms, rtt: 1ms, reverse: {rate: 100Mbps}"
    found = flows("name: a, kind: cbr, between: pairs, reverse_level: 0.5", topology=f"{{dumbbell: {{{keys}}}}}")
    assert [f["source"]["rate_bps"] for f in found] == [25_000_000] * 2


def test_without_a_bottleneck_a_level_is_a_share_of_the_link_all_flows_share() -> None:
    topology = "{star: {hosts: 4, access: {rate: 1Gbps}, port: {queue: 1ms, rate: 200Mbps}, rtt: 1ms}}"
    entry = "name: a, kind: cbr, between: {from: 'h[1..3]', to: h0}, background_level: 0.3"
    assert [f["source"]["rate_bps"] for f in flows(entry, topology=topology)] == [20_000_000] * 3
    apart = "name: a, kind: cbr, between: {from: [h0, h1], to: [h2, h3]}, background_level: 0.3"
    with pytest.raises(ScenarioError, match="needs a link that all its flows share"):
        flows(apart, topology=topology)


A = (
    "name: a, kind: transfer, between: pairs, start: {uniform: [0s, 1s]},"
    " size: {exponential: 1MB}, wait: {exponential: 1s}, count: 5"
)
B = "name: b, kind: onoff, between: pairs, on: {pareto: {shape: 1.5, mean: 1MB}}, off: {weibull: {shape: 2, mean: 1s}}"


def _group(found: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [f for f in found if f["group"] == name]


def test_an_entrys_draws_do_not_change_when_another_is_added() -> None:
    alone = _group(flows(A), "a")
    assert _group(flows(A, B), "a") == alone
    assert _group(flows(B, A), "a") == alone


def test_a_flows_draws_do_not_change_when_its_entry_gets_more_flows() -> None:
    few = _group(flows(A), "a")
    many = _group(flows(A + ", flows: 9"), "a")
    assert [f for f in many if f["index"] < 3] == few


def test_flows_streams_and_purposes_have_draws_of_their_own() -> None:
    found = flows(A + ", streams: 2")
    sizes = [tuple(t["bytes"] for t in f["source"]["transfers"]) for f in found]
    assert len(set(sizes)) == 6


def test_draws_are_those_of_the_named_substreams() -> None:
    text = workload(A, seed="7")
    cell = parse(text).cells()[0]
    flow = next(f for f in cell.plan()["flows"] if f["name"] == "a[2]")
    sizes = _weir.sample(cell.seed, "a[2]/size", {"kind": "exponential", "mean": 1e6}, 5)
    assert [t["bytes"] for t in flow["source"]["transfers"]] == [max(1, round(x)) for x in sizes]
    start = _weir.sample(cell.seed, "a[2]/start", {"kind": "uniform", "low": 0.0, "high": 1e9}, 1)
    assert flow["start_ns"] == round(start[0])


def _distribution(text: str) -> Any:
    return DistributionType(SIZE, "size", "").parse(read(text, Log("f")), Log("f"))


@pytest.mark.parametrize(
    "text",
    [
        "1MB",
        "{constant: 1MB}",
        "{constant: {value: 1MB}}",
        "{uniform: [0.5MB, 1.5MB]}",
        "{uniform: {low: 0.5MB, high: 1.5MB}}",
        "{exponential: 1MB}",
        "{exponential: {mean: 1MB}}",
        "{pareto: {shape: 3, mean: 1MB}}",
        "{lognormal: {sigma: 0.5, mean: 1MB}}",
        "{weibull: {shape: 2, mean: 1MB}}",
        "[0.5MB, 1.5MB]",
    ],
)
def test_distributions_have_the_mean_they_state(text: str) -> None:
    distribution = _distribution(text)
    assert distribution.mean() == pytest.approx(1e6, rel=1e-9)
    n = 20_000
    # The standard deviation is at most the mean: 0.7 % is the standard error, the tolerance six of them.
    assert sum(distribution.sample(3, "test", n)) / n == pytest.approx(1e6, rel=0.043)


def test_least_and_most_values_are_kept() -> None:
    drawn = _distribution("{pareto: {shape: 0.5, scale: 1kB}, min: 5kB, max: 10kB}").sample(1, "x", 1000)
    assert min(drawn) == 5000
    assert max(drawn) == 10_000


@settings(max_examples=60)
@given(st.floats(1e-3, 900), st.sampled_from(["pareto", "weibull", "lognormal"]), st.integers(0, 2**53 - 1))
def test_any_shape_gives_sizes_a_plan_can_hold(shape: float, kind: str, seed: int) -> None:
    parameter = "sigma" if kind == "lognormal" else "shape"
    other = "median" if kind == "lognormal" else "scale"
    try:
        distribution = _distribution(
            f"{{{kind}: {{{parameter}: {shape if kind != 'lognormal' else shape / 10}, {other}: 1kB}}}}"
        )
    except Invalid:
        return
    assert all(1 <= x < 2**63 for x in distribution.sample(seed, "x", 50, least=1))


def test_phases_can_follow_flows() -> None:
    plan = plan_of(
        workload(
            "name: a, kind: bulk, between: pairs, start: {every: 2s}, until: 9s",
            phases="{x: {from: {flow: 'a[1]', plus: 500ms}, to: {flow: 'a[2]'}},"
            " y: {from: {flow: 'a[0]', at: stop, minus: 1s}}}",
        )
    )
    assert plan["phases"] == [
        {"name": "x", "from_ns": 2_500_000_000, "to_ns": 4 * S},
        {"name": "y", "from_ns": 8 * S, "to_ns": 10 * S},
    ]


def test_changes_are_in_the_order_of_time_and_keep_what_they_do_not_name() -> None:
    changes = (
        "[{at: [5s, 2s], link: [bottleneck, bottleneck.reverse], rate: 5Mbps},"
        " {at: 3s, link: bottleneck, jitter: {deviation: 1ms}}, {at: 4s, link: bottleneck, delay: 7ms},"
        " {at: 6s, link: bottleneck, loss: 1%}, {at: 7s, link: bottleneck, loss: none}]"
    )
    plan = plan_of(dumbbell(changes=changes))
    assert [(c["at_ns"] // S, c["link"], c["change"]["kind"]) for c in plan["changes"]] == [
        (2, 0, "rate"),
        (2, 1, "rate"),
        (3, 0, "delay"),
        (4, 0, "delay"),
        (5, 0, "rate"),
        (5, 1, "rate"),
        (6, 0, "loss"),
        (7, 0, "loss"),
    ]
    assert plan["changes"][2]["change"]["delay"]["delay_ns"] == 10_000_000
    assert plan["changes"][3]["change"]["delay"] == {
        "kind": "jitter",
        "delay_ns": 7_000_000,
        "jitter_ns": 1_000_000,
        "normal": True,
        "reorder": False,
    }
    assert plan["changes"][7]["change"]["loss"] is None


def test_a_trace_names_flows() -> None:
    measure = "{trace: {flows: ['a[1]'], from: 1s, to: 2s, max_packets: 10}}"
    plan = plan_of(workload("name: a, kind: bulk, between: pairs, start: [2s, 1s, 0s]", measure=measure))
    assert plan["measure"]["trace"] == {"flows": [1], "from_ns": S, "to_ns": 2 * S, "max_packets": 10}
    assert plan["flows"][1]["name"] == "a[1]"


def test_links_recorded_are_those_between_routers_unless_all_are_asked_for() -> None:
    assert plan_of(dumbbell())["measure"]["links"] == [0, 1]
    assert plan_of(dumbbell(measure="{record: all}"))["measure"]["links"] == []


@pytest.mark.parametrize(
    ("size", "each"),
    [
        ("size: 3TB", [3 * 10**12] * 4),
        ("total: 3TB", [750 * 10**9] * 4),
        ("total: 10B", [3, 3, 2, 2]),
    ],
)
def test_a_size_is_of_each_stream_and_a_total_is_split(size: str, each: list[int]) -> None:
    flows = plan_of(workload(f"name: f, kind: transfer, between: 'pairs[0]', streams: 4, {size}, until: 9s"))["flows"]
    assert [flow["source"]["transfers"][0]["bytes"] for flow in flows] == each


def test_the_streams_of_a_total_share_their_draws() -> None:
    text = "name: f, kind: transfer, between: 'pairs[0]', streams: 3, wait: {exponential: 1s}, until: 9s, total: "
    flows = plan_of(workload(text + "{exponential: 90kB}"))["flows"]
    parts = [[transfer["bytes"] for transfer in flow["source"]["transfers"]] for flow in flows]
    waits = [[transfer["wait_ns"] for transfer in flow["source"]["transfers"]] for flow in flows]
    assert waits[0] == waits[1] == waits[2]
    assert all(max(part) - min(part) <= 1 for part in zip(*parts, strict=True))
    (whole,) = plan_of(workload(text.replace("streams: 3", "streams: 1") + "{exponential: 90kB}"))["flows"]
    sums = [sum(part) for part in zip(*parts, strict=True)]
    drawn = [transfer["bytes"] for transfer in whole["source"]["transfers"]]
    assert sums[: len(drawn)] == drawn[: len(sums)]


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ("total: 3B", "a transfer of 3 bytes in total has no byte for each of 4 streams"),
        ("size: 1B, total: 4B", "`size` and `total` exclude each other; give `size`, of each stream, or `total`"),
        ("count: 1", "the size of a transfer is missing: `size`, of each stream, or `total`, over all streams"),
    ],
)
def test_a_transfer_has_one_size(size: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        plan_of(workload(f"name: f, kind: transfer, between: 'pairs[0]', streams: 4, {size}, until: 9s"))


def test_the_buffers_of_the_stack_can_be_asked_for_and_swept_beside_sizes() -> None:
    cells = parse(
        dumbbell(sweep="{transport.buffers: [default, 1MB, 2bdp], transport.stack: [linux, linux-2.6]}")
    ).cells()
    sizes = [
        (flow["transport"]["send_buffer_bytes"], flow["transport"]["receive_buffer_bytes"])
        for flow in (cell.plan()["flows"][0] for cell in cells)
    ]
    assert sizes == [(4 << 20, 6 << 20), (128 << 10, 174_760), *[(10**6, 10**6)] * 2, *[(5 * 10**6, 5 * 10**6)] * 2]
    entry = "name: f, kind: bulk, between: pairs, transport: {buffers: default}"
    (flow, *_) = plan_of(workload(entry, transport="{cc: reno, buffers: 1MB}"))["flows"]
    assert flow["transport"]["send_buffer_bytes"] == 4 << 20
