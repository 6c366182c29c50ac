"""Small files that would cost much, and forbidden characters: each is refused at its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from scenario_support import dumbbell, workload

from shared import called
from weir.cli import _remarks
from weir.scenario import ScenarioError, _claims, _named, _scenario, _sources, parse


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


CROWD = "name: f, kind: transfer, between: pairs, flows: 1000, count: 10, size: {exponential: 1kB}, until: 9s"


def test_flows_links_and_transfers_have_a_limit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse(workload(CROWD)).heaviest > 3_000
    monkeypatch.setattr(_sources, "MAX_WORK", 3_000)
    said = refusal(workload(CROWD))
    assert said.startswith("<text>:")
    assert "together are too many for one cell; expected fewer flows, links or transfers" in said


def test_the_search_for_paths_and_their_links_are_work() -> None:
    lot = (
        "{parking_lot: {bottlenecks: 100, pairs: 100, rtt: 1s, access: {rate: 1Gbps}, "
        "bottleneck: {rate: 1Gbps, queue: 1ms}}}"
    )
    few, many = (
        parse(workload(f"name: f, kind: bulk, between: pairs, flows: {n}, until: 90s", topology=lot)).heaviest
        for n in (100, 1100)
    )
    # A flow, and the 102 links of its path there and back, of which 100 are a unit.
    assert 3_000 <= many - few <= 3_100


def test_the_second_compilation_of_a_cell_is_work_too() -> None:
    """A cell is compiled with another seed where repeats might be equal."""
    fixed = "{cc: reno, processing: 0ms}"
    once, twice = (parse(dumbbell(repeat=str(n), transport=fixed)).heaviest for n in (1, 2))
    assert twice == 2 * once


def test_methods_are_asked_about_few_cells_of_a_large_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = parse(workload(CROWD, sweep="{topology.dumbbell.rtt: [10ms, 20ms, 30ms, 40ms]}"))
    looked = []
    weighed = _scenario.Cell.weighed
    monkeypatch.setattr(_scenario.Cell, "weighed", lambda cell: looked.append(cell.id) or weighed(cell))
    monkeypatch.setattr(_remarks, "_MAX_WORK", scenario.heaviest + 1)
    _remarks.said(scenario.cells())
    assert looked == ["0000-r0", "0001-r0"]


def test_no_method_is_asked_about_a_cell_that_takes_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "crowd.yaml"
    file.write_text(workload(CROWD))
    monkeypatch.setattr("weir.cli.check._MAX_WORK", 1_000)
    monkeypatch.setattr("weir.cli.check.said", lambda _: pytest.fail("asked"))
    ran = called("check", file)
    assert ran.code == 0
    assert "info: the methods' remarks are left out, because a cell is very large" in " ".join(ran.out.split())


def test_equal_parts_of_checks_are_looked_up_once_and_told_at_each_place(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    has = _named._has
    monkeypatch.setattr(_named, "_has", lambda part, view: looked.append(part.text) or has(part, view))
    claims = ", ".join(f"{{claim: c, check: 'goodput.mean(flows[999]) > {i}bps'}}" for i in range(3))
    with pytest.raises(ScenarioError) as caught:
        parse(dumbbell(expect=f"[{claims}]"))
    assert looked == ["flows[999]"]
    assert len([p for p in caught.value.problems if "flows[999]" in p.message]) == 3


def test_names_in_checks_are_looked_up_as_far_as_that_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_named, "_MAX_LOOKS", 50)
    claims = ", ".join(f"{{claim: c, check: 'goodput.mean(flows[{i}]) > 1bps'}}" for i in range(100, 120))
    looked = []
    has = _named._has
    monkeypatch.setattr(_named, "_has", lambda part, view: looked.append(part.text) or has(part, view))
    parse(dumbbell(expect=f"[{claims}]"))
    assert 0 < len(looked) < 5


def test_losses_that_are_listed_are_one_list_for_all_links() -> None:
    topology = (
        "{dumbbell: {pairs: 1, access: {rate: 1Gbps}, rtt: 20ms, "
        "bottleneck: {rate: 1Gbps, queue: 10ms, loss: {list: [3, 5]}}}}"
    )
    changes = "[{link: bottleneck, at: [1s, 2s], loss: {list: [4]}}]"
    plan = parse(dumbbell(topology=topology, changes=changes)).cells()[0].plan()
    first, second = (change["change"]["loss"]["packets"] for change in plan["changes"])
    assert first == [4]
    assert first is second


def test_a_sweep_of_thousands_of_usual_cells_is_checked_without_a_word_of_size() -> None:
    axes = f"topology.dumbbell.rtt: [{', '.join(f'{i}us' for i in range(20_000, 20_070))}], "
    axes += f"duration: [{', '.join(f'{i}s' for i in range(100, 160))}]"
    scenario = parse(dumbbell(sweep=f"{{{axes}}}"))
    assert len(scenario.cells()) == 4200
    assert scenario.problems == ()
