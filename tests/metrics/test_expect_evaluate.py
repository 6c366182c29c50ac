"""Judging claims on synthetic sweeps whose answers are known."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from weir.metrics.expect import Verdict, evaluate
from weir.run import Run, RunWarning, open_run

from .synthetic import CellSpec, FlowSpec, write_run

REPEATS = (-1.0, 0.0, 1.0)

# Mean goodput in Mb/s of each variant and RTT; repeats differ by -1, 0 and +1 Mb/s.
GOODPUT = {
    ("reno", "0ms"): 780.0,
    ("reno", "100ms"): 300.0,
    ("reno", "200ms"): 100.0,
    ("htcp", "0ms"): 784.0,
    ("htcp", "100ms"): 700.0,
    ("htcp", "200ms"): 600.0,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return sweep(tmp_path_factory.mktemp("run") / "run", REPEATS)


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The same with one repeat, so that values decide."""
    return sweep(tmp_path_factory.mktemp("single") / "run", (0.0,))


def sweep(folder: Path, offsets: Sequence[float]) -> Run:
    cells = [
        CellSpec(
            [FlowSpec([mbps + off] * 10), FlowSpec([mbps + off] * 10, index=1)],
            factors={"cc": cc, "rtt": rtt, "mtu": "1500"},
            repeat=k,
            phases={"late": (5, 10)},
        )
        for (cc, rtt), mbps in GOODPUT.items()
        for k, off in enumerate(offsets)
    ]
    return open_run(write_run(folder, cells))


def judge(run: Run, check: str, **where: Any) -> Verdict:
    return evaluate(run, [{"claim": "a claim", "check": check, "where": where, "source": "somewhere"}])[0]


@pytest.mark.parametrize(
    ("check", "where", "outcome"),
    [
        ("goodput.mean <= 301Mbps", {"cc": "reno", "rtt": "100ms"}, "holds"),
        ("goodput.mean <= 299Mbps", {"cc": "reno", "rtt": "100ms"}, "fails"),
        ("goodput.mean < 300Mbps", {"cc": "reno", "rtt": "100ms"}, "fails"),
        ("goodput.mean <= 300Mbps", {"cc": "reno", "rtt": "0.1s"}, "holds"),
        ("goodput.mean == 300Mbps", {"cc": "reno", "rtt": "100ms"}, "holds"),
        ("goodput.mean != 300Mbps", {"cc": "reno", "rtt": "100ms"}, "fails"),
        ("goodput.mean within 5% of 290Mbps", {"cc": "reno", "rtt": "100ms"}, "holds"),
        ("goodput.mean within 3% of 290Mbps", {"cc": "reno", "rtt": "100ms"}, "fails"),
        ("goodput.mean within 10Mbps of 290Mbps", {"cc": "reno", "rtt": "100ms"}, "holds"),
        ("goodput.mean between 300Mbps and 400Mbps", {"cc": "reno", "rtt": "100ms"}, "holds"),
        ("goodput.mean between 301Mbps and 400Mbps", {"cc": "reno", "rtt": "100ms"}, "fails"),
        ("goodput.aggregate.mean == 2 * goodput.mean", {}, "holds"),
        ("goodput.mean >= 90Mbps", {}, "holds"),
        ("goodput.mean >= 110Mbps", {}, "fails"),
        ("goodput.mean >= 110Mbps", {"rtt": ["0ms", "100ms"]}, "holds"),
        ("goodput.mean{cc: reno} < 0.5 * goodput.mean{cc: htcp}", {"rtt": ["100ms", "200ms"]}, "holds"),
        ("goodput.mean{cc: reno} < 0.5 * goodput.mean{cc: htcp}", {}, "fails"),
        ("for each rtt in {100ms, 200ms}: goodput.mean{cc: reno} < 0.5 * goodput.mean{cc: htcp}", {}, "holds"),
        ("for some rtt: goodput.mean{cc: reno} > 0.9 * goodput.mean{cc: htcp}", {}, "holds"),
        ("for each rtt: goodput.mean{cc: reno} > 0.9 * goodput.mean{cc: htcp}", {}, "fails"),
        ("argmin(goodput.mean over cc) == 'reno'", {}, "holds"),
        ("argmax(goodput.mean over rtt) == '0ms'", {}, "holds"),
        ("argmax(goodput.mean over rtt) in {100ms, 200ms}", {}, "fails"),
        ("min(goodput.mean over rtt) == 100Mbps", {"cc": "reno"}, "holds"),
        ("max over rtt, cc of goodput.mean == 784Mbps", {}, "holds"),
        ("spread(goodput.mean over rtt) == 680Mbps", {"cc": "reno"}, "holds"),
        ("mean(goodput.mean over cc) == 500Mbps", {"rtt": "100ms"}, "holds"),
        ("slope(goodput.mean over rtt) between -4Gbps/1s and -3Gbps/1s", {"cc": "reno"}, "holds"),
        ("slope(goodput.mean over rtt) == -3.4Gbps/1s", {"cc": "reno"}, "holds"),
        ("r2(goodput.mean over rtt) >= 0.9", {"cc": "htcp"}, "holds"),
        ("spearman(goodput.mean over rtt) == -1", {}, "holds"),
        ("rank(goodput.mean over cc, 'reno') == 1", {}, "holds"),
        ("rank(goodput.mean over cc, 'htcp') == 1", {}, "fails"),
        ("goodput.mean@late == goodput.mean", {}, "holds"),
        ("not goodput.mean > 1Gbps and (jain > 0.99 or jain < 0.1)", {}, "holds"),
        ("min(goodput.mean over flow) == goodput.mean(elephants[0])", {}, "holds"),
        ("sum(goodput.mean over flow) == goodput.aggregate.mean", {}, "holds"),
        ("abs(goodput.mean{cc: reno} - goodput.mean{cc: htcp}) <= 4Mbps", {"rtt": "0ms"}, "holds"),
        ("min(goodput.mean, goodput.mean{cc: reno}) == goodput.mean{cc: reno}", {}, "holds"),
        ("goodput.mean{cc: reno} / goodput.mean{cc: htcp} < 45%", {"rtt": "100ms"}, "holds"),
    ],
)
def test_outcomes_with_one_repeat(single: Run, check: str, where: dict[str, Any], outcome: str) -> None:
    verdict = judge(single, check, **where)
    assert verdict.outcome == outcome, verdict.explanation
    assert not verdict.within_chance


