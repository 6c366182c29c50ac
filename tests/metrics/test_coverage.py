"""Coverage of intervals and error rates of verdicts, on thousands of cases with known truth and fixed seeds.

If the method is exact, the limits are those of a binomial share of 2000 cases at 95 %, ± 4 standard deviations of 0.5
%. Approximations state their permitted error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from weir.metrics.bounds import SHARE
from weir.metrics.expect.comparison import Comparison
from weir.metrics.expect.parser import parse_check
from weir.metrics.expect.source import Context, Source
from weir.metrics.expect.verdict import Measurement
from weir.metrics.measure import Scalar
from weir.metrics.reference import parse_reference
from weir.metrics.results import Floats
from weir.metrics.statistics import jackknife, proportion_interval, quantile_interval, summarise
from weir.run import Cell, Run

CASES = 2000


def covered(intervals: Iterable[tuple[float, float]], truth: float) -> float:
    return float(np.mean([low <= truth <= high for low, high in intervals]))


@pytest.mark.parametrize("repeats", [2, 3, 5, 10])
def test_the_interval_of_a_mean_covers_it(repeats: int) -> None:
    draws = np.random.default_rng(1).normal(10.0, 3.0, (CASES, repeats))
    found = [summarise(row) for row in draws]
    assert 0.93 <= covered([(s.low, s.high) for s in found], 10.0) <= 0.97


@pytest.mark.parametrize("repeats", [3, 10])
def test_cutting_at_the_bounds_loses_no_coverage(repeats: int) -> None:
    """Shares near their bound, such as Jain's index: the cut interval covers the mean exactly as often as the whole."""
    draws = np.random.default_rng(2).beta(8.0, 1.0, (CASES, repeats))
    whole = [summarise(row) for row in draws]
    cut = [summarise(row, bounds=SHARE) for row in draws]
    assert any(s.high > 1.0 for s in whole)
    assert all(0.0 <= s.low <= s.mean <= s.high <= 1.0 for s in cut)
    truth = 8.0 / 9.0
    assert covered([(s.low, s.high) for s in cut], truth) == covered([(s.low, s.high) for s in whole], truth)
    # a skewed distribution at ten repeats or fewer: Student's interval covers a little less than its level
    assert covered([(s.low, s.high) for s in cut], truth) >= 0.88


def test_the_jackknife_interval_of_a_ratio_covers_it() -> None:
    rng = np.random.default_rng(3)
    found = []
    for _ in range(CASES):
        a, b = rng.normal(10.0, 1.0, 5), rng.normal(20.0, 2.0, 5)
        keep = [np.delete(np.arange(5), k) for k in range(5)]
        found.append(jackknife(b.mean() / a.mean(), np.array([b[k].mean() / a[k].mean() for k in keep])))
    assert 0.92 <= covered(found, 2.0) <= 0.98


@pytest.mark.parametrize(("count", "part"), [(6, 0.5), (12, 0.5), (40, 0.5), (40, 0.9), (144, 0.5), (144, 0.9)])
def test_the_interval_of_a_quantile_covers_it(count: int, part: float) -> None:
    """At least as often as its level, whatever the distribution; a binomial is discrete, so it can be more."""
    draws = np.random.default_rng(4).lognormal(0.0, 1.5, (CASES, count))
    truth = float(stats.lognorm.ppf(part, 1.5))
    assert covered([quantile_interval(row, part) for row in draws], truth) >= 0.935


def test_the_interval_of_a_median_is_that_of_the_tables() -> None:
    """Le Boudec, Performance Evaluation, 2010, appendix A: n = 10 gives 2 and 9, n = 50 gives 18 and 33."""
    assert quantile_interval(np.arange(1.0, 11.0), 0.5) == (2.0, 9.0)
    assert quantile_interval(np.arange(1.0, 51.0), 0.5) == (18.0, 33.0)
    assert quantile_interval(np.arange(1.0, 6.0), 0.5) == (-math.inf, math.inf)
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile_interval(np.arange(5.0), 1.0)


