"""Options of methods: in the plan, and so in the hash of results; set in the file, by a sweep, or for one run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scenario_support import ROOT, dumbbell

import shared
from weir import _weir
from weir.cli._remarks import said
from weir.engine._job import Job
from weir.plan import typed
from weir.scenario import load, parse


def option(plan: dict[str, Any], method: str, name: str) -> str:
    """The value of a method's option ``name``."""
    return str(getattr(getattr(typed(plan).methods, method), name))


def test_a_plan_names_every_option() -> None:
    plan = parse(dumbbell()).cells()[0].plan()
    assert plan["methods"] == {"emul": {"links": "emulator"}, "lab": {"links": "auto", "offload": "packets"}}
    _weir.check_plan(json.dumps(plan))


def test_the_defaults_of_a_plan_that_names_none_are_those_of_the_language() -> None:
    plan = parse(dumbbell()).cells()[0].plan()
    named = plan.pop("methods")
    for method, options in named.items():
        assert {name: option(plan, method, name) for name in options} == options


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("methods.emul.links", ["emulator", "netem"]),
        ("methods.lab.links", ["auto", "kernel", "emulator", "netem"]),
        ("methods.lab.offload", ["packets", "trains", "device"]),
        ("methods.sim.offload", ["packets", "device"]),
    ],
)
def test_every_value_can_be_set_and_swept_and_makes_another_cell(path: str, values: list[str]) -> None:
    swept = parse(dumbbell(sweep=f"{{{path}: [{', '.join(values)}]}}")).cells()
    _, method, name = path.split(".")
    keys = set()
    for cell, value in zip(swept, values, strict=True):
        plan = cell.plan()
        assert option(plan, method, name) == value
        assert parse(dumbbell(), overrides={path: value}).cells()[0].plan() == plan
        _weir.check_plan(json.dumps(plan))
        keys.add(Job.of(cell, "lab").key)
    assert len(keys) == len(values)


def test_a_method_remarks_nothing_on_a_plan_that_no_kernel_executes() -> None:
    cells = load(ROOT / "examples" / "xcp.yaml").cells()
    assert {cell.plan()["flows"][0]["transport"]["cc"] for cell in cells} >= {"xcp"}
    told = [cell for cell in cells if cell.plan()["flows"][0]["transport"]["cc"] == "xcp"]
    assert said(told).notes == []


def test_estimates_that_differ_in_numbers_only_are_one_remark() -> None:
    text = """title: t
topology: {star: {hosts: 3, access: {rate: 1Gbps}, switch: fair}}
workload: [{name: a, kind: cbr, between: [h0, h2], wire_rate: 1Gbps, until: 30s}]
sweep: {workload.a.wire_rate: [500Mbps, 1Gbps, 250Mbps]}
"""
    cells = parse(text).cells()
    each = [note for cell in cells for note in said([cell]).notes if note.startswith("method lab: its links are")]
    assert len(set(each)) == 3
    (one,) = [note for note in said(cells).notes if note.startswith("method lab: its links are")]
    assert one == f"{each[1]} (the largest cell; others have other numbers)"


@pytest.mark.parametrize(("queue", "notes"), [("50ms", 1), ("quickstart", 0)])
def test_the_simulator_says_that_no_router_answers_quick_start(queue: str, notes: int) -> None:
    (cell,) = parse(
        shared.dumbbell(bottleneck=f"rate: 5Mbps, queue: {queue}", transport="cc: cubic, quick_start: 2Mbps")
    ).cells()
    start = "method sim: quick_start (flows[0], flows[1]): no router"
    found = [note for note in said([cell]).notes if note.startswith(start)]
    assert len(found) == notes