@pytest.mark.parametrize(
    ("check", "outcome", "text", "place"),
    [
        # It fails for Reno at 100 ms and for H-TCP at 200 ms, which misses the second bound by little.
        (
            "goodput.mean <= 200Mbps or goodput.mean@late >= 650Mbps",
            "fails",
            "goodput.mean <= 200Mbps",
            {"cc": "reno", "rtt": "100ms"},
        ),
        (
            "goodput.mean <= 350Mbps or goodput.mean@late >= 590Mbps",
            "holds",
            "goodput.mean@late >= 590Mbps",
            {"cc": "htcp", "rtt": "200ms"},
        ),
        (
            "not (goodput.mean > 350Mbps and goodput.mean@late < 590Mbps)",
            "holds",
            "goodput.mean@late < 590Mbps",
            {"cc": "htcp", "rtt": "200ms"},
        ),
        (
            "for some rtt: goodput.mean{cc: htcp} >= 690Mbps",
            "holds",
            "goodput.mean{cc: htcp} >= 690Mbps",
            {"rtt": "0ms"},
        ),
    ],
)
def test_the_comparison_that_decides_comes_first(
    single: Run, check: str, outcome: str, text: str, place: dict[str, str]
) -> None:
    verdict = judge(single, check)
    assert verdict.outcome == outcome, verdict.explanation
    assert verdict.decisive is not None
    assert (verdict.decisive.text, dict(verdict.decisive.factors)) == (text, place)


