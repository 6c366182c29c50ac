"""The nearest validated cell, and the report's text about it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from reading import read_page
from synthetic import Cell, Dumbbell, write_run

from weir.report import build, fidelity
from weir.run import Plan, open_run
from weir.run.plan import read_plan
from weir.scenario import parse

HERE = fidelity.Point("reno", 0.02, 1e9, 1.0, 3, False)


def _result(*points: fidelity.Point) -> dict[str, Any]:
    cells = [
        {"point": p.to_json(), "factors": {"n": str(i)}, "errors": {"goodput_error": 0.012, "jain_error": None}}
        for i, p in enumerate(points)
    ]
    return {"format": 1, "name": "grid", "date": "2026-11-22", "methods": ["sim", "lab"], "cells": cells}


@pytest.mark.parametrize(
    ("change", "distance"),
    [
        ({}, 0.0),
        ({"rtt_s": 0.04}, math.log(2)),
        ({"rate_bps": 1e8}, math.log(10)),
        ({"queue_bdp": 0.1}, math.log(10)),
        ({"flows": 6}, math.log(2)),
        ({"lossy": True}, math.log(10)),
        ({"rtt_s": 0.06, "rate_bps": 3e9}, math.hypot(math.log(3), math.log(3))),
        ({"queue": "codel"}, math.log(10)),
        ({"queue": "codel", "queue_bdp": 0.1}, math.log(10)),
        ({"traffic": "transfers", "others": "reverse"}, math.hypot(math.log(10), math.log(10))),
        ({"spread": 3.0}, math.log(3)),
        ({"lossy": True, "loss": "bernoulli"}, math.log(10)),
        ({"cc": "cubic"}, math.inf),
    ],
)
def test_distances_are_of_logarithms(change: dict[str, Any], distance: float) -> None:
    other = replace(HERE, **change)
    assert HERE.distance(other) == pytest.approx(distance)
    assert other.distance(HERE) == pytest.approx(distance)


def test_the_nearest_of_the_same_variant_and_method_is_found(tmp_path: Path) -> None:
    bell = Dumbbell(flows=3, duration=10, every=1, step=0.5, access=1e10, capacity=1e9)
    plan = open_run(write_run(tmp_path / "run", [Cell({"cc": "reno", "rtt": "20ms"})], bell=bell)).plan()
    here = fidelity.point_of(plan)
    assert here is not None
    assert (here.cc, here.rate_bps, here.flows, here.lossy) == ("reno", 1e9, 3, False)
    assert here.rtt_s == pytest.approx(0.02, rel=0.01)
    near, far, other = replace(here, rtt_s=0.03), replace(here, rtt_s=0.2), replace(here, cc="bic")
    found = fidelity.nearest(plan, "sim", [_result(far, other, near)])
    assert found is not None
    assert found.factors == {"n": "2"}
    assert fidelity.nearest(plan, "emul", [_result(near)]) is None
    warned = _result(near)
    warned["cells"][0]["warnings"] = ["the machine was busy"]
    assert fidelity.nearest(plan, "sim", [warned]) is None
    assert fidelity.nearest(plan, "sim", [_result(other)]) is None


def test_a_report_names_it_with_its_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(
        tmp_path / "run", [Cell({"cc": "reno", "rtt": "20ms"})], bell=Dumbbell(flows=3, duration=10, every=1)
    )
    monkeypatch.setattr(fidelity, "load", lambda: (_result(HERE, replace(HERE, cc="bic")),))
    (said,) = read_page(build(open_run(run))).all("p", "fidelity")
    assert "grid, sim against lab, 2026-11-22): reno, 20.0 ms, 1.00 Gbps" in said.text
    assert "it is not near" in said.text
    assert "Errors there: goodput 1.2 %." in said.text
    assert said.text.endswith("Outside the validated region: queue of 5.0 BDP (validated: 1.0 BDP).")
    monkeypatch.setattr(fidelity, "load", lambda: ())
    assert read_page(build(open_run(run))).all("p", "fidelity") == []


def test_results_that_cannot_be_read_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "weir" / "validation"
    folder.mkdir(parents=True)
    (folder / "a.json").write_text("{")
    (folder / "b.json").write_text('{"format": 2}')
    (folder / "c.json").write_text('{"format": 1, "cells": []}')
    monkeypatch.setattr(fidelity, "__file__", str(tmp_path / "weir" / "report" / "fidelity.py"))
    fidelity.load.cache_clear()
    try:
        assert [result["format"] for result in fidelity.load()] == [1]
    finally:
        fidelity.load.cache_clear()


def test_kinds_of_losses_are_told_apart_where_both_are_known() -> None:
    lossy, bursts = (replace(HERE, lossy=True, loss=kind) for kind in ("bernoulli", "gilbert_elliott"))
    older = replace(HERE, lossy=True)
    assert lossy.distance(bursts) == pytest.approx(math.log(10))
    assert older.distance(bursts) == older.distance(lossy) == 0


GRID = """
title: Beyond the grid
topology:
  dumbbell:
    pairs: 2
    access: {rate: 1Gbps}
    bottleneck: {rate: 20Mbps, queue: QUEUE}
    rtt: 40ms
transport: {cc: reno}
workload:
  - {name: flows, between: "pairs[0]", kind: bulk}
  - {name: back, between: "pairs[1]", kind: bulk, reverse: true, background: true}
duration: 1s
"""


def _plan(tmp_path: Path, queue: str) -> Plan:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(parse(GRID.replace("QUEUE", queue)).cells()[0].plan()))
    return read_plan(path)


def test_where_a_cell_is_follows_from_its_plan(tmp_path: Path) -> None:
    point = fidelity.point_of(_plan(tmp_path, "codel"))
    assert point is not None
    assert (point.queue, point.traffic, point.others, point.flows, point.spread) == ("codel", "bulk", "reverse", 1, 1.0)
    assert not point.lossy
    assert fidelity.Point(**point.to_json()) == point


def test_what_nobody_validated_is_said_to_be_outside(tmp_path: Path) -> None:
    here = fidelity.point_of(_plan(tmp_path, "1bdp"))
    assert here is not None
    inside = [replace(here, rtt_s=0.001), replace(here, rtt_s=0.2)]
    found = fidelity.nearest(_plan(tmp_path, "1bdp"), "sim", [_result(*inside)])
    assert found is not None
    assert found.outside == ()
    far = [replace(here, rtt_s=0.001, others=""), replace(here, rtt_s=0.01, others="")]
    found = fidelity.nearest(_plan(tmp_path, "pie"), "sim", [_result(*far)])
    assert found is not None
    assert found.outside == (
        "queue: pie",
        "other traffic: reverse",
        "round-trip time of 40.7 ms (validated: 1.00 ms to 10.0 ms)",
    )
    assert "Outside the validated region: queue: pie; " in fidelity.describe(found)


def test_of_equally_near_cells_that_of_virtual_time_is_named(tmp_path: Path) -> None:
    plan = _plan(tmp_path, "1bdp")
    here = fidelity.point_of(plan)
    assert here is not None
    real = {**_result(here), "methods": ["sim", "emul"]}
    found = fidelity.nearest(plan, "sim", [real, _result(here)])
    assert found is not None
    assert found.methods == ("sim", "lab")
