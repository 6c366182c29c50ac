"""Small files that would cost much, and forbidden characters: each is refused at its place."""

from __future__ import annotations

import pytest
from scenario_support import dumbbell, workload

from weir.scenario import ScenarioError, _claims, _scenario, parse


def refusal(text: str) -> str:
    """The first problem of a scenario."""
    with pytest.raises(ScenarioError) as caught:
        parse(text)
    return str(caught.value.problems[0])


@pytest.mark.parametrize(
    ("written", "point"),
    [
        (r"\ud800", "U+D800"),
        (r"\e]0;title\a", "U+001B"),
        (r"\x9b31m", "U+009B"),
        (r"\0", "U+0000"),
        (r"\x7f", "U+007F"),
        (r"\L", "U+2028"),
        (r"\uFEFF", "U+FEFF"),
    ],
)
@pytest.mark.parametrize("place", ["title", "value", "key", "anchor", "override"])
def test_an_escape_makes_no_character_that_is_not_allowed(written: str, point: str, place: str) -> None:
    text = f'"a{written}"'
    scenario = {
        "title": dumbbell(title=text),
        "value": dumbbell(transport=f"{{cc: {text}}}"),
        "key": dumbbell() + f"? {text}\n: 1\n",
        "anchor": dumbbell(rationale=f"&a {text}", source="*a"),
        "override": dumbbell(),
    }[place]
    with pytest.raises(ScenarioError) as caught:
        parse(scenario, overrides={"title": text} if place == "override" else None)
    (problem,) = caught.value.problems
    assert problem.message == f"this text has an escape for a character: {point} is not allowed in a scenario"
    line = scenario.split("\n")[problem.line - 1]
    assert (text if place == "override" else line)[problem.column - 1 :].startswith(
        ("&a " if place == "anchor" else "") + text
    )


@pytest.mark.parametrize("text", ['"a\\tb"', '"a\\nb"', '"\\u00e9\\u05d0"', '"\\U0001F600"'])
def test_other_escapes_are_text(text: str) -> None:
    assert parse(dumbbell(rationale=text)).rationale


@pytest.mark.parametrize(
    "check",
    ["+".join(["1"] * 400) + " > 1", "1" + "*1" * 400 + " > 1", "goodput.mean > 1bps" + " + 1bps" * 101],
)
def test_a_check_has_so_many_operations_and_no_more(check: str) -> None:
    said = refusal(dumbbell(expect=f"[{{claim: c, check: '{check}'}}]"))
    assert "more than 100 operations; expected a simpler check" in said


def test_a_check_of_a_hundred_operations_is_read() -> None:
    check = "goodput.mean > 1bps" + " + 1bps" * 100
    assert parse(dumbbell(expect=f"[{{claim: c, check: '{check}'}}]")).expect[0].check == check


def test_a_check_is_read_once_however_often_aliases_repeat_it() -> None:
    before = _claims.read_check.cache_info().misses
    parse(dumbbell(expect="[&a {claim: c, check: 'goodput.mean > 321bps'}, " + ", ".join(["*a"] * 500) + "]"))
    assert _claims.read_check.cache_info().misses - before <= 3  # with names, without


@pytest.mark.parametrize("values", [2, 8])
def test_a_sweep_of_twenty_axes_is_refused_by_its_size(values: int) -> None:
    axes = ", ".join(f"a{i}: [{', '.join(map(str, range(values)))}]" for i in range(20))
    assert f"a sweep of {values**20} cells is too large; the limit is 100000" in refusal(dumbbell(sweep=f"{{{axes}}}"))


def test_the_cells_of_a_large_body_are_checked_as_far_as_that_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    compile_ = _scenario.Scenario._compile
    monkeypatch.setattr(_scenario.Scenario, "_compile", lambda *arguments: compiled.append(1) or compile_(*arguments))
    lost = ", ".join(map(str, range(1, 30_000)))
    topology = (
        "{dumbbell: {pairs: 1, access: {rate: 1Gbps}, rtt: 20ms, "
        f"bottleneck: {{rate: 1Gbps, queue: 10ms, loss: {{list: [{lost}]}}}}}}}}"
    )
    parse(dumbbell(topology=topology, sweep="{duration: [" + ", ".join(f"{i}s" for i in range(1, 400)) + "]}"))
    assert len(compiled) < 10


def test_an_index_of_many_digits_is_one_that_does_not_exist() -> None:
    said = refusal(dumbbell(phases="{p: {from: {flow: 'flows[99999999]'}}}"))
    assert "no flow 99999999 in `flows`: it has 3, from 0" in said
    said = refusal(workload("name: flows, kind: bulk, between: 'pairs[123456789012]'"))
    assert "no pair 123456789012 in `pairs`: there are 3, from 0" in said


def test_draws_stay_within_what_can_be_written() -> None:
    text = workload(
        "name: flows, kind: transfer, between: 'pairs[0]', count: 50, until: 9s, "
        "size: {pareto: {shape: 0.01, scale: 1PB}, max: 1PB}, wait: {weibull: {shape: 0.01, scale: 100d}}"
    )
    (flow,) = parse(text).cells()[0].plan()["flows"]
    waits = [transfer["wait_ns"] for transfer in flow["source"]["transfers"]]
    assert max(waits) == 100 * 86_400 * 10**9


def test_more_bytes_than_can_be_counted_are_refused() -> None:
    text = workload("name: flows, kind: transfer, between: 'pairs[0]', count: 2, size: 1000PB, until: 9s")
    assert "the transfers of flow `flows[0]` have 2e+18 bytes; the limit is 1.2e+18" in refusal(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (dumbbell(title='"a\\nb"'), "expected text of one line"),
        (dumbbell(sweep='{duration: {"a\\nb": 1s}}'), "`a b` is no name: expected one line of 1 to 200 characters"),
        (dumbbell(sweep='{zip: [{case: "a\\nb", duration: 1s}]}'), "`a b` is no name"),
        (dumbbell(sweep=f"{{duration: {{{'a' * 201}: 1s}}}}"), "is no name"),
        (dumbbell() + '"k\\nweir: all is well": 1\n', "unknown key `k weir: all is well`"),
        (dumbbell(transport='{cc: reno, "k\\nl": 1}'), r"unknown key `k\nl`"),
    ],
)
def test_a_problem_is_one_line_and_so_are_names(text: str, said: str) -> None:
    assert said in refusal(text)
    assert "\n" not in refusal(text)


def test_the_name_of_a_swept_text_is_one_line() -> None:
    text = dumbbell(sweep='{"workload[0].transport.cc": [reno, {name: "a\\nb"}]}')
    with pytest.raises(ScenarioError) as caught:
        parse(text)
    assert all("\n" not in str(problem) for problem in caught.value.problems)


def test_a_crowd_of_random_flows_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    compile_ = _scenario.Scenario._compile
    monkeypatch.setattr(_scenario.Scenario, "_compile", lambda *arguments: compiled.append(1) or compile_(*arguments))
    monkeypatch.setattr(_scenario, "_MAX_WORK", 1_000)
    monkeypatch.setattr(_scenario, "_MAX_WORK_TWICE", 200)
    entry = "name: f, kind: transfer, between: pairs, flows: 1000, size: {exponential: 1kB}, until: 9s"
    parse(workload(entry, sweep="{topology.dumbbell.rtt: [10ms, 20ms]}", repeat="3", quick="{duration: 5s}"))
    assert len(compiled) == 1