@pytest.mark.parametrize(
    ("check", "where", "outcome"),
    [
        # 300 Mb/s with repeats at -1, 0 and +1 Mb/s: the interval is 297.5 to 302.5 Mb/s
        ("goodput.mean <= 301Mbps", {"cc": "reno", "rtt": "100ms"}, "undecided"),
        ("goodput.mean <= 303Mbps", {"cc": "reno", "rtt": "100ms"}, "holds"),
        ("goodput.mean <= 299Mbps", {"cc": "reno", "rtt": "100ms"}, "undecided"),
        ("goodput.mean <= 297Mbps", {"cc": "reno", "rtt": "100ms"}, "fails"),
        ("goodput.mean > 297Mbps", {"cc": "reno", "rtt": "100ms"}, "holds"),
        ("goodput.mean == 300Mbps", {"cc": "reno", "rtt": "100ms"}, "undecided"),
        ("goodput.mean == 303Mbps", {"cc": "reno", "rtt": "100ms"}, "fails"),
        ("goodput.mean != 300Mbps", {"cc": "reno", "rtt": "100ms"}, "undecided"),
        ("goodput.mean != 303Mbps", {"cc": "reno", "rtt": "100ms"}, "holds"),
        ("goodput.mean within 1% of 300Mbps", {"cc": "reno", "rtt": "100ms"}, "holds"),
        ("goodput.mean within 0.5% of 300Mbps", {"cc": "reno", "rtt": "100ms"}, "undecided"),
        ("goodput.mean within 1Mbps of 310Mbps", {"cc": "reno", "rtt": "100ms"}, "fails"),
        ("goodput.mean between 297Mbps and 303Mbps", {"cc": "reno", "rtt": "100ms"}, "holds"),
        ("goodput.mean between 299Mbps and 400Mbps", {"cc": "reno", "rtt": "100ms"}, "undecided"),
        ("goodput.mean between 303Mbps and 400Mbps", {"cc": "reno", "rtt": "100ms"}, "fails"),
        # all cells move together, so their differences do not vary at all
        ("goodput.mean{cc: htcp} > goodput.mean{cc: reno}", {}, "holds"),
        ("goodput.mean{cc: htcp} - goodput.mean{cc: reno} == 400Mbps", {"rtt": "100ms"}, "holds"),
        ("goodput.aggregate.mean == 2 * goodput.mean", {}, "holds"),
        ("argmin(goodput.mean over cc) == 'reno'", {}, "holds"),
        ("argmin(goodput.mean over cc) != 'reno'", {}, "fails"),
        ("argmax(goodput.mean over rtt) in {100ms, 200ms}", {}, "fails"),
        ("rank(goodput.mean over cc, 'reno') == 1", {}, "holds"),
        ("spearman(goodput.mean over rtt) == -1", {}, "holds"),
        ("jain == 1", {}, "holds"),
        ("goodput.mean{cc: reno} < 0.5 * goodput.mean{cc: htcp}", {"rtt": ["100ms", "200ms"]}, "holds"),
        ("goodput.mean >= 98Mbps or jain < 0.5", {}, "undecided"),
        ("goodput.mean >= 98Mbps or jain > 0.5", {}, "holds"),
        ("not goodput.mean >= 301Mbps", {"cc": "reno", "rtt": "100ms"}, "undecided"),
    ],
)
def test_outcomes_with_repeats_are_those_of_intervals(
    run: Run, check: str, where: dict[str, Any], outcome: str
) -> None:
    verdict = judge(run, check, **where)
    assert verdict.outcome == outcome, verdict.explanation
    assert verdict.within_chance == (outcome == "undecided")


