"""Expressions in the cells of a run, as ``weir show -m`` and ``Run.evaluate`` print them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from weir.metrics import MetricError
from weir.metrics.expect import Value, frame_of, tabulate
from weir.run import Run, open_run

from .synthetic import CellSpec, FlowSpec, write_run

MBPS = {("reno", "10ms"): 10.0, ("reno", "20ms"): 20.0, ("cubic", "10ms"): 40.0, ("cubic", "20ms"): 50.0}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Goodput as above, in repeats that differ by -1, 0 and +1 Mb/s, twice as much from 5 s on."""
    cells = [
        CellSpec(
            [FlowSpec([mbps + off] * 5 + [2 * (mbps + off)] * 5)],
            factors={"cc": cc, "rtt": rtt},
            repeat=k,
            phases={"late": (5, 10)},
        )
        for (cc, rtt), mbps in MBPS.items()
        for k, off in enumerate((-1.0, 0.0, 1.0))
    ]
    return open_run(write_run(tmp_path_factory.mktemp("run") / "run", cells))


def at(values: list[Value], **factors: str) -> Value:
    (found,) = [value for value in values if dict(value.factors) == factors]
    return found


def test_a_quotient_of_a_size_and_a_rate_is_a_time(run: Run) -> None:
    found = at(tabulate(run, "30MB / goodput.aggregate@late"), cc="reno", rtt="20ms")
    # 240 Mbit at 40 Mb/s
    assert (found.value, found.unit) == (pytest.approx(6.0), "s")
    assert found.show(found.value) == "6 s"
    assert found.low < 6.0 < found.high
    assert found.repeats == 3


@pytest.mark.parametrize(
    ("text", "unit", "shown"),
    [
        ("goodput.mean@late * 10s", "B", "25 MB"),
        ("goodput.mean / 2", "bit/s", "7.5 Mbps"),
        ("1 / (goodput.mean@late / 100MB)", "s", "40 s"),
        ("goodput.mean@late * goodput.mean@late", "(bit/s)²", "4e+14 (bit/s)²"),
        ("goodput.mean@late / 10s", "bit^1 s^-2", "2e+06 bit^1 s^-2"),
        ("jain - 0.25", "1", "0.75"),
    ],
)
def test_results_have_their_unit(run: Run, text: str, unit: str, shown: str) -> None:
    found = at(tabulate(run, text), cc="reno", rtt="10ms")
    assert found.unit == unit
    assert found.show(found.value) == shown


def test_a_size_is_given_in_bytes(run: Run) -> None:
    found = tabulate(run, "goodput.mean@late * 10s", where={"cc": "reno", "rtt": "10ms"})
    row = frame_of(run, "x", found).to_dicts()[0]
    assert (row["value"], row["unit"], row["n"]) == (pytest.approx(25e6), "B", 3)


def test_a_ratio_across_the_sweep_leaves_the_other_factors_free(run: Run) -> None:
    found = tabulate(run, "goodput.mean{cc: reno} / goodput.mean{cc: cubic}")
    assert [dict(value.factors) for value in found] == [{"rtt": "10ms"}, {"rtt": "20ms"}]
    assert [value.value for value in found] == [pytest.approx(0.25), pytest.approx(0.4)]
    row = frame_of(run, "x", found).to_dicts()[0]
    assert (row["cc"], row["rtt"], row["unit"]) == (None, "10ms", "1")


def test_the_interval_is_that_of_the_pairs(run: Run) -> None:
    found = tabulate(run, "goodput.mean@late{cc: cubic} - goodput.mean@late{cc: reno}")[0]
    assert (found.value, found.low, found.high) == (pytest.approx(60e6), found.value, found.value)
    wide, narrow = (tabulate(run, "goodput.mean@late * 2", level=level)[0] for level in (0.99, 0.8))
    assert wide.high - wide.low > 3 * (narrow.high - narrow.low)


def test_the_phase_is_that_of_metrics_that_name_none(run: Run) -> None:
    assert at(tabulate(run, "goodput.mean", phase="late"), cc="reno", rtt="10ms").value == pytest.approx(20e6)
    both = tabulate(run, "goodput.mean@late / goodput.mean", phase="late")
    assert [value.value for value in both] == [1.0] * 4


