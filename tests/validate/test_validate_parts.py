"""The parts of a validation: sides, samples, draws and errors."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

from weir.scenario import ScenarioError, load
from weir.study import Grid, StudyError, covering, covering_array, draws, parse_sides, sample
from weir.study.validation import ERRORS, Aim, aims, error_text, independent, interval_text, summarise

FOLDER = Path(__file__).parent.parent.parent / "scenarios" / "validation"
GRID = FOLDER / "agreement.yaml"
PUBLISHED = FOLDER / "grid.yaml"
KINDS = {kind.name: kind for kind in ERRORS}


def test_sides_are_a_method_and_what_is_changed_for_it() -> None:
    one, other = parse_sides("sim@seed=2, lab@transport.cc=linux:cubic@transport.ecn=true")
    assert (one.method, dict(one.overrides)) == ("sim", {"seed": "2"})
    assert dict(other.overrides) == {"transport.cc": "linux:cubic", "transport.ecn": "true"}
    assert one.folder != other.folder
    assert "/" not in other.folder
    assert parse_sides("sim,package.module:Class")[1].method == "package.module:Class"


@pytest.mark.parametrize("text", ["sim", "sim,sim", "sim,lab,emul", "sim,@seed=2", "sim,sim@seed"])
def test_anything_else_than_two_sides_is_refused(text: str) -> None:
    with pytest.raises(StudyError, match=r"expected"):
        parse_sides(text)


def test_the_grid_is_that_of_the_document() -> None:
    scenario = load(GRID)
    assert [p for p in scenario.problems if p.severity != "info"] == []
    assert set(scenario.factors["cc"]) == {"reno", "bic", "cubic", "highspeed", "htcp", "scalable"}
    assert scenario.factors["rtt"] == ("10ms", "50ms", "100ms")
    assert scenario.factors["rate"] == ("50Mbps", "100Mbps", "500Mbps")
    assert scenario.factors["queue"] == ("0.2bdp", "1bdp")
    assert len(scenario.cells()) == 6 * 3 * 3 * 2 * 3 * scenario.repeat
    assert scenario.repeat >= 3
    plans = {cell.factors["case"]: cell.plan() for cell in scenario.cells()[: 3 * scenario.repeat]}
    starts = {case: [flow["start_ns"] for flow in plan["flows"]] for case, plan in plans.items()}
    assert starts == {"one": [0], "two": [0, 5 * 10**9], "four lossy": [0] * 4}
    losses = {case: next(k["loss"] for k in plan["links"] if k["name"] == "bottleneck") for case, plan in plans.items()}
    assert losses["one"] is None
    assert losses["four lossy"]["kind"] == "bernoulli"


def test_the_grid_is_no_part_of_the_catalogue() -> None:
    from weir.cli._scenarios import catalogue_files, locate, scenario_files

    assert not any("validation" in name for name in catalogue_files())
    assert scenario_files()["validation/agreement"].samefile(GRID)
    assert locate("validation/agreement").samefile(GRID)


def test_a_sample_takes_each_value_as_often_as_any_other() -> None:
    scenario = load(GRID, quick=True, overrides={"repeat": "1"})
    chosen = sample(scenario, 12, 1).cells()
    assert len(chosen) == 12
    for name in ("cc", "rtt", "rate", "queue", "case"):
        counts = Counter(cell.factors[name] for cell in chosen)
        assert set(counts) == set(scenario.factors[name])
        assert max(counts.values()) - min(counts.values()) <= 2, (name, counts)


def test_the_seed_decides_the_sample_and_repeats_come_with_their_cell() -> None:
    scenario = load(GRID)
    ids = [[cell.id for cell in sample(scenario, 5, seed).cells()] for seed in (1, 1, 2)]
    assert ids[0] == ids[1] != ids[2]
    assert len(ids[0]) == 5 * scenario.repeat
    assert len(sample(scenario, None, 1).cells()) == len(scenario.cells())
    assert len(sample(scenario, 10**6, 1).cells()) == len(scenario.cells())


def test_only_the_runs_of_the_sample_count_against_the_limit() -> None:
    """8640 combinations with 12 seeds each are more than 100 000 runs; those of 24 combinations are 288."""
    with pytest.raises(ScenarioError, match="at most 100000"):
        load(PUBLISHED, overrides={"repeat": "12"})
    (side, _) = parse_sides("sim,lab")
    grid = Grid(PUBLISHED, cells=24)
    chosen, plain = grid.with_repeats(12).of(side).cells(), grid.of(side).cells()
    assert len(chosen) == 24 * 12
    first = [cell for cell in chosen if cell.repeat == 0]
    assert [cell.factors for cell in first] == [cell.factors for cell in plain if cell.repeat == 0]
    assert [cell.id for cell in chosen[:12]] == [first[0].id.replace("-r0", f"-r{r}") for r in range(12)]
    assert len({cell.seed for cell in chosen}) == 12
    with pytest.raises(StudyError, match=r"110000 runs \(11 cells, 10000 repeats\): at most 100000"):
        Grid(PUBLISHED, cells=11).with_repeats(10_000).of(side)


def test_factors_that_another_decides_are_left_out() -> None:
    scenario = load(GRID)
    combinations = [cell.factors for cell in scenario.cells()]
    assert independent(scenario.factors, combinations) == ("cc", "rtt", "rate", "queue", "case")


def test_draws_follow_from_seed_and_number_and_all_compile() -> None:
    few, many = draws(3, 7, {}).cells(), draws(30, 7, {}, most_bps=200e6).cells()
    assert [c.plan() for c in few] == [c.plan() for c in draws(5, 7, {}).cells()[:3]]
    assert draws(1, 8, {}).cells()[0].plan() != few[0].plan()
    for cell in many:
        plan = cell.plan()
        bottleneck = next(link for link in plan["links"] if link["name"] == "bottleneck")
        assert 10e6 <= bottleneck["rate_bps"] <= 200e6
        assert plan["flows"]
    assert len({cell.factors["workload"] for cell in many}) >= 6
    repeated = draws(2, 7, {"repeat": "3"}).cells()
    assert [cell.id for cell in repeated] == [f"{k:04d}-r{r}" for k in range(2) for r in range(3)]
    assert repeated[0].plan()["seed"] != repeated[1].plan()["seed"]
    assert len({cell.factors["aqm"] for cell in many}) == 4


def test_draws_have_the_congestion_controls_that_are_asked_for() -> None:
    others = draws(12, 7, {}, ccs=("vegas", "bbr")).cells()
    assert {cell.factors["cc"] for cell in others} == {"vegas", "bbr"}
    assert {flow["transport"]["cc"] for cell in others for flow in cell.plan()["flows"]} == {"vegas", "bbr"}
    # Nothing else of a scenario depends on them.
    for own, other in zip(draws(12, 7, {}, ccs=("reno", "cubic")).cells(), others, strict=True):
        assert {**own.factors, "cc": ""} == {**other.factors, "cc": ""}


def test_errors_by_hand() -> None:
    row = {"relative": -0.05, "difference": -0.02, "a_value": 0.002, "b_value": 0.001}
    differences = {"goodput.aggregate.mean": row, "jain": row, "link.loss": row}
    assert KINDS["goodput_error"].of(differences, []) == 0.05
    assert KINDS["jain_error"].of(differences, []) == 0.02
    assert KINDS["loss_error"].of(differences, []) == pytest.approx(1.0)
    assert math.isnan(KINDS["completion_error"].of(differences, []))
    tiny = {"link.loss": {"a_value": 0.0, "b_value": 5e-5}}
    assert KINDS["loss_error"].of(tiny, []) == 0
    traces = [{"trace": "cwnd", "distance": 0.2, "value_distance": 0.1}, {"trace": "cwnd", "distance": 0.4,
               "value_distance": None}, {"trace": "goodput", "distance": 1.0, "value_distance": 1.0}]  # fmt: skip
    assert KINDS["cwnd_distance"].of({}, traces) == pytest.approx(0.3)
    assert KINDS["cwnd_value_distance"].of({}, traces) == pytest.approx(0.1)


def test_a_summary_leaves_out_what_is_undefined() -> None:
    values = [*np.linspace(0.0, 0.1, 11), math.nan]
    some = summarise(values, Aim(0.02, 0.03))
    assert some is not None
    assert (some.cells, some.median, some.p90, some.worst) == (11, pytest.approx(0.05), pytest.approx(0.09), 0.1)
    assert some.within == pytest.approx(4 / 11)
    assert some.met is False
    # of 11 values in order, the 2nd and 10th enclose the median at 95 %; the 90th percentile has no upper limit
    assert some.median_interval == (pytest.approx(0.01), pytest.approx(0.09))
    assert some.p90_interval == (pytest.approx(0.07), math.inf)
    assert some.to_json()["p90_interval"] == [pytest.approx(0.07), None]
    assert interval_text(KINDS["goodput_error"], some.median_interval) == "1 % to 9 %"
    assert interval_text(KINDS["goodput_error"], some.p90_interval) == "7 % or more"
    assert summarise([math.nan]) is None
    few = summarise([0.01, 0.02, 0.03])
    assert few is not None
    assert few.median_interval == (0.0, math.inf)
    broken = summarise([0.0, 0.0, 0.0, math.inf])
    assert broken is not None
    assert (broken.median, broken.p90, broken.worst) == (0, math.inf, math.inf)


def test_errors_read_like_what_they_are() -> None:
    assert error_text(KINDS["goodput_error"], 0.031) == "3.1 %"
    assert error_text(KINDS["loss_error"], 0.3) == "× 1.3"
    assert error_text(KINDS["jain_error"], 0.0301) == "0.030"
    assert error_text(KINDS["jain_error"], None) == "–"
    assert error_text(KINDS["goodput_error"], math.inf) == "∞"


def _pairs(rows: list[tuple[str, ...]]) -> Counter[tuple[int, str, int, str]]:
    return Counter((i, row[i], j, row[j]) for row in rows for i, j in combinations(range(len(row)), 2))


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("sizes", [(2, 2), (3, 1, 4), (6, 5, 4, 8, 9), (2, 2, 2, 2, 2, 2, 2)])
def test_every_pair_of_values_is_in_a_covering_array(sizes: tuple[int, ...], times: int) -> None:
    values = [[f"{i}.{k}" for k in range(size)] for i, size in enumerate(sizes)]
    rows = covering_array(values, times, 1)
    assert len(rows) == len(set(rows))
    counts = _pairs(rows)
    most = math.prod(sizes)
    for i, j in combinations(range(len(sizes)), 2):
        there_are = most // (sizes[i] * sizes[j])
        for a in values[i]:
            for b in values[j]:
                assert counts[i, a, j, b] >= min(times, there_are), (a, b)
    least = max((a * b for a, b in combinations(sizes, 2)), default=1)
    assert len(rows) <= min(most, 1.6 * times * least + 6), "it is not much larger than it must be"


def test_a_covering_array_follows_from_its_seed_and_keeps_to_what_is_allowed() -> None:
    values = [["a", "b", "c"], ["x", "y"], ["1", "2", "3"]]
    assert covering_array(values, 1, 1) == covering_array(values, 1, 1)
    assert len({tuple(covering_array(values, 1, seed)) for seed in range(5)}) > 1
    allowed = [row for row in product(*values) if row != ("a", "x", "1")]
    rows = covering_array(values, 2, 1, allowed)
    assert set(rows) <= set(allowed)
    assert (_pairs(rows)[0, "a", 1, "x"], _pairs(rows)[0, "a", 2, "1"]) == (2, 1)


def test_the_published_grid_has_what_it_promises() -> None:
    scenario = load(PUBLISHED)
    assert [p.message for p in scenario.problems if p.severity == "error"] == []
    assert set(scenario.factors["cc"]) == {"reno", "bic", "cubic", "highspeed", "htcp", "scalable"}
    assert (scenario.factors["rtt"][0], scenario.factors["rtt"][-1]) == ("1ms", "200ms")
    assert (scenario.factors["rate"][0], scenario.factors["rate"][-1]) == ("10Mbps", "1Gbps")
    names = ("cc", "rtt", "rate", "queue", "case")
    cells = covering(scenario, 2, 1).cells()
    assert len(cells) <= 150
    counts = _pairs([tuple(cell.factors[name] for name in names) for cell in cells])
    wanted = [len(scenario.factors[a]) * len(scenario.factors[b]) for a, b in combinations(names, 2)]
    assert len(counts) == sum(wanted), "every two values of two factors meet"
    assert min(counts.values()) == 2


def test_the_queues_of_the_published_grid_are_what_a_kernel_has() -> None:
    cells = covering(load(PUBLISHED), 1, 1).cells()
    plans = {cell.factors["queue"]: cell.plan() for cell in cells}
    assert len(plans) == 8
    kinds = set()
    for plan in plans.values():
        queue = next(link["queue"] for link in plan["links"] if link["name"] == "bottleneck")
        kinds.add(queue["kind"])
        assert queue.get("gentle") is not True, "the kernel's RED is not gentle: the emulator would stand in for it"
    assert kinds == {"droptail", "red", "codel", "fq_codel"}


def test_aims_are_those_of_the_reference() -> None:
    assert aims("lab")["goodput_error"] == Aim(0.02, 0.05)
    assert aims("lab")["completion_error"] == Aim(0.03, 0.08)
    assert aims("emul")["goodput_error"] == Aim(None, 0.03)
    assert aims("emul")["jain_error"] == Aim(None, 0.03)


def test_an_aim_is_met_by_median_and_90th_percentile() -> None:
    met = summarise([0.0, 0.01, 0.04], Aim(0.02, 0.05))
    assert met is not None
    assert met.met
    high = summarise([0.03, 0.03, 0.04], Aim(0.02, 0.05))
    assert high is not None
    assert high.met is False
    assert high.within == 1.0
    none = summarise([0.03])
    assert none is not None
    assert none.met is None


def test_errors_beyond_the_aim_that_chance_makes_are_counted() -> None:
    some = summarise([0.01, 0.1, 0.2, 0.3], Aim(None, 0.05), [0.5, 0.05, 0.25, None])
    assert some is not None
    assert some.by_chance == 1
    unknown = summarise([0.01, 0.1], Aim(None, 0.05), [None, None])
    assert unknown is not None
    assert unknown.by_chance is None