@pytest.mark.parametrize(
    ("check", "where", "reason"),
    [
        ("goodput.mean > 1Mbps", {"rtt": "50ms"}, "no cell of this run has rtt = 50ms; it has 0ms, 100ms, 200ms"),
        ("goodput.mean{rtt: 50ms} > 1Mbps", {}, "no cell of this run has cc = reno and rtt = 50ms"),
        ("goodput.mean > 1Mbps", {"rttt": "50ms"}, "no factor 'rttt'.*Did you mean 'rtt'"),
        ("goodput.mean{rttt: 5} > 1Mbps", {}, "no factor 'rttt'"),
        ("goodput.mean@early > 1Mbps", {}, "no phase 'early'"),
        ("goodput.mean(mice) > 1Mbps", {}, "no flow 'mice'"),
        ("cwnd.max > 1", {}, "did not record"),
        ("r2(goodput.mean over cc) > 0.5", {}, "needs numbers, but cc has the value 'reno'|two points"),
        ("goodput.mean / (jain - jain) > 1bps", {}, "division by zero"),
        ("goodput.mean >> 1", {}, "column 15"),
        ("argmin(goodput.mean over mtu) == '1500'", {}, "needs two values of mtu or more"),
        ("rank(goodput.mean over mtu, '1500') == 1", {}, "needs two values of mtu or more"),
    ],
)
def test_what_cannot_be_judged_is_undecided_and_says_why(
    run: Run, check: str, where: dict[str, Any], reason: str
) -> None:
    verdict = judge(run, check, **where)
    assert verdict.outcome == "undecided"
    import re

    assert re.search(reason, verdict.explanation), verdict.explanation


def test_logic_is_three_valued(run: Run) -> None:
    missing = "goodput.mean{rtt: 50ms} > 1Mbps"
    assert judge(run, f"{missing} or jain > 0.5").outcome == "holds"
    assert judge(run, f"{missing} and jain < 0.5").outcome == "fails"
    assert judge(run, f"{missing} and jain > 0.5").outcome == "undecided"
    assert judge(run, f"not ({missing})").outcome == "undecided"


def test_measurement_margin_and_interval(run: Run) -> None:
    verdict = judge(run, "goodput.mean <= 310Mbps", cc="reno", rtt="100ms")
    found = verdict.decisive
    assert found is not None
    assert found.value == pytest.approx(300e6)
    assert found.threshold == pytest.approx(310e6)
    assert found.margin == pytest.approx(10e6)
    # Student: t(2, 0.975) = 4.3027, s = 1 Mb/s, n = 3
    half = 4.302652729911275 * 1e6 / math.sqrt(3)
    assert (found.low, found.high) == pytest.approx((300e6 - half, 300e6 + half))
    assert (found.margin_low, found.margin_high) == pytest.approx((10e6 - half, 10e6 + half))
    assert found.repeats == 3
    assert found.outcome == "holds"
    assert len(verdict.cells) == 3


def test_an_interval_that_holds_zero_is_said(run: Run) -> None:
    verdict = judge(run, "goodput.mean <= 301Mbps", cc="reno", rtt="100ms")
    assert verdict.explanation == (
        "Undecided, because the 95 % interval of the margin includes zero: "
        "cc = reno, rtt = 100ms: 300 Mbps against 301 Mbps; 95 % interval: 297.5 Mbps to 302.5 Mbps, 3 repeats."
    )
    assert not verdict.settled


@pytest.mark.parametrize(
    ("check", "outcome"),
    [
        # The mean is 300 Mb/s, with an interval from 297.5 to 302.5.
        ("min(goodput.mean, 299.4Mbps) >= 299Mbps", "undecided"),
        ("min(goodput.mean, 290Mbps) >= 289Mbps", "holds"),
        ("min(goodput.mean, 299.4Mbps) <= 303Mbps", "holds"),
        ("max(goodput.mean, 300.4Mbps) <= 301Mbps", "undecided"),
        ("max(goodput.mean, 300.4Mbps) <= 303Mbps", "holds"),
        ("max(goodput.mean, 300.4Mbps) <= 300.2Mbps", "fails"),
        ("abs(goodput.mean - 300Mbps) <= 2Mbps", "undecided"),
        ("abs(goodput.mean - 300Mbps) <= 3Mbps", "holds"),
        ("abs(goodput.mean - 310Mbps) >= 7Mbps", "holds"),
        ("abs(300Mbps - goodput.mean) >= 3Mbps", "fails"),
    ],
)
def test_chance_is_not_hidden_by_min_max_and_abs(run: Run, check: str, outcome: str) -> None:
    """They return the same on every subset of the repeats, although the metric in them differs."""
    assert judge(run, check, cc="reno", rtt="100ms").outcome == outcome


