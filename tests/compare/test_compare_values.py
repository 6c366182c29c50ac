"""The frames of a comparison, against values computed by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from compare_support import Cell, write_run

import weir
from weir.compare import Comparison, agreement, parse_limit
from weir.compare.tables import difference_rows


def _pair(tmp_path: Path) -> Comparison:
    a = [Cell(goodput=[[10, 10], [x, x]], cwnd=[[10, 20], [5, 5]], repeat=k, seed=k) for k, x in enumerate((20, 24))]
    b = [Cell(goodput=[[10, 10], [x, x]], cwnd=[[20, 10], [5, 5]], repeat=k, seed=k) for k, x in enumerate((22, 30))]
    return weir.compare([write_run(tmp_path / "a", a), write_run(tmp_path / "b", b)])


def _row(frame: pl.DataFrame, **where: object) -> dict[str, object]:
    found = frame.filter(*(pl.col(k).eq_missing(pl.lit(v)) for k, v in where.items())).to_dicts()
    assert len(found) == 1, found
    return found[0]


def test_values_are_means_over_repeats(tmp_path: Path) -> None:
    found = _row(_pair(tmp_path).values, metric="goodput.aggregate.mean", run="b", flow=None)
    assert found["value"] == pytest.approx(36e6)
    assert found["n"] == 2
    assert found["sd"] == pytest.approx(8e6 / math.sqrt(2))


def test_differences_over_all_flows_and_flow_by_flow(tmp_path: Path) -> None:
    frame = _pair(tmp_path).differences
    whole = _row(frame, metric="goodput.aggregate.mean", flow=None)
    # 30 and 34 against 32 and 40: differences 2 and 6, mean 4, s = sqrt(8), t(1) = 12.7062
    assert whole["difference"] == pytest.approx(4e6)
    assert whole["relative"] == pytest.approx(4 / 32)
    assert whole["interval"] == "paired"
    assert whole["ci_high"] == pytest.approx(4e6 + 12.7062 * 2e6, rel=1e-4)
    second = _row(frame, metric="goodput.mean", flow="flow[1]")
    assert (second["a_value"], second["b_value"]) == (pytest.approx(22e6), pytest.approx(26e6))
    assert _row(frame, metric="goodput.mean", flow="flow[0]")["relative"] == 0


def test_worst_comes_first_and_undefined_last(tmp_path: Path) -> None:
    worst = _pair(tmp_path).worst()
    sizes = [abs(v) if v is not None else -1 for v in worst["relative"]]
    assert sizes == sorted(sizes, reverse=True)


def test_a_small_rate_of_loss_is_measured_against_its_floor(tmp_path: Path) -> None:
    found = _row(_pair(tmp_path).differences, metric="timeouts", flow=None)
    assert (found["relative"], found["ratio"]) == (0, 1)


def test_a_rate_of_nothing_is_measured_against_the_path(tmp_path: Path) -> None:
    """0 against 800 bit/s is no infinite difference: both are less than a thousandth of the link."""
    a, b = (write_run(tmp_path / name, [Cell(goodput=[[x, x]])]) for name, x in (("a", 0.0), ("b", 0.0008)))
    row = weir.compare([a, b], metrics=["goodput.mean"], flows=False).differences.to_dicts()[0]
    rate = weir.open(tmp_path / "a").plan().links[0].rate_bps
    assert row["relative"] == pytest.approx(800 / (rate / 1000))
    assert row["ratio"] is None


@pytest.mark.parametrize(
    ("a", "b", "negligible", "said", "allowed"),
    [
        (0.0, 0.0008, True, "both below 100 kbps", True),
        (0.0008, 0.5, False, "+499 % of 100 kbps", False),
        (0.5, 0.0008, False, "−100 %", False),
        (0.0008, 0.0008, True, "0 %", True),
    ],
)
def test_two_values_below_the_floor_count_as_equal(
    tmp_path: Path, a: float, b: float, negligible: bool, said: str, allowed: bool
) -> None:
    """The floor is a thousandth of 100 Mb/s; values are Mb/s."""
    runs = [write_run(tmp_path / name, [Cell(goodput=[[x, x]])]) for name, x in (("a", a), ("b", b))]
    found = weir.compare(runs, metrics=["goodput.mean"], flows=False)
    (row,) = found.differences.to_dicts()
    (shown,) = difference_rows(found)
    assert (row["floor"], row["negligible"], shown.relative) == (100e3, negligible, said)
    assert shown.size == (0 if negligible else abs(row["relative"]))
    assert (found.beyond([parse_limit("5%")]).height == 0) == allowed
    absolute = found.beyond([parse_limit("goodput.mean=10bps")]).height
    assert absolute == int(a != b), "a limit in the metric's unit has no floor"


def test_a_queue_of_less_than_a_packet_is_compared_with_a_packet() -> None:
    """A mean of 15 bytes against none is 1 % of a packet, not twice the mean."""
    from weir.compare._distance import trace_distance, value_distance

    a, b = np.array([0.0, 30.0]), np.zeros(2)
    assert (trace_distance(a, b), value_distance(a, b)) == (2, 2)
    assert trace_distance(a, b, 1500.0) == value_distance(a, b, 1500.0) == pytest.approx(0.01)
    assert trace_distance(100 * a, b, 1500.0) == 1, "the floor is larger than the mean of 750 bytes"


@pytest.mark.parametrize(
    ("metric", "floor"),
    [("link.loss", 1e-3), ("rtt.p99", 1e-4), ("backoffs", 1.0), ("jain", 1e-3), ("completion", 1e-4)],
)
def test_every_unit_has_a_floor(tmp_path: Path, metric: str, floor: float) -> None:
    from weir.compare._metrics import metric_of

    plan = weir.open(write_run(tmp_path / "a", [Cell()])).plan()
    assert metric_of(metric).floor_in(plan) == floor


def test_differences_within_chance_come_after_those_beyond(tmp_path: Path) -> None:
    """The window differs by more, but by chance; the goodput differs by less, but always."""
    a = [Cell(goodput=[[10, 10]], cwnd=[[x, x]], repeat=k, seed=k) for k, x in enumerate((10, 20, 30))]
    b = [Cell(goodput=[[12, 12]], cwnd=[[x, x]], repeat=k, seed=k) for k, x in enumerate((60, 10, 5))]
    found = weir.compare(
        [write_run(tmp_path / "a", a), write_run(tmp_path / "b", b)], metrics=["cwnd", "goodput.mean"], flows=False
    )
    rows = difference_rows(found)
    assert [(r.metric, r.significant) for r in rows] == [("goodput.mean", True), ("cwnd", False)]
    assert rows[0].interval == "the same in all 3 pairs"
    assert abs(found.worst()["relative"][0]) > 0.2


def test_equal_values_come_last(tmp_path: Path) -> None:
    a = [Cell(goodput=[[10, 10]], cwnd=[[x, x]], repeat=k, seed=k) for k, x in enumerate((10, 20, 30))]
    b = [Cell(goodput=[[10, 10]], cwnd=[[x, x]], repeat=k, seed=k) for k, x in enumerate((60, 10, 5))]
    found = weir.compare(
        [write_run(tmp_path / "a", a), write_run(tmp_path / "b", b)], metrics=["goodput.mean", "cwnd"], flows=False
    )
    assert [row.metric for row in difference_rows(found)] == ["cwnd", "goodput.mean"]


def test_traces_by_hand(tmp_path: Path) -> None:
    frame = _pair(tmp_path).traces
    window = _row(frame, trace="cwnd", member="flow[0]")
    assert window["distance"] == pytest.approx(10 / 15)
    assert window["value_distance"] == 0
    assert window["noise"] == 0
    assert window["n"] == 2
    rate = _row(frame, trace="goodput", member="flow[1]")
    assert rate["distance"] == pytest.approx((2 / 21 + 6 / 27) / 2)
    assert rate["noise"] == pytest.approx((4 / 22 + 8 / 26) / 2)
    assert _row(frame, trace="queue", member="bottleneck")["distance"] == 0


def test_a_flow_that_ends_earlier_gets_nothing_afterwards(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", [Cell(goodput=[[10, 10, 10, 10]])])
    b = write_run(tmp_path / "b", [Cell(goodput=[[10, 10, 0, 0]])])
    rate = _row(weir.compare([a, b]).traces, trace="goodput", member="flow[0]")
    assert rate["distance"] == pytest.approx(5 / 7.5)


def test_a_trace_at_another_interval_is_put_on_the_coarser_grid(tmp_path: Path) -> None:
    measure = {"goodput_ns": 2 * 10**9, "tcp_ns": 10**9, "links_ns": 10**9, "links": [0]}
    a = write_run(tmp_path / "a", [Cell(goodput=[[10, 30, 10, 30]])])
    b = write_run(tmp_path / "b", [Cell(goodput=[[0, 40, 0, 40]], changes={"measure": measure})])
    rate = _row(weir.compare([a, b]).traces, trace="goodput", member="flow[0]")
    assert rate["distance"] == pytest.approx(0)


def test_claims_side_by_side_say_who_agrees(tmp_path: Path) -> None:
    claims = [{"claim": "fast", "check": "goodput.aggregate.mean >= 33Mbps", "source": "me"}]
    runs = [
        write_run(tmp_path / name, [Cell(goodput=[[rate, rate]])], method=name, expect=claims)
        for name, rate in (("sim", 30), ("lab", 40), ("emul", 50))
    ]
    (claim,) = weir.compare(runs).claims
    assert claim.outcomes == {"sim": "fails", "lab": "holds", "emul": "holds"}
    assert claim.agreed is False
    assert agreement(claim.outcomes) == "lab and emul agree; sim differs"


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ({"a": "holds", "b": "holds"}, "all agree"),
        ({"a": "holds", "b": "fails"}, "they disagree"),
        ({"a": "holds", "b": "undecided"}, "not decided by two"),
        ({"a": "holds", "b": "holds", "c": "undecided"}, "a and b agree"),
    ],
)
def test_agreement_in_words(outcomes: dict[str, str], said: str) -> None:
    assert agreement(outcomes) == said


def test_the_package_is_the_function(tmp_path: Path) -> None:
    import importlib

    assert importlib.import_module("weir.compare") is not None
    runs = [write_run(tmp_path / n, [Cell()]) for n in "ab"]
    assert weir.compare(runs).labels == ("a", "b")


def test_a_metric_that_a_run_cannot_give_is_a_note_unless_it_was_asked_for(tmp_path: Path) -> None:
    measure = {"goodput_ns": 10**9, "tcp_ns": 10**9, "links_ns": 0}
    a = write_run(tmp_path / "a", [Cell()])
    b = write_run(tmp_path / "b", [Cell(changes={"measure": measure})])
    found = weir.compare([a, b])
    assert any("link.loss is not compared" in note for note in found.notes)
    assert "link.loss" not in found.differences["metric"].to_list()
    with pytest.raises(weir.metrics.MetricError):
        _ = weir.compare([a, b], metrics=["link.loss"]).differences


def test_delays_are_compared_where_they_were_measured_and_not_missed_elsewhere(tmp_path: Path) -> None:
    without = _pair(tmp_path)
    assert not [name for name in without.values["metric"].unique() if name.startswith("delay")]
    assert not [note for note in without.notes if "delay" in note]
    runs = [write_run(tmp_path / f"delays-{n}", [Cell(delays_ns=[100 * n, 200 * n])]) for n in (1, 2)]
    frame = weir.compare(runs).differences
    for metric, relative in (("delay", 300 / 150 - 1), ("delay.p95", 400 / 200 - 1)):
        found = _row(frame, metric=metric, flow="flow[0]")
        assert found["b_value"] == pytest.approx(found["a_value"] * (1 + relative))  # type: ignore[operator]