def test_words_and_comparisons(run: Run) -> None:
    assert [v.word for v in tabulate(run, "argmax(goodput.mean over cc)")] == ["cubic", "cubic"]
    assert [v.word for v in tabulate(run, "goodput.mean@late >= 50Mbps")] == ["fails", "fails", "holds", "holds"]
    assert [v.word for v in tabulate(run, "goodput.mean@late >= 80Mbps")] == ["fails", "fails", "undecided", "holds"]
    (found,) = tabulate(run, "for each cc: goodput.mean@late >= 20Mbps", where={"rtt": "20ms"})
    assert (found.word, found.unit, dict(found.factors)) == ("holds", "", {})


def test_functions_over_factors(run: Run) -> None:
    assert [v.value for v in tabulate(run, "max(goodput.mean@late over rtt)")] == [40e6, 100e6]
    assert [v.value for v in tabulate(run, "rank(goodput.mean over cc, 'reno')")] == [1.0, 1.0]
    (found,) = tabulate(run, "spread(goodput.mean@late over cc, rtt)")
    assert (found.value, found.factors) == (80e6, {})


def test_functions_over_repeats_have_their_own_intervals(run: Run) -> None:
    (found,) = tabulate(run, "share(goodput.mean@late >= 80Mbps over repeat)", where={"cc": "cubic", "rtt": "20ms"})
    assert (found.value, found.unit, found.percent, found.repeats) == (1.0, "1", True, 3)
    assert (found.low, found.high) == pytest.approx((0.2924, 1.0), abs=1e-4)  # 0.025 ** (1 / 3)
    (twice,) = tabulate(run, "2 * share(goodput.mean@late >= 80Mbps over repeat)", where={"cc": "cubic", "rtt": "20ms"})
    assert twice.value == 2.0
    assert math.isnan(twice.low), "no interval of another function of a share is known"


def test_groups_and_flows(run: Run) -> None:
    found = tabulate(run, "goodput.mean@late(elephants[0]) / goodput.aggregate.mean@late(elephants)")
    assert [value.value for value in found] == [1.0] * 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("goodput +", "column 10: found the end"),
        ("goodput + 3s", "'goodput' is in bit/s but '3s' is in seconds"),
        ("goodput.mean@early / 2", "no phase 'early'"),
        ("goodput.mean{rttt: 5} / 2", "no factor 'rttt'.*Did you mean 'rtt'"),
        ("goodput.distribution / 2", "is a distribution"),
        ("jain / (jain - jain)", "division by zero"),
        ("cwnd / 2", "did not record"),
    ],
)
def test_what_has_no_value_is_refused_with_the_reason(run: Run, text: str, said: str) -> None:
    with pytest.raises(MetricError, match=said):
        tabulate(run, text)


def test_what_has_a_value_in_some_cells_says_why_not_in_the_others(run: Run) -> None:
    """8 bit at 30 Mb/s less than the goodput; the division by zero is in one cell."""
    found = tabulate(run, "1bit / (goodput.mean@late - goodput.mean@late{cc: reno})")
    assert math.isnan(at(found, cc="reno", rtt="10ms").value)
    assert "division by zero" in at(found, cc="reno", rtt="10ms").note
    assert at(found, cc="cubic", rtt="10ms").value == pytest.approx(1 / 60e6)


@pytest.mark.parametrize(
    "text",
    [
        "sd(goodput.mean * 1e300 over cc) / 1bps",
        "goodput.mean * 1e307 - goodput.mean * 1e307",
        "goodput.mean / 1e-307",
        "sum(goodput.mean * 1.5e300 over cc, rtt)",
    ],
)
def test_numbers_too_large_are_no_crash(run: Run, text: str, recwarn: pytest.WarningsRecorder) -> None:
    with pytest.raises(MetricError, match="a result too large for a number"):
        tabulate(run, text)
    assert not recwarn.list


def test_a_long_sum_is_evaluated(run: Run) -> None:
    text = " + ".join(["jain"] * 90)
    assert tabulate(run, text)[0].value == pytest.approx(90.0)


def test_a_value_that_is_only_a_bound_says_so(tmp_path: Path) -> None:
    single = open_run(write_run(tmp_path / "r", [CellSpec([FlowSpec([50.0] * 10)])]))
    (found,) = tabulate(single, "2 * goodput.reach[rate: 500Mbps]")
    assert (found.value, found.censored) == (pytest.approx(20.0), True)
    (found,) = tabulate(single, "1s / goodput.reach[rate: 500Mbps]")
    assert "only a bound" in found.note