def test_members_that_may_be_the_smallest_all_count(run: Run) -> None:
    """Over two metrics that repeats do not tell apart, the interval is that of either."""
    assert judge(run, "min(goodput.mean over cc) >= 297Mbps", rtt="100ms").outcome == "holds"
    assert judge(run, "min(goodput.mean over cc) >= 298Mbps", rtt="100ms").outcome == "undecided"


def test_what_a_value_may_be_off_is_said(run: Run) -> None:
    """An interval that crosses the end of the tolerance: without its width, nobody sees why it is undecided."""
    verdict = judge(run, "goodput.mean within 1% of 297Mbps", cc="reno", rtt="100ms")
    assert verdict.outcome == "undecided"
    assert "300 Mbps against 297 Mbps ± 2.97 Mbps; 95 % interval: 297.5 Mbps to 302.5 Mbps" in verdict.explanation


@pytest.mark.parametrize(("limit", "said"), [("300.01Mbps", "10 kbps apart"), ("300Mbps", "equal")])
def test_numbers_that_look_alike_are_told_apart(single: Run, limit: str, said: str) -> None:
    verdict = judge(single, f"goodput.mean > {limit}", cc="reno", rtt="100ms")
    assert verdict.outcome == "fails"
    assert str(verdict.measured[0]) == f"cc = reno, rtt = 100ms: 300 Mbps against 300 Mbps, {said}"


def test_the_level_widens_the_interval(run: Run) -> None:
    claim = [{"check": "goodput.mean <= 302Mbps", "where": {"cc": "reno", "rtt": "100ms"}}]
    # t(2, 0.95) = 2.92 gives 300 ± 1.69, t(2, 0.975) = 4.30 gives 300 ± 2.48
    assert [evaluate(run, claim, level)[0].outcome for level in (0.9, 0.95)] == ["holds", "undecided"]
    with pytest.raises(ValueError, match="between 0 and 1"):
        evaluate(run, claim, 95)


def test_the_interval_of_a_difference_is_that_of_the_pairs(run: Run) -> None:
    """Margins of 11.3, 10 and 8.7 Mb/s: 10 ± 4.3027 · 1.3 / sqrt(3)."""
    verdict = judge(run, "goodput.mean{cc: htcp} > 2.3 * goodput.mean{cc: reno}", rtt="100ms")
    assert verdict.decisive is not None
    assert "interval of the margin 10 Mbps: 6.771 Mbps to 13.23 Mbps" in str(verdict.decisive)


def test_repeats_are_paired_when_cells_are_compared(run: Run) -> None:
    """Both cells move together from repeat to repeat, so their difference has no spread at all."""
    found = judge(run, "goodput.mean{cc: htcp} - goodput.mean{cc: reno} >= 399Mbps", rtt="100ms").decisive
    assert found is not None
    assert found.margin_low == pytest.approx(1e6)
    assert found.margin_high == pytest.approx(1e6)


def test_the_worst_combination_comes_first(run: Run) -> None:
    verdict = judge(run, "goodput.mean >= 200Mbps")
    assert verdict.outcome == "fails"
    assert verdict.decisive is not None
    assert verdict.decisive.factors == {"cc": "reno", "rtt": "200ms"}
    assert "1 of 6" in verdict.explanation


@pytest.mark.parametrize("repeats", [1, 3])
def test_of_a_tie_each_is_the_least(tmp_path: Path, repeats: int) -> None:
    cells = [
        CellSpec([FlowSpec([mbps] * 10)], factors={"cc": cc}, repeat=k)
        for cc, mbps in (("reno", 5.0), ("bic", 5.0), ("cubic", 6.0))
        for k in range(repeats)
    ]
    run = open_run(write_run(tmp_path / "r", cells))
    for cc, outcome in (("reno", "holds"), ("bic", "holds"), ("cubic", "fails")):
        assert judge(run, f"argmin(goodput.mean over cc) == '{cc}'").outcome == outcome
    assert "a tie" in judge(run, "argmin(goodput.mean over cc) == 'bic'").explanation


