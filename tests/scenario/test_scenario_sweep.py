"""Sweeps, repeats, the quick section and overrides: the resulting cells and their names."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scenario_support import GOOD, dumbbell, workload

from weir import _weir
from weir.scenario import Scenario, ScenarioError, load, parse
from weir.scenario._scenario import derive_seed
from weir.scenario._sweep import Factor, Sweep


def factors(scenario: Scenario) -> list[dict[str, str]]:
    """The factors of all cells."""
    return [c.factors for c in scenario.cells()]


def test_every_combination_is_a_cell_and_the_last_factor_varies_fastest() -> None:
    scenario = parse(dumbbell(sweep="{transport.cc: [reno, cubic], topology.dumbbell.rtt: [0.0ms, 20ms]}", repeat="2"))
    cells = scenario.cells()
    assert [c.id for c in cells] == [f"{n:04d}-r{r}" for n in range(4) for r in range(2)]
    assert [(c.factors["cc"], c.factors["rtt"]) for c in cells[::2]] == [
        ("reno", "0.0ms"),
        ("reno", "20ms"),
        ("cubic", "0.0ms"),
        ("cubic", "20ms"),
    ]
    plan = cells[6].plan()
    assert plan["flows"][0]["transport"]["cc"] == "cubic"
    assert sum(plan["links"][i]["delay"]["delay_ns"] for i in plan["flows"][0]["path"]) == 10_000_000
    assert scenario.factors == {"cc": ("reno", "cubic"), "rtt": ("0.0ms", "20ms")}


def test_a_scenario_without_sweep_is_one_cell() -> None:
    (cell,) = parse(dumbbell()).cells()
    assert (cell.id, cell.factors, cell.repeat) == ("0000-r0", {}, 0)


def test_rows_of_a_zip_are_taken_together_and_multiply_with_the_rest() -> None:
    few = "{case: few, topology.dumbbell.pairs: 2, transport.sack: true}"
    many = "{case: many, topology.dumbbell.pairs: 5, transport.sack: false}"
    scenario = parse(dumbbell(sweep=f"{{transport.cc: [reno, cubic], zip: [{few}, {many}]}}"))
    assert factors(scenario)[1] == {"cc": "reno", "case": "many", "pairs": "5", "sack": "false"}
    assert len(scenario.cells()) == 4
    assert len(scenario.cells()[1].plan()["flows"]) == 5


@pytest.mark.parametrize(
    "sweep",
    [
        "{zip: [{topology.dumbbell.pairs: 1, transport.cc: reno}, {topology.dumbbell.pairs: 2, transport.cc: cubic}]}",
        "[{topology.dumbbell.pairs: 1, transport.cc: reno}, {topology.dumbbell.pairs: 2, transport.cc: cubic}]",
        "{zip: {topology.dumbbell.pairs: [1, 2], transport.cc: [reno, cubic]}}",
    ],
)
def test_three_ways_to_write_a_zip(sweep: str) -> None:
    assert factors(parse(dumbbell(sweep=sweep))) == [{"pairs": "1", "cc": "reno"}, {"pairs": "2", "cc": "cubic"}]


def test_a_row_without_changes_stands_beside_rows_with_some() -> None:
    rows = "{zip: [{case: steady, changes: []}, {case: outage, changes: [{at: 1s, link: bottleneck, rate: 0}]}]}"
    assert [len(cell.plan()["changes"]) for cell in parse(dumbbell(sweep=rows)).cells()] == [0, 1]


def test_values_may_have_names() -> None:
    queues = "{short: {droptail: {size: 1ms}}, fair: fq_codel}"
    scenario = parse(dumbbell(sweep=f"{{topology.dumbbell.bottleneck.queue: {queues}}}"))
    assert factors(scenario) == [{"queue": "short"}, {"queue": "fair"}]
    assert [c.plan()["links"][0]["queue"]["kind"] for c in scenario.cells()] == ["droptail", "fq_codel"]


def test_values_without_names_are_called_by_their_text() -> None:
    scenario = parse(dumbbell(sweep="{topology.dumbbell.bottleneck.queue: [1ms, {codel: {ecn: true}}]}"))
    assert factors(scenario) == [{"queue": "1ms"}, {"queue": "{codel: {ecn: true}}"}]


@pytest.mark.parametrize(
    ("sweep", "names"),
    [
        (
            "{topology.dumbbell.access.rate: [1Gbps], topology.dumbbell.bottleneck.rate: [1Gbps]}",
            ["access_rate", "bottleneck_rate"],
        ),
        ("{workload.a.streams: [1], workload.b.streams: [1], transport.cc: [reno]}", ["a_streams", "b_streams", "cc"]),
        ("{'workload[0].streams': [1], 'workload[1].streams': [1]}", ["workload_0_streams", "workload_1_streams"]),
        ("{'workload[0].streams': [1]}", ["streams"]),
        ("{duration: [10s], workload.a.duration: [1s]}", ["duration", "a_duration"]),
    ],
)
def test_short_names_tell_paths_apart(sweep: str, names: list[str]) -> None:
    text = workload("name: a, kind: bulk, between: pairs", "name: b, kind: bulk, between: pairs", sweep=sweep)
    assert list(parse(text).factors) == names


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("workload.flows.streams", "3", lambda p: len(p["flows"]) == 9),
        ("workload[0].streams", "2", lambda p: len(p["flows"]) == 6),
        ("transport.cc.hystart", "0", lambda p: p["flows"][0]["transport"]["cc_options"] == {"hystart": 0}),
        ("measure.tcp", "7ms", lambda p: p["measure"]["tcp_ns"] == 7_000_000),
        ("topology.dumbbell.bottleneck.loss", "1%", lambda p: p["links"][0]["loss"]["p"] == 0.01),
    ],
)
def test_paths_lead_to_what_is_there_and_to_what_is_not_there_yet(path: str, value: str, found: Any) -> None:
    swept = parse(dumbbell(sweep=f"{{'{path}': [{value}]}}")).cells()[0].plan()
    assert found(swept)
    assert parse(dumbbell(), overrides={path: value}).cells()[0].plan() == swept


def test_a_word_that_stands_for_a_mapping_can_be_swept_below() -> None:
    topology = "{dumbbell: {pairs: 1, access: {rate: 1Gbps}, bottleneck: {rate: 1Gbps, queue: codel}, rtt: 20ms}}"
    text = dumbbell(topology=topology, sweep="{topology.dumbbell.bottleneck.queue.codel.target: [1ms, 2ms]}")
    targets = [c.plan()["links"][0]["queue"]["codel"]["target_ns"] for c in parse(text).cells()]
    assert targets == [1_000_000, 2_000_000]


def test_repeats_have_seeds_of_their_own_and_cells_share_them() -> None:
    scenario = parse(dumbbell(sweep="{transport.cc: [reno, cubic]}", repeat="3"))
    cells = scenario.cells()
    assert len({c.seed for c in cells}) == 3
    assert [c.seed for c in cells[:3]] == [c.seed for c in cells[3:]]
    assert cells[1].plan()["seed"] == cells[1].seed < 2**53
    assert derive_seed(1, 0) != derive_seed(2, 0)


@pytest.mark.parametrize(
    ("change", "warned"),
    [
        (("rtt: 20ms", "rtt: 20ms"), True),
        (("processing: 0s", "processing: 1us"), False),
        ((", processing: 0s", ""), False),
        (("access: {rate: 1Gbps}", "access: {rate: 1Gbps, clocks: 0.01%}"), False),
        (("queue: 10ms", "queue: 10ms, loss: 1%"), False),
        (("queue: 10ms", "queue: {codel: {}}"), True),
        (("queue: 10ms", "queue: {pie: {}}"), False),
        (("duration: 10s", "duration: 10s\nchanges: [{at: 1s, link: bottleneck, loss: 1%}]"), False),
        (("duration: 10s", "duration: 10s\nchanges: [{at: 1s, link: bottleneck, delay: 1ms}]"), True),
        (("repeat: 3", "repeat: 1"), False),
        (("pairs}\n", "pairs, start: {uniform: [0s, 1s]}}\n"), False),
    ],
)
def test_repeats_without_chance_are_worth_a_warning(change: tuple[str, str], warned: bool) -> None:
    text = dumbbell(repeat="3", transport="{cc: reno, processing: 0s}")
    assert change[0] in text
    text = text.replace(*change)
    messages = [p.message for p in parse(text).problems if p.severity == "warning"]
    assert any(m.startswith("nothing is random here") for m in messages) == warned


def test_seeds_do_not_change_between_versions() -> None:
    # A seed is part of a result: a change here makes old results irreproducible.
    assert [derive_seed(1, r) for r in range(3)] == [338047128587142, 3402789419765759, 8501482572801426]


QUICK = dumbbell(
    sweep="{transport.cc: [reno, cubic], topology.dumbbell.rtt: [10ms, 20ms]}",
    repeat="3",
    quick="{repeat: 1, sweep.transport.cc: [cubic], topology.dumbbell.rtt: 20ms, duration: 2s}",
)


def test_the_quick_section_changes_values_and_sweeps() -> None:
    scenario = parse(QUICK)
    (cell,) = scenario.cells(quick=True)
    assert cell.factors == {"cc": "cubic", "rtt": "20ms"}
    assert cell.plan()["end_ns"] == 2 * 10**9
    assert len(scenario.cells()) == 12
    assert parse(QUICK, quick=True).cells() == [cell]
    assert scenario.quick().text == scenario.text


def test_without_a_quick_section_the_quick_version_is_the_scenario() -> None:
    scenario = parse(dumbbell())
    assert scenario.quick() is scenario


def test_claims_of_the_quick_version_may_differ() -> None:
    text = dumbbell(expect="[{claim: a, check: jain >= 0.9}]", quick="{expect: []}")
    assert [e.claim for e in parse(text).expect] == ["a"]
    assert parse(text, quick=True).expect == ()


def test_the_quick_version_leaves_out_claims_that_it_cannot_decide() -> None:
    claims = (
        "[{claim: reno, where: {cc: reno}, check: jain >= 0.9}, {claim: cubic, where: {cc: cubic}, check: jain >= 0.9},"
        " {claim: long, check: jain >= 0.9, full_only: true}]"
    )
    text = dumbbell(sweep="{transport.cc: [reno, cubic]}", quick="{transport.cc: cubic}", expect=claims)
    assert [e.claim for e in parse(text).expect] == ["reno", "cubic", "long"]
    assert [e.claim for e in parse(text, quick=True).expect] == ["cubic"]


def test_a_claim_that_is_known_to_fail_says_why() -> None:
    claim = "claim: c, check: jain >= 0.9, expected: fails"
    (found,) = parse(dumbbell(expect=f"[{{{claim}, note: because}}]")).expect
    assert (found.expected, found.note) == ("fails", "because")
    with pytest.raises(ScenarioError, match="needs a `note`"):
        parse(dumbbell(expect=f"[{{{claim}}}]"))


def test_overrides_come_last_and_fix_swept_values() -> None:
    scenario = parse(QUICK, quick=True, overrides={"transport.cc": "htcp", "duration": "3s"})
    assert factors(scenario) == [{"cc": "htcp", "rtt": "20ms"}]
    assert scenario.cells()[0].plan()["end_ns"] == 3 * 10**9


@pytest.mark.parametrize(
    "overrides", [{"sweep.nothing": "[1]"}, {"": "1"}, {"a..b": "1"}, {"transport.cc": "[1"}, {"quick.repeat": "1"}]
)
def test_bad_overrides_are_problems(overrides: dict[str, str]) -> None:
    with pytest.raises(ScenarioError):
        parse(QUICK, overrides=overrides)


def test_claims_know_their_cells_and_their_line() -> None:
    text = dumbbell(sweep="{transport.cc: [reno, cubic]}") + (
        "expect:\n  - {claim: c, where: {cc: reno}, check: jain >= 0.9, source: s, note: n}\n"
    )
    (claim,) = parse(text).expect
    assert (claim.claim, claim.where, claim.check, claim.source, claim.note) == (
        "c",
        {"cc": "reno"},
        "jain >= 0.9",
        "s",
        "n",
    )
    assert text.split("\n")[claim.line - 1].strip().startswith("- {claim: c")


@pytest.mark.parametrize("path", GOOD, ids=lambda p: p.stem)
def test_plans_of_examples_and_the_catalogue_are_valid_and_reproducible(path: Any) -> None:
    scenario, again = load(path), load(path)
    for quick in (False, True):
        cells = scenario.cells(quick)
        for cell, other in list(zip(cells, again.cells(quick), strict=True))[:: max(1, len(cells) // 3)]:
            text = json.dumps(cell.plan())
            assert json.dumps(other.plan()) == text
            _weir.check_plan(text)


def test_a_large_sweep_is_checked_in_every_value() -> None:
    axes = ", ".join(
        f"topology.dumbbell.{name}: [{values}]"
        for name, values in {
            "rtt": ", ".join(f"{i}ms" for i in range(1, 41)),
            "pairs": ", ".join(str(i) for i in range(1, 31)),
            "access.rate": ", ".join(f"{i}Mbps" for i in range(1, 40)) + ", 7Mbs",
        }.items()
    )
    with pytest.raises(ScenarioError) as caught:
        parse(dumbbell(sweep=f"{{{axes}}}"))
    messages = [p.message for p in caught.value.problems]
    assert any("`Mbs` is not a unit of a rate" in m for m in messages)
    assert any("48000 runs" in m for m in messages)


def test_quotes_are_no_part_of_a_value() -> None:
    """They belong to YAML: a claim names the value, however it is written."""
    claims = """
  - {claim: in braces, check: "goodput.mean{cc: linux:reno} > 1bps"}
  - {claim: in where, where: {cc: "linux:reno"}, check: goodput.mean > 1bps}"""
    scenario = parse(dumbbell(sweep='{transport.cc: ["linux:reno", linux:westwood]}', expect=claims))
    assert scenario.factors == {"cc": ("linux:reno", "linux:westwood")}
    assert len(scenario.expect) == 2
    quoted, bare = (
        parse(dumbbell(sweep=f"{{topology.dumbbell.rtt: [{text}]}}")).factors
        for text in ("\"10ms\", '20ms'", "10ms, 20ms")
    )
    assert quoted == bare


_CLAIM = '[{{claim: x, check: "{check}"{where}}}]'
_ROWS = """{zip: [{case: slow, transport.cc: reno, topology.dumbbell.rtt: 10ms},
  {case: fast, transport.cc: cubic, topology.dumbbell.rtt: 10ms},
  {case: far, transport.cc: cubic, topology.dumbbell.rtt: 80ms}]}"""


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ("goodput.mean{cc: nonsense} > 1Mbps", "`nonsense` is not a value of `cc` in the sweep; expected `reno` or"),
        ("goodput.mean{cc: cubc} > 1Mbps", "`cubc` is not a value of `cc` in the sweep; did you mean `cubic`?"),
        ("ks(flows)[baseline: {cc: cubc}] < 1", "did you mean `cubic`?"),
        ("argmin(goodput.mean over cc) == 'cubc'", "did you mean `cubic`?"),
        ("argmax(goodput.mean over cc) in {reno, cubc}", "did you mean `cubic`?"),
        ("for each rtt in {10ms, 21ms}: goodput.mean > 1Mbps", "`21ms` is not a value of `rtt`"),
        ("rank(goodput.mean over cc, 'cubc') == 1", "did you mean `cubic`?"),
        (
            "goodput.mean{cc: reno, rtt: 80ms, case: slow} > 1Mbps",
            "no cell has cc reno and rtt 80ms and case slow",
        ),
        (
            "for each case in {slow}, rtt in {80ms}: goodput.mean > 1Mbps",
            "no cell has case slow and rtt 80ms; with",
        ),
        ("goodput.mean{cc: cubic} > 1bps", "The check leaves case and rtt free, so it is made at each value"),
    ],
)
def test_a_value_in_a_check_is_one_of_the_sweep(check: str, said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(dumbbell(sweep=_ROWS, expect=_CLAIM.format(check=check, where="")))
    assert said in str(caught.value)


def test_a_claim_about_no_cell_is_an_error() -> None:
    where = ", where: {cc: reno, rtt: 80ms}"
    with pytest.raises(ScenarioError, match="no cell has cc reno and rtt 80ms"):
        parse(dumbbell(sweep=_ROWS, expect=_CLAIM.format(check="goodput.mean > 1Mbps", where=where)))


@pytest.mark.parametrize(
    "check",
    [
        "goodput.mean{case: far, cc: cubic, rtt: 0.08s} > 1bps",
        "goodput.mean{case: far, cc: cubic, rtt: 80ms} > goodput.mean{case: slow, cc: reno, rtt: 0.01s}",
        "for some rtt in {10ms, 0.08s}: goodput.mean > 1bps",
        "argmin(goodput.mean over case) == 'far'",
        "goodput.mean{case: far} > goodput.mean{case: slow}",
    ],
)
def test_values_may_be_written_differently(check: str) -> None:
    assert len(parse(dumbbell(sweep=_ROWS, expect=_CLAIM.format(check=check, where=""))).expect) == 1


def test_a_value_in_a_check_that_a_version_leaves_out_is_not_judged_there() -> None:
    claim = _CLAIM.format(check="goodput.mean{cc: cubic} > 1bps", where="")
    text = dumbbell(sweep="{transport.cc: [reno, cubic]}", expect=claim, quick="{transport.cc: reno}")
    assert len(parse(text).expect) == 1
    (other,) = parse(text, quick=True).unjudged
    assert other.reason == "it is about cc cubic, which this version leaves out"


def test_a_long_sweep_is_not_searched_for_each_of_its_values() -> None:
    asked: list[str] = []

    def same(known: str, value: str) -> bool:
        asked.append(known)
        return float(known) == float(value)

    sweep = Sweep((tuple(Factor((), (("a", str(i)), ("b", str(i % 2)))) for i in range(1000)),))
    assert all(sweep.has({"a": str(i)}, same) for i in range(1000))
    assert all(sweep.has({"a": str(i), "b": str(i % 2), "other": "x"}, same) for i in range(1000))
    assert asked == []
    assert not any(sweep.has({"a": "5", "b": "0.0"}, same) for _ in range(10))
    assert sweep.has({"a": "5.0", "b": "1"}, same)
    assert len(asked) < 4000, "what is written otherwise is looked for once"
    assert sweep.tied("a", "b") is False
    assert Sweep((tuple(Factor((), (("a", str(i)), ("b", str(-i)))) for i in range(3)),)).tied("a", "b")


@pytest.mark.parametrize("name", ["link", "value", "n"])
def test_a_factor_is_not_called_as_a_column_of_tables_of_metrics(name: str) -> None:
    sweep = f"{{zip: [{{{name}: one, transport.cc: reno}}, {{{name}: two, transport.cc: cubic}}]}}"
    with pytest.raises(ScenarioError, match=f"`{name}` is a column of the tables of metrics"):
        parse(dumbbell(sweep=sweep))
    parse(dumbbell(sweep=sweep.replace(f"{name}:", "my_name:")))
