"""Overrides on the command line: one order, none without effect, and paths relative to the working directory."""

from __future__ import annotations

import shutil
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from scenario_support import dumbbell, workload

from shared import ROOT
from weir.language.problem import choose
from weir.scenario import ScenarioError, load, parse

EXAMPLE = ROOT / "examples" / "my_cc" / "my_cc.c"

SMALL = "{pairs: 1, access: {rate: 1Mbps}, capacity: 1Mbps, rtt: 1ms}"
SWEPT = dumbbell(
    sweep="{transport.cc: [reno, cubic]}",
    expect="[{claim: x, where: {cc: reno}, check: goodput.mean > 1bps}]",
)


def ccs(text: str, **overrides: str) -> list[str]:
    """The congestion control of each cell."""
    cells = parse(text, overrides={path.replace("__", "."): value for path, value in overrides.items()}).cells()
    return [cell.plan()["flows"][0]["transport"]["cc"] for cell in cells]


def refusal(text: str, overrides: dict[str, str], **version: bool) -> str:
    with pytest.raises(ScenarioError) as caught:
        parse(text, overrides=overrides, **version)
    return str(next(p for p in caught.value.problems if p.severity == "error"))


@pytest.mark.parametrize(
    "given",
    [
        {"transport.cc": "bic", "sweep": "{}"},
        {"transport.cc": "htcp", "sweep": "{}", "transport": "{cc: reno, buffers: 1MB}"},
        {"sweep.transport.cc": "[reno, bic]", "sweep": "{transport.cc: [htcp]}"},
        {
            "topology.dumbbell.rtt": "40ms",
            "topology.dumbbell": "{pairs: 1, access: {rate: 1Mbps}, capacity: 1Mbps, rtt: 1ms}",
        },
    ],
)
def test_the_order_in_which_they_are_given_changes_nothing(given: dict[str, str]) -> None:
    plans = []
    for order in permutations(given.items()):
        cells = parse(SWEPT, overrides=dict(order)).cells()
        plans.append([cell.plan() for cell in cells])
    assert all(plan == plans[0] for plan in plans)


def test_a_sweep_that_is_emptied_leaves_the_value_that_is_set() -> None:
    assert ccs(SWEPT, transport__cc="bic", sweep="{}") == ["bic"]
    assert ccs(SWEPT, sweep="{}", transport__cc="bic") == ["bic"]
    (unjudged,) = parse(SWEPT, overrides={"sweep": "{}"}).unjudged
    assert unjudged.reason == "it is about cc reno, and cc is not swept in this version"


def test_a_swept_value_that_is_set_stays_a_factor() -> None:
    assert parse(SWEPT, overrides={"transport.cc": "bic"}).factors == {"cc": ("bic",)}


@pytest.mark.parametrize(
    ("text", "given", "said"),
    [
        (
            dumbbell(sweep="{zip: [{transport.cc: reno, duration: 5s}, {transport.cc: bic, duration: 4s}]}"),
            {"transport.cc": "htcp"},
            "this has no effect: the sweep sets `transport.cc` in each cell; change `sweep`, or empty it",
        ),
        (
            dumbbell(sweep="{transport: {a: {cc: reno}, b: {cc: bic}}}"),
            {"transport.buffers": "1MB"},
            "the sweep sets `transport` in each cell",
        ),
        (
            dumbbell(sweep='{"workload[0].until": [3s, 4s]}'),
            {"workload.flows.until": "5s"},
            "the sweep sets `workload[0].until` in each cell",
        ),
        (
            SWEPT,
            {"sweep.transport.cc": "[htcp]", "transport.cc": "bic"},
            "this and `--set sweep.transport.cc` set the same",
        ),
        (
            dumbbell(),
            {"workload[0].until": "3s", "workload.flows.until": "4s"},
            "this and `--set workload[0].until` set",
        ),
        (
            workload("name: f, kind: bulk, between: pairs, transport: {cc: bic}"),
            {"transport.cc": "htcp"},
            "each entry of the workload has its own; set `workload.f.transport.cc`",
        ),
        (
            workload("name: f, kind: bulk, between: pairs, transport: {buffers: 1MB}"),
            {"transport.send_buffer": "2MB"},
            "each entry of the workload has its own",
        ),
        (
            workload("name: f, kind: cbr, rate: 1Mbps, between: pairs"),
            {"transport.cc": "htcp"},
            "no entry of the workload uses TCP",
        ),
    ],
)
def test_a_change_without_effect_is_refused(text: str, given: dict[str, str], said: str) -> None:
    assert said in refusal(text, given)