def test_one_repeat_has_no_interval_and_says_so(tmp_path: Path) -> None:
    verdict = judge(open_run(write_run(tmp_path / "r", [CellSpec([FlowSpec([5.0] * 10)])])), "goodput.mean > 1Mbps")
    assert verdict.outcome == "holds"
    assert verdict.decisive is not None
    assert math.isnan(verdict.decisive.low)
    assert any("no confidence interval" in text for text in verdict.warnings)


def test_warnings_of_the_cells_used_are_carried_on(tmp_path: Path) -> None:
    cells = [
        CellSpec([FlowSpec([5.0] * 10)], factors={"cc": cc}, warnings=[f"{cc} is late"]) for cc in ("reno", "cubic")
    ]
    verdict = judge(open_run(write_run(tmp_path / "r", cells)), "goodput.mean > 1Mbps", cc="cubic")
    assert any("cubic is late" in text for text in verdict.warnings)
    assert not any("reno is late" in text for text in verdict.warnings)


def zipped(path: Path, complete: bool = True) -> Run:
    cells = [
        CellSpec([FlowSpec([mbps] * 10)], factors={"sources": n, "rate": rate})
        for n, rate, mbps in (("2", "1Gbps", 100.0), ("20", "10Gbps", 200.0))
    ]
    return open_run(write_run(path, cells, complete))


def test_zipped_factors_go_together(tmp_path: Path) -> None:
    run = zipped(tmp_path / "r")
    assert judge(run, "goodput.mean{sources: 2} == 0.5 * goodput.mean{sources: 20}").outcome == "holds"
    assert judge(run, "argmax(goodput.mean over sources) == '20'").outcome == "holds"


def rows(path: Path) -> Run:
    """Three rows of a zip; two of them have the same queue."""
    cells = [
        CellSpec([FlowSpec([mbps] * 10)], factors={"queue": queue, "case": case, "limit": limit})
        for case, queue, limit, mbps in (
            ("xcp", "xcp", "large", 97.0),
            ("red", "red", "large", 80.0),
            ("small", "red", "little", 60.0),
        )
    ]
    return open_run(write_run(path, cells))


def test_the_name_of_a_row_fixes_what_else_the_row_says(tmp_path: Path) -> None:
    run = rows(tmp_path / "r")
    verdict = judge(run, "goodput.mean{case: xcp} > goodput.mean{case: small}")
    assert verdict.outcome == "holds"
    assert [m.value for m in verdict.measured] == [97e6]


def test_a_value_of_several_rows_does_not_choose_one(tmp_path: Path) -> None:
    assert judge(rows(tmp_path / "r"), "goodput.mean{queue: red} >= goodput.mean{case: small}").outcome == "undecided"


def test_braces_do_not_leave_what_where_fixes(tmp_path: Path) -> None:
    assert judge(rows(tmp_path / "r"), "goodput.mean{case: small} > 1Mbps", limit="large").outcome == "undecided"


def test_a_place_is_told_without_what_the_name_of_its_row_implies(tmp_path: Path) -> None:
    verdict = judge(rows(tmp_path / "r"), "goodput.mean > 1Mbps")
    assert [dict(m.factors) for m in verdict.measured] == [{"case": "small"}, {"case": "red"}, {"case": "xcp"}]


def test_an_unfinished_grid_is_not_taken_for_a_zip(tmp_path: Path) -> None:
    with pytest.warns(RunWarning):
        run = zipped(tmp_path / "r", complete=False)
    assert judge(run, "goodput.mean{sources: 2} == 0.5 * goodput.mean{sources: 20}").outcome == "undecided"


def test_a_comparison_is_made_once_whatever_other_factors_the_check_leaves_free(run: Run) -> None:
    """The variant of the first part is fixed, so only the second is about each variant."""
    verdict = judge(run, "goodput.mean{cc: reno} >= 90Mbps and jain >= 0.99")
    assert verdict.outcome == "holds"
    assert [m.text for m in verdict.measured].count("goodput.mean{cc: reno} >= 90Mbps") == 3
    assert [m.text for m in verdict.measured].count("jain >= 0.99") == 6