@pytest.mark.parametrize(("of", "part"), [(5, 0.5), (20, 0.25), (20, 0.9)])
def test_the_interval_of_a_share_covers_it(of: int, part: float) -> None:
    counts = np.random.default_rng(7).binomial(of, part, CASES)
    assert covered([proportion_interval(int(count), of) for count in counts], part) >= 0.935


def test_the_interval_of_a_share_is_that_of_the_tables() -> None:
    """Clopper and Pearson's intervals at 95 %: 5 of 20 and 0 of 10."""
    assert proportion_interval(5, 20) == pytest.approx((0.0866, 0.4910), abs=1e-4)
    assert proportion_interval(0, 10) == pytest.approx((0.0, 0.3085), abs=1e-4)
    assert proportion_interval(10, 10) == pytest.approx((0.6915, 1.0), abs=1e-4)
    for count, of in ((3, 2), (-1, 2), (0, 0)):
        with pytest.raises(ValueError, match="expected a part"):
            proportion_interval(count, of)


class Simulated:
    """A sweep over ``cc`` with random metrics instead of computed ones."""

    def __init__(self, check: str, ccs: Sequence[str], repeats: int, metric: str = "goodput.mean") -> None:
        self.comparison = parse_check(check)
        self.key = (*parse_reference(metric).key, "")
        self.cells = [Cell(f"{cc}-{k}", Path(), {"cc": cc}, k, {}) for cc in ccs for k in range(repeats)]
        self.run = Run(Path(), self.cells, {"method": "drawn"}, ())

    def measure(self, values: Floats) -> Measurement:
        """The measurement with ``values``, one per cell, repeat by repeat within each variant."""
        source = Source(self.run)
        for cell, value in zip(self.cells, values.ravel(), strict=True):
            source.known[cell.id, self.key] = Scalar(float(value))
        return Comparison(source, self.comparison).measure(Context({}, {}), {})


def outcomes(
    check: str, means: Sequence[float], repeats: int, shared: float = 0.0, cases: int = CASES
) -> dict[str, float]:
    """Frequency of each outcome; ``shared`` is the deviation that repeat k of all variants has in common."""
    rng = np.random.default_rng(5)
    sweep = Simulated(check, [f"v{k}" for k in range(len(means))], repeats)
    found = []
    for _ in range(cases):
        own = rng.normal(0.0, 1.0, (len(means), repeats)) + shared * rng.normal(0.0, 1.0, repeats)
        found.append(sweep.measure(1e6 * (np.array(means)[:, None] + own)).outcome)
    return {outcome: found.count(outcome) / cases for outcome in ("holds", "fails", "undecided")}


@pytest.mark.parametrize("repeats", [2, 3, 8])
def test_equal_variants_are_undecided(repeats: int) -> None:
    found = outcomes("goodput.mean{cc: v0} > goodput.mean{cc: v1}", [50.0, 50.0], repeats)
    assert found["undecided"] >= 0.93
    assert found["holds"] == pytest.approx(0.025, abs=0.015)
    assert found["fails"] == pytest.approx(0.025, abs=0.015)


def test_a_large_difference_is_decided() -> None:
    assert outcomes("goodput.mean{cc: v0} > goodput.mean{cc: v1}", [60.0, 50.0], 3)["holds"] >= 0.99
    assert outcomes("goodput.mean{cc: v0} > goodput.mean{cc: v1}", [50.0, 60.0], 3)["fails"] >= 0.99


def test_what_seeds_have_in_common_does_not_hide_a_difference() -> None:
    """Repeats vary by ten times the difference, but alike: pairs reveal it, independent means would not."""
    check = "goodput.mean{cc: v0} > goodput.mean{cc: v1}"
    assert outcomes(check, [56.0, 50.0], 5, shared=60.0)["holds"] >= 0.99
    rng = np.random.default_rng(6)
    common = 60.0 * rng.normal(0.0, 1.0, (CASES, 5))
    a, b = (mean + common[::step] + rng.normal(0.0, 1.0, (CASES, 5)) for mean, step in ((56.0, 1), (50.0, -1)))
    assert np.mean(stats.ttest_ind(a, b, axis=1).pvalue < 0.05) < 0.1


