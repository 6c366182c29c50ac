"""Any input gives a scenario or a list of problems: no crash, no hang, and the same every time.

`fuzz/fuzz_scenario.py` does the same for longer.
"""

from __future__ import annotations

import importlib.util
import json
import random
import sys
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scenario_support import ROOT, dumbbell, to_data, tree

from weir.scenario import ScenarioError, _scenario, parse, schema


def _load_fuzz_target() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fuzz_scenario", ROOT / "fuzz" / "fuzz_scenario.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


FUZZ = _load_fuzz_target()
CORPUS: list[str] = FUZZ.corpus()
# The test itself limits the time of an input, generously: this is no benchmark.
UNTIMED = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
SECONDS = 60


def survives(data: str | bytes) -> None:
    """Fails unless the parser answers."""
    with FUZZ.at_most(SECONDS):
        FUZZ.run_one(data)


@UNTIMED
@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    survives(data)


@UNTIMED
@given(st.text(max_size=300))
def test_any_text(text: str) -> None:
    survives(text)


WORDS = (
    st.sampled_from([*FUZZ._TOKENS, *FUZZ._KEYS]) | st.text(max_size=8) | st.integers() | st.floats() | st.booleans()
)
STRUCTURES: st.SearchStrategy[Any] = st.recursive(
    WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(FUZZ._KEYS), inner, max_size=5),
    max_leaves=30,
)


@UNTIMED
@given(STRUCTURES)
def test_any_structure(value: Any) -> None:
    survives(json.dumps(value))


@settings(UNTIMED, max_examples=40)
@given(
    st.sampled_from(
        ["topology", "transport", "workload", "measure", "phases", "changes", "sweep", "quick", "expect", "duration"]
    ),
    STRUCTURES,
)
def test_any_structure_in_any_place_of_a_scenario(place: str, value: Any) -> None:
    survives(dumbbell(**{place: json.dumps(value)}))


@settings(UNTIMED, max_examples=150)
@given(st.sampled_from(CORPUS), st.integers(0, 2**32))
def test_mutated_scenarios(text: str, seed: int) -> None:
    survives(FUZZ.mutate(text, random.Random(seed), CORPUS))


@settings(UNTIMED, max_examples=60)
@given(st.sampled_from(CORPUS), st.integers(0, 2**32))
def test_what_the_parser_accepts_the_schema_accepts(text: str, seed: int) -> None:
    from jsonschema import Draft202012Validator

    mutated = FUZZ.mutate(text, random.Random(seed), CORPUS)
    try:
        parse(mutated)
    except ScenarioError:
        return
    errors = [e.message for e in Draft202012Validator(schema()).iter_errors(to_data(tree(mutated)))]
    assert errors == []


def _ns(value: int) -> str:
    return f"{value}ns"


@st.composite
def scenarios(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A dumbbell written out from values, and the values."""
    pairs = draw(st.integers(1, 5))
    values = {
        "pairs": pairs,
        "rtts": [draw(st.integers(1000, 10**9)) for _ in range(pairs)],
        "capacity": draw(st.integers(10**4, 10**12)),
        "access": draw(st.integers(10**4, 10**12)),
        "packets": draw(st.integers(2, 10**6)),
        "starts": [draw(st.integers(0, 10**9)) for _ in range(pairs)],
        "end": draw(st.integers(2 * 10**9, 10**13)),
        "loss": draw(st.floats(0, 0.99)),
        "seed": draw(st.integers(0, 2**53 - 1)),
        "goodput": draw(st.integers(10**6, 10**9)),
    }
    topology = (
        f"{{dumbbell: {{pairs: {pairs}, access: {{rate: {values['access']}bps}}, "
        f"rtt: [{', '.join(map(_ns, values['rtts']))}], bottleneck: {{rate: {values['capacity']}bps, "
        f"queue: {values['packets']}packets, loss: {values['loss']:.9f}}}}}}}"
    )
    starts = ", ".join(map(_ns, values["starts"]))
    text = dumbbell(
        topology=topology,
        workload=f"[{{name: flows, kind: bulk, between: pairs, start: [{starts}]}}]",
        duration=_ns(values["end"]),
        seed=str(values["seed"]),
        measure=f"{{goodput: {_ns(values['goodput'])}, tcp: 0, links: 0}}",
    )
    return text, values


@UNTIMED
@given(scenarios())
def test_every_value_arrives_in_the_plan(case: tuple[str, dict[str, Any]]) -> None:
    text, values = case
    scenario = parse(text)
    plan = scenario.cells()[0].plan()
    assert scenario.seed == values["seed"]
    assert plan["end_ns"] == values["end"]
    assert plan["measure"]["goodput_ns"] == values["goodput"]
    bottleneck = plan["links"][0]
    assert bottleneck["rate_bps"] == values["capacity"]
    assert bottleneck["queue"]["limit"]["packets"] == values["packets"]
    assert bottleneck["loss"]["p"] == float(f"{values['loss']:.9f}")
    by_index = sorted(plan["flows"], key=lambda f: f["index"])
    assert [f["start_ns"] for f in by_index] == values["starts"]
    assert [f["start_ns"] for f in plan["flows"]] == sorted(values["starts"])
    delays = [x["delay"]["delay_ns"] for x in plan["links"]]
    assert [sum(delays[i] for i in [*f["path"], *f["reverse_path"]]) for f in by_index] == values["rtts"]
    assert {plan["links"][f["path"][0]]["rate_bps"] for f in by_index} == {values["access"]}
    assert parse(text).cells()[0].plan() == plan


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("attack", FUZZ._ATTACKS, ids=lambda attack: attack.__name__.strip("_"))
def test_what_an_attacker_would_try(attack: Any, seed: int) -> None:
    random_ = random.Random(f"{attack.__name__}/{seed}")
    with FUZZ.at_most(SECONDS):
        FUZZ.run_one(attack(random_.choice(CORPUS), random_, CORPUS), FUZZ.overrides(random_))


def test_a_version_that_nobody_asked_for_is_not_compiled_when_the_first_cost_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled = []
    compile_ = _scenario.Scenario._compile
    monkeypatch.setattr(_scenario.Scenario, "_compile", lambda *arguments: compiled.append(1) or compile_(*arguments))
    text = dumbbell(quick="{duration: 5s}", realtime="{duration: 4s}")
    parse(text)
    assert len(compiled) == 3
    compiled.clear()
    monkeypatch.setattr(_scenario, "_MAX_WORK", 10)
    parse(text)
    assert len(compiled) == 1
    parse(text, quick=True)
    assert len(compiled) == 2  # only the requested version