def test_a_word_that_is_the_one_wanted_is_told_once(run: Run) -> None:
    found = judge(run, "argmin(goodput.mean over cc) == 'reno'", rtt="100ms").decisive
    assert str(found) == "rtt = 100ms: reno; the same in all 3 repeats"
    other = judge(run, "argmin(goodput.mean over cc) == 'htcp'", rtt="100ms").decisive
    assert str(other) == "rtt = 100ms: reno against htcp; the same in all 3 repeats"


TWO_KINDS = [1.0] * 6 + [10.0] * 10 + [100.0] * 4
"""Mean goodputs of twenty repeats in Mb/s, which are of three sizes."""


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A flow with ``TWO_KINDS``, and one with twice as much, with two congestion controls."""
    cells = [
        CellSpec([FlowSpec([mbps] * 10), FlowSpec([2 * mbps] * 10, index=1)], factors={"cc": cc}, repeat=k)
        for cc in ("reno", "bic")
        for k, mbps in enumerate(TWO_KINDS)
    ]
    return open_run(write_run(tmp_path_factory.mktemp("trials") / "run", cells))


@pytest.mark.parametrize(
    ("check", "outcome", "value", "ends"),
    [
        # The 6th and the 15th of twenty values: Le Boudec, table of n = 20.
        ("median(goodput.mean over repeat) < 100Mbps", "holds", 15e6, (1.5e6, 15e6)),
        ("median(goodput.mean over repeat) >= 12Mbps", "undecided", 15e6, (1.5e6, 15e6)),
        ("median(goodput.mean over repeat) > 100Mbps", "fails", 15e6, (1.5e6, 15e6)),
        ("median(max(goodput.mean over flow) over repeat) within 1Mbps of 10Mbps", "undecided", 20e6, (2e6, 20e6)),
        # Clopper and Pearson: 4 of 20 are 5.7 to 43.7 %, 14 of 20 are 45.7 to 88.1 %, 10 of 20 are 27.2 to 72.8 %.
        ("share(goodput.mean > 100Mbps over repeat) < 0.5", "holds", 0.2, (0.0573, 0.4366)),
        ("share(goodput.mean > 10Mbps over repeat) >= 0.5", "undecided", 0.7, (0.4572, 0.8811)),
        ("share(goodput.mean > 10Mbps and goodput.mean < 100Mbps over repeat) within 0.3 of 0.5", "holds", 0.5,
         (0.272, 0.728)),
        ("share(goodput.mean > 10Mbps and not goodput.mean > 100Mbps over repeat) > 80%", "fails", 0.5, (0.272, 0.728)),
        ("share(goodput.mean{cc: bic} > goodput.mean{cc: reno} over repeat) <= 0.1", "undecided", 0.0, (0.0, 0.1684)),
        ("share(goodput.mean < 1Gbps over repeat) between 0.8 and 1", "holds", 1.0, (0.8316, 1.0)),
    ],
)  # fmt: skip
def test_repeats_are_trials_of_a_median_and_a_share(
    trials: Run, check: str, outcome: str, value: float, ends: tuple[float, float]
) -> None:
    found = judge(trials, check)
    assert found.outcome == outcome, found.explanation
    m = found.measured[0]
    assert m.value == pytest.approx(value)
    assert (m.low, m.high) == pytest.approx(ends, rel=1e-2)
    assert m.repeats == 20


def test_the_margin_of_a_share_is_that_of_its_interval(trials: Run) -> None:
    m = judge(trials, "0.5 <= share(goodput.mean > 10Mbps over repeat)").measured[0]
    assert (m.margin, m.margin_low, m.margin_high) == pytest.approx((0.2, -0.0428, 0.3811), abs=1e-3)
    assert "-4.2" in str(m)


def test_few_repeats_have_no_interval_of_the_median(run: Run, single: Run) -> None:
    found = judge(run, "median(goodput.mean over repeat) >= 1Mbps")
    assert found.outcome == "undecided"
    assert "3 repeats do not bound a median at 95 %" in found.explanation
    assert judge(single, "median(goodput.mean over repeat) >= 90Mbps").outcome == "holds"
    assert judge(single, "share(goodput.mean >= 90Mbps over repeat) >= 1").outcome == "holds"
    assert judge(single, "share(goodput.mean >= 110Mbps over repeat) >= 1", cc="reno").outcome == "fails"


def test_equal_repeats_decide_a_median_whatever_their_number(tmp_path: Path) -> None:
    cells = [CellSpec([FlowSpec([5.0] * 10)], repeat=k) for k in range(2)]
    same = open_run(write_run(tmp_path / "r", cells))
    assert judge(same, "median(goodput.mean over repeat) >= 4Mbps").outcome == "holds"
    assert judge(same, "median(goodput.mean over repeat) >= 6Mbps").outcome == "fails"


def test_a_share_of_what_a_repeat_leaves_open_is_open(trials: Run) -> None:
    found = judge(trials, "share(goodput.mean / (jain - jain) > 1bps over repeat) > 0")
    assert found.outcome == "undecided"
    assert "division by zero" in found.explanation


def test_missing_repeats_and_an_unfinished_run_are_said(tmp_path: Path) -> None:
    cells = [
        CellSpec([FlowSpec([mbps] * 10)], factors={"cc": cc}, repeat=k)
        for cc, k, mbps in (("reno", 0, 1.0), ("reno", 1, 1.0), ("bic", 1, 2.0))
    ]
    with pytest.warns(RunWarning):
        unfinished = open_run(write_run(tmp_path / "r", cells, complete=False))
    verdict = judge(unfinished, "goodput.mean{cc: reno} < goodput.mean{cc: bic}")
    assert verdict.outcome == "holds"
    assert "some repeats are missing" in verdict.explanation
    assert any("incomplete" in text for text in verdict.warnings)


def bound(path: Path) -> Run:
    """A flow that reaches 200 Mb/s after 3 s and never 500 Mb/s, in a window of 10 s."""
    return open_run(write_run(path, [CellSpec([FlowSpec([50.0, 100.0, 200.0, *[300.0] * 7])])]))


@pytest.mark.parametrize(
    ("check", "outcome"),
    [
        ("goodput.reach[rate: 200Mbps] == 3s", "holds"),
        ("goodput.reach[rate: 500Mbps] > 5s", "holds"),
        ("goodput.reach[rate: 500Mbps] > 50s", "undecided"),
        ("goodput.reach[rate: 500Mbps] < 5s", "fails"),
        ("goodput.reach[rate: 500Mbps] < 50s", "undecided"),
        ("5s < goodput.reach[rate: 500Mbps]", "holds"),
        ("goodput.reach[rate: 500Mbps] - goodput.reach[rate: 200Mbps] >= 7s", "holds"),
        ("2 * goodput.reach[rate: 500Mbps] > 15s", "holds"),
        ("goodput.reach[rate: 200Mbps] - goodput.reach[rate: 500Mbps] > 0s", "fails"),
        ("1s / goodput.reach[rate: 500Mbps] < 50%", "undecided"),
        ("goodput.reach[rate: 500Mbps] within 5% of 10s", "undecided"),
        ("goodput.reach[rate: 500Mbps] between 1s and 20s", "undecided"),
        ("goodput.reach[rate: 500Mbps] > goodput.reach[rate: 600Mbps]", "undecided"),
    ],
)
def test_a_bound_decides_only_what_it_can(tmp_path: Path, check: str, outcome: str) -> None:
    verdict = judge(bound(tmp_path / "r"), check)
    assert verdict.outcome == outcome, verdict.explanation
    if outcome == "undecided":
        assert "only a bound" in verdict.explanation


def test_a_verdict_is_json(run: Run) -> None:
    verdicts = evaluate(run, [{"check": "goodput.mean > 1Mbps"}, {"check": "argmin(jain over cc) == 'x'"}])
    text = json.dumps([verdict.to_json() for verdict in verdicts], allow_nan=False)
    assert json.loads(text)[0]["outcome"] == "holds"


def test_many_claims_are_judged_in_their_order(run: Run) -> None:
    checks: Sequence[str] = ["goodput.mean > 1Mbps", "what?", "goodput.mean < 1Mbps"]
    assert [v.outcome for v in evaluate(run, [{"check": c} for c in checks])] == ["holds", "undecided", "fails"]