def test_a_change_needs_an_effect_in_the_version_that_is_asked_for_only() -> None:
    text = dumbbell(quick="{sweep: {zip: [{transport.cc: reno}, {transport.cc: bic}]}}")
    assert parse(text, overrides={"transport.cc": "htcp"}).cells()[0].plan()["flows"][0]["transport"]["cc"] == "htcp"
    assert "the sweep sets `transport.cc`" in refusal(text, {"transport.cc": "htcp"}, quick=True)


def test_paths_of_the_command_line_are_relative_to_where_it_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "scenarios"
    folder.mkdir()
    shutil.copy(EXAMPLE, folder / "own.c")
    shutil.copy(EXAMPLE, tmp_path / "typed.c")
    file = folder / "a.yaml"
    entry = "name: c, kind: command, between: pairs, command: [./run.sh], until: 9s"
    file.write_text(workload("name: f, kind: bulk, between: pairs", entry, transport="{cc: ./own.c}"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def of_plan(path: Path, **overrides: str) -> tuple[str, str]:
        scenario = load(path, overrides={key.replace("__", "."): value for key, value in overrides.items()})
        tcp, program = scenario.cells()[0].plan()["flows"][:4:3]
        return tcp["transport"]["cc"], program["source"]["command"][0]

    for path in (Path("scenarios/a.yaml"), file):
        cc, program = of_plan(path)
        assert (Path(cc).absolute(), Path(program)) == (folder / "own.c", folder / "run.sh")
        cc, program = of_plan(path, transport__cc="./typed.c", workload__c__command="[./other.sh]")
        assert (Path(cc).absolute(), Path(program)) == (tmp_path / "typed.c", tmp_path / "other.sh")
        assert of_plan(path, transport="{cc: {name: ./typed.c}}")[0] == "./typed.c"
        with pytest.raises(ScenarioError, match=r"there is no file `own\.c`"):
            load(path, overrides={"transport.cc": "./own.c"})


def test_overrides_may_be_values_of_python() -> None:
    text = dumbbell(sweep="{transport.cc: [reno]}")
    overrides: dict[str, Any] = {
        "topology.dumbbell.pairs": 4,
        "transport.sack": False,
        "sweep.transport.cc": ["linux:reno", {"name": "cubic", "beta": 700}],
        "topology.dumbbell.bottleneck.loss": 0.01,
    }
    scenario = parse(text, overrides=overrides)
    assert scenario.factors == {"cc": ("linux:reno", "{name: cubic, beta: 700}")}
    plan = scenario.cells()[1].plan()
    assert len(plan["flows"]) == 4
    transport = plan["flows"][0]["transport"]
    assert (transport["sack"], transport["cc_options"]) == (False, {"beta": 700})
    assert [link["loss"] for link in plan["links"] if link["loss"] is not None]
    for wrong in (object(), float("nan"), {1, 2}):
        with pytest.raises(ValueError, match=r"transport\.cc: .* is no value of a scenario; expected a text, a number"):
            parse(text, overrides={"transport.cc": wrong})


def test_a_word_of_the_field_is_translated() -> None:
    assert choose("congestion", ["cc", "moderation"]) == "; did you mean `cc`?"
    assert choose("bandwidth", ["rate", "delay"]) == "; did you mean `rate`?"
    assert choose("bandwidth", ["delay"]) == "; expected `delay`", "only if the language has it there"


def test_an_unknown_path_of_set_lists_what_is_there_too() -> None:
    text = """
title: Two
topology: {dumbbell: {pairs: 1, access: {rate: 10Mbps}, bottleneck: {rate: 1Mbps, queue: 30kB}, rtt: 20ms}}
workload: [{name: bulk, between: pairs, kind: bulk, until: 4s}]
"""
    with pytest.raises(ScenarioError) as caught:
        parse(text, overrides={"foo.bar": 3})
    assert "`topology`" in str(caught.value)
    assert "`workload`" in str(caught.value)
    with pytest.raises(ScenarioError) as caught:
        parse(text + "foo: 3\n")
    assert "`topology`" not in str(caught.value), "a key of the file cannot be there twice"