@pytest.mark.parametrize("repeats", [3, 8])
def test_the_least_of_equal_variants_is_undecided(repeats: int) -> None:
    found = outcomes("argmin(goodput.mean over cc) == 'v0'", [50.0, 50.0, 50.0, 50.0], repeats, cases=500)
    assert found["undecided"] >= 0.93
    assert found["holds"] <= 0.025
    assert found["fails"] <= 0.05
    found = outcomes("rank(goodput.mean over cc, 'v0') == 1", [50.0, 50.0, 50.0, 50.0], repeats, cases=500)
    assert found["undecided"] >= 0.93


def test_the_least_is_found() -> None:
    assert outcomes("argmin(goodput.mean over cc) == 'v0'", [40.0, 50.0, 60.0], 5, cases=300)["holds"] >= 0.99
    assert outcomes("argmin(goodput.mean over cc) == 'v1'", [40.0, 50.0, 60.0], 5, cases=300)["fails"] >= 0.99
    assert outcomes("rank(goodput.mean over cc, 'v2') == 3", [40.0, 50.0, 60.0], 5, cases=300)["holds"] >= 0.99


def test_equivalence_is_shown_only_within_the_tolerance() -> None:
    """At the edge of the tolerance, a claim of equality holds no more often than a one-sided test errs."""
    edge = outcomes("goodput.mean{cc: v0} within 10Mbps of goodput.mean{cc: v1}", [60.0, 50.0], 5)
    assert edge["holds"] == pytest.approx(0.025, abs=0.015)
    assert outcomes("goodput.mean{cc: v0} within 10Mbps of goodput.mean{cc: v1}", [50.0, 50.0], 5)["holds"] >= 0.99


def test_a_ratio_of_equal_variants_is_undecided() -> None:
    found = outcomes("goodput.mean{cc: v0} / goodput.mean{cc: v1} > 1", [50.0, 50.0], 5)
    assert found["undecided"] >= 0.92


def test_a_true_median_and_a_true_share_are_rarely_refuted() -> None:
    """Discrete intervals: at the edge each side errs in at most 2.5 % of cases."""
    for check in ("median(goodput.mean over repeat) >= 50Mbps", "share(goodput.mean >= 50Mbps over repeat) >= 50%"):
        found = outcomes(check, [50.0], 12, cases=1000)
        assert found["holds"] <= 0.035
        assert found["fails"] <= 0.035
        assert outcomes(check, [53.0], 12, cases=300)["holds"] >= 0.95


def test_one_event_proves_that_there_are_events() -> None:
    sweep = Simulated("timeouts == 0", ["v0"], 3, "timeouts")
    assert sweep.measure(np.array([0.0, 0.0, 0.0])).outcome == "holds"
    assert sweep.measure(np.array([0.0, 0.0, 1.0])).outcome == "fails"


def test_intervals_of_checks_stay_within_bounds() -> None:
    """Three values of Jain's index whose Student interval is 0.27 to 1.53."""
    found = Simulated("jain >= 0.95", ["v0"], 3, "jain").measure(np.array([0.61, 1.0, 1.0]))
    assert found.outcome == "undecided"
    assert summarise(np.array([0.61, 1.0, 1.0])).high > 1.4
    assert (found.low, found.high) == (pytest.approx(0.311, abs=0.001), 1.0)
    assert found.margin_high == pytest.approx(0.05)
    ratio = Simulated("jain{cc: v0} / jain{cc: v1} <= 2", ["v0", "v1"], 2, "jain")
    assert ratio.measure(np.array([[0.1, 0.9], [0.9, 0.2]])).low == 0.0
