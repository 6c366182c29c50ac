"""Sides, samples, draws and errors: what a validation is made of."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from weir.scenario import load
from weir.validate import ERRORS, ValidateError, draws, error_text, independent, parse_sides, sample, summarise

GRID = Path(__file__).parent.parent.parent / "scenarios" / "validation" / "agreement.yaml"
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
    with pytest.raises(ValidateError, match=r"expected"):
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
    scenario = load(GRID, quick=True)
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
    some = summarise(KINDS["goodput_error"], values)
    assert some is not None
    assert (some.cells, some.median, some.p90, some.worst) == (11, pytest.approx(0.05), pytest.approx(0.09), 0.1)
    assert some.within == pytest.approx(4 / 11)
    assert summarise(KINDS["goodput_error"], [math.nan]) is None
    broken = summarise(KINDS["goodput_error"], [0.0, 0.0, 0.0, math.inf])
    assert broken is not None
    assert (broken.median, broken.p90, broken.worst) == (0, math.inf, math.inf)


def test_errors_read_like_what_they_are() -> None:
    assert error_text(KINDS["goodput_error"], 0.031) == "3.1 %"
    assert error_text(KINDS["loss_error"], 0.3) == "× 1.3"
    assert error_text(KINDS["jain_error"], 0.0301) == "0.030"
    assert error_text(KINDS["jain_error"], None) == "–"
    assert error_text(KINDS["goodput_error"], math.inf) == "∞"
