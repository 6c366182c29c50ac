"""Names of factors' values in tables of the terminal."""

from __future__ import annotations

from pathlib import Path

from shared import Weir
from weir.cli._factors import short_names, told_factors


def test_a_queue_is_named_by_the_keys_that_tell_it_from_others_of_its_kind() -> None:
    one = "{red: {size: 500packets, min: 20ms, max: 60ms}}"
    two = "{red: {size: 500packets, min: 20ms, max: 80ms}}"
    other = "{fq_codel: {target: 5ms, quantum: 300B}}"
    assert short_names([one, two, other, one, "1bdp"]) == {
        one: "red max: 60ms",
        two: "red max: 80ms",
        other: "fq_codel",
        "1bdp": "1bdp",
    }


def test_a_kind_with_its_defaults_is_one_of_the_kind() -> None:
    long = "{codel: {target: 5ms, interval: 100ms}}"
    assert short_names([long, "codel"]) == {long: "codel target: 5ms, interval: 100ms", "codel": "codel"}


def test_a_single_key_is_told() -> None:
    marking = "{codel: {ce_threshold: 1000000ns}}"
    assert short_names([marking]) == {marking: "codel ce_threshold: 1000000ns"}


def test_a_name_that_another_value_has_is_not_used() -> None:
    long = "{codel: {target: 5ms, interval: 100ms}}"
    assert short_names([long, "codel target: 5ms"]) == {long: "codel", "codel target: 5ms": "codel target: 5ms"}
    one = "{red: {size: 500packets, max: 60ms}}"
    assert short_names([one, "red max: 60ms", "{red: {size: 500packets, max: 8ms}}"])[one] == one


def test_short_values_lists_and_text_that_is_no_mapping_stay() -> None:
    values = ["{name: cubic, beta: 900}", "{a-text-that-begins-like-a-mapping", "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"]
    assert short_names(values) == {value: value for value in values}


def test_all_mappings_of_a_factor_are_named_alike() -> None:
    """One was `cubic hystart: 2`, and the next to it `{name: reno, hystart: 3}`."""
    short = ["{name: cubic, hystart: 2}", "{name: reno, hystart: 3}", "bbr"]
    assert short_names(short) == {value: value for value in short}
    long = "{name: cubic, hystart: 3, beta: 900}"
    assert short_names([long, *short]) == {
        long: "cubic hystart: 3, beta: 900",
        short[0]: "cubic hystart: 2",
        short[1]: "reno hystart: 3",
        "bbr": "bbr",
    }


def test_a_congestion_control_with_options_is_named_by_it() -> None:
    one, two = "{name: cubic, hystart: 2, beta: 900}", "{name: cubic, hystart: 3, beta: 900}"
    assert short_names([one, two]) == {one: "cubic hystart: 2", two: "cubic hystart: 3"}


def test_a_case_stands_for_the_values_of_its_row() -> None:
    assert told_factors(["case", "queue", "cc"], [("a", "1", "x"), ("a", "1", "y"), ("b", "2", "x")]) == [0, 2]


def test_the_table_of_a_plan_has_the_short_names(weir: Weir, tmp_path: Path) -> None:
    (tmp_path / "zip.yaml").write_text(
        """title: Queues by rows
topology: {dumbbell: {pairs: 2, access: {rate: 100Mbps}, bottleneck: {rate: 10Mbps, queue: 1bdp}, rtt: 20ms}}
transport: {cc: cubic}
workload: [{name: f, kind: bulk, between: pairs, until: 1s}]
sweep:
  zip:
    - {topology.dumbbell.bottleneck.queue: {red: {size: 500packets, min: 20ms, max: 60ms}}, topology.dumbbell.rtt: 20ms}
    - {topology.dumbbell.bottleneck.queue: {red: {size: 500packets, min: 20ms, max: 80ms}}, topology.dumbbell.rtt: 40ms}
"""
    )
    done = weir("plan", str(tmp_path / "zip.yaml"), "--method", "sim")
    assert done.code == 0, done.err
    rows = [line.split() for line in done.out.splitlines() if line.startswith("000")]
    assert [row[1:5] for row in rows] == [["red", "max:", "60ms", "20ms"], ["red", "max:", "80ms", "40ms"]]
