"""Stored results of claims: judged as a run is, continued, and compared with what comes out today."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from shared import of_catalogue
from weir import methods, run
from weir.cli._scenarios import catalogue_files
from weir.metrics import open_run
from weir.metrics.expect import Expectation, Measurement, evaluate, evaluate_stored
from weir.scenario import Scenario, parse
from weir.study.claims import (
    Answer,
    Claim,
    Judged,
    Pages,
    Papers,
    Part,
    Plan,
    Store,
    Unit,
    execute,
    judge,
    obstacle_of,
    read_papers,
    states,
    verify,
    work_of,
)
from weir.study.claims._comparisons import Bottleneck, compared
from weir.study.claims._links import linked
from weir.study.claims._page import _exception, _ours, _verdict
from weir.study.claims._papers import Drawn, Recorded
from weir.study.claims._parts import _brief, _said, introductions, reasons
from weir.study.claims._record import checks_of, skeleton
from weir.study.claims._setups import table_of_setups

ROOT = Path(__file__).parent.parent.parent
PLACE = ROOT / "docs" / "claims"
MAX_CELL_BYTES = 20_000
MAX_BYTES = 4_400_000
NAME = "E1/small"
UNIT = Unit(NAME, "full", "sim")
TEXT = """
title: Two flows
seed: 3
topology:
  dumbbell: {pairs: 2, access: {rate: 20Mbps}, bottleneck: {rate: 10Mbps, queue: 30kB}, rtt: 20ms}
transport: {cc: reno}
workload:
  - {name: bulk, between: pairs, kind: bulk, start: {uniform: [0s, 100ms]}, until: 4s}
measure: {goodput: 500ms, tcp: 100ms, links: 100ms}
phases:
  late: {from: 1s, to: 4s}
sweep:
  transport.cc: [reno, cubic]
  topology.dumbbell.rtt: [10ms, 40ms]
repeat: 2
expect:
  - {id: E1, claim: fills the link, check: utilisation.mean@late >= 0.9, source: section 1}
  - {id: E1, claim: is fair, check: jain@late >= 0.9, source: section 1}
  - {id: E1, claim: one is faster, check: 'argmax(goodput.mean over cc) == "reno"', source: section 1}
  - {id: E1, claim: falls, check: 'spearman(goodput.aggregate.mean over rtt) < 0', source: section 1}
  - {id: E1, claim: ratio, check: 'goodput.mean@late{cc: cubic} / goodput.mean@late{cc: reno} > 2', source: section 1}
  - {id: E1, claim: reaches, check: 'goodput.reach[rate: 9Gbps] > 1s', source: section 1}
  - {id: E1, claim: opened, where: {cc: reno}, check: 'goodput.mean <= 2 * mean(goodput.mean over cc)', source: s. 1}
  - {id: E1, claim: per flow, check: 'min(goodput.mean over flow) >= 1Mbps', source: section 1}
"""
TWO_BY_TWO = """
title: Two controls
topology:
  dumbbell: {pairs: 2, access: {rate: 20Mbps}, bottleneck: {rate: 10Mbps, queue: 30kB}, rtt: 20ms}
transport: {cc: reno}
workload:
  - {name: bulk, between: pairs, kind: bulk, until: 4s}
sweep:
  transport.cc: [reno, cubic]
  topology.dumbbell.rtt: [10ms, 40ms, 80ms]
expect:
CHECKS
"""


def _papers() -> Papers:
    recorded = Recorded(
        NAME, ("goodput.sd@late",), (Drawn("flows", "goodput", points=8), Drawn("distribution", "goodput", bins=10))
    )
    claim = Claim("E1", "E", "section 1", "They share.", "all of it")
    return Papers({"E": "Thesis"}, {"E": ""}, {"sim": ("full",)}, (claim,), {NAME: recorded}, (), (), {})


def _executed(store: Store, scenario: Scenario, folder: Path) -> list[str]:
    work = work_of(UNIT, scenario, _papers().recorded[NAME], store)
    return execute(Plan([work], 1), store, folder)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Scenario, Path]:
    """A small scenario, and the folder of its stored results."""
    folder = tmp_path_factory.mktemp("claims")
    scenario = parse(TEXT, "<small>")
    assert _executed(Store(folder / "results"), scenario, folder / "runs") == []
    return scenario, folder / "results"


def test_stored_values_give_the_verdicts_of_the_run(stored: tuple[Scenario, Path], tmp_path: Path) -> None:
    from weir import engine

    scenario, results = stored
    engine.run(scenario, tmp_path / "run", method="sim", workers=1)
    checks = [Expectation(e.check, e.claim, e.source, e.where) for e in scenario.expect]
    wanted = evaluate(open_run(tmp_path / "run"), checks)
    found = states(_papers(), {NAME: scenario}, Store(results))[UNIT].verdicts()
    assert [v.outcome for v in found] == [v.outcome for v in wanted]
    assert {v.outcome for v in found} >= {"holds", "fails"}
    assert "was not kept" not in " ".join(str(m) for v in found for m in v.measured)
    for ours, theirs in zip(found, wanted, strict=True):
        assert [str(m) for m in ours.measured] == [str(m) for m in theirs.measured]


def test_a_missing_cell_leaves_open_what_needs_it(stored: tuple[Scenario, Path], tmp_path: Path) -> None:
    scenario, results = stored
    data = json.loads((results / UNIT.file).read_text())
    data["cells"] = {name: cell for name, cell in data["cells"].items() if name.startswith(("0000", "0001"))}
    (tmp_path / UNIT.file).write_text(json.dumps(data))
    known = states(_papers(), {NAME: scenario}, Store(tmp_path))
    outcome = {v.claim: v for v in known[UNIT].verdicts()}
    assert outcome["E1: one is faster"].outcome == "undecided"
    assert "not every cell of it was executed" in outcome["E1: one is faster"].measured[0].note
    (judged,) = judge(_papers(), {NAME: scenario}, known)
    assert judged.count("undecided") >= 2


def test_only_what_is_missing_is_executed(stored: tuple[Scenario, Path]) -> None:
    scenario, results = stored
    recorded = _papers().recorded[NAME]
    assert work_of(UNIT, scenario, recorded, Store(results)).missing == ()
    some = work_of(UNIT, scenario, recorded, Store(results), {"cc": ["reno"]}, anew=True)
    assert [cell.factors["cc"] for cell in some.missing] == ["reno"] * 4
    more = replace(recorded, metrics=("goodput.cov@late",))
    assert len(work_of(UNIT, scenario, more, Store(results)).missing) == 8, "their values lack the new metric"
    other = parse(TEXT.replace("queue: 30kB", "queue: 40kB"), "<small>")
    assert len(work_of(UNIT, other, recorded, Store(results)).missing) == 8, "their set-up is another"


def test_a_real_clock_stores_no_cell_with_warnings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from weir.study.claims import _execute

    scenario = parse(TEXT.replace("repeat: 2", "repeat: 1"), "<small>")
    work = work_of(UNIT, scenario, None, Store(tmp_path / "results"), {"cc": ["reno"]})
    real = SimpleNamespace(get=lambda name: SimpleNamespace(clock="real"), MethodError=methods.MethodError)
    monkeypatch.setattr(_execute, "methods", real)
    busy = property(lambda cell: ("host: busy",) if "10ms" in cell.factors.values() else ())
    monkeypatch.setattr(run.Cell, "warnings", busy)
    told: list[str] = []
    store = Store(tmp_path / "results")
    failures = execute(Plan([work], 1), store, tmp_path / "runs", tell=told.append)
    assert failures == [f"{UNIT}: 0000-r0: not stored: host: busy"]
    assert any("0000-r0 is not stored: host: busy" in text for text in told)
    assert list(Store(tmp_path / "results").cells(UNIT)) == ["0001-r0"], "the cell without a warning"
    assert execute(Plan([work], 1), store, tmp_path / "runs", force=True) == []
    assert list(Store(tmp_path / "results").cells(UNIT)) == ["0000-r0", "0001-r0"]


def test_an_interrupted_call_continues(stored: tuple[Scenario, Path], tmp_path: Path) -> None:
    scenario, results = stored
    store = Store(tmp_path / "results")
    for name, result in list(Store(results).cells(UNIT).items())[:3]:
        store.keep(UNIT, name, result)
    told: list[str] = []
    again = Store(tmp_path / "results")
    execute(Plan([work_of(UNIT, scenario, _papers().recorded[NAME], again)], 1), again, tmp_path, tell=told.append)
    assert "5 of 8 cells" in told[0]
    cells = Store(tmp_path / "results").cells(UNIT)
    assert {name: r.values for name, r in cells.items()} == {n: r.values for n, r in Store(results).cells(UNIT).items()}
    assert not list(tmp_path.glob("*small*")), "the tables are gone"


BESIDE = """
title: What a new flow takes
seed: 3
topology:
  dumbbell: {pairs: 2, access: {rate: 20Mbps}, bottleneck: {rate: 10Mbps, queue: 30kB}, rtt: 20ms}
workload:
  - {name: old, between: "pairs[0]", kind: bulk, transport: {cc: reno}, until: 3s}
  - {name: new, between: "pairs[1]", kind: bulk, until: 3s}
measure: {goodput: 500ms, tcp: 0, links: 500ms}
sweep:
  transport.cc: [cubic, reno, scalable]
expect:
  - {id: E1, claim: leaves some, check: 'uif[legacy: old, baseline: {cc: reno}] >= 0.01', source: section 1}
"""


def test_the_time_is_estimated_by_the_faster_of_the_stored_cells(stored: tuple[Scenario, Path], tmp_path: Path) -> None:
    scenario, results = stored
    data = json.loads((results / UNIT.file).read_text())
    cells = list(data["cells"].values())
    packets = cells[0]["packets"]
    # Cells of a quarter of the speed were executed on a busy machine; one was too short to measure.
    walls = [8.0, 2.0, 0.01, 2.0, 8.0, 2.0, 8.0, 8.0]
    for cell, wall_s in zip(cells, walls, strict=True):
        cell.update(packets=packets, wall_s=wall_s)
    (tmp_path / UNIT.file).write_text(json.dumps(data))
    seconds = set(work_of(UNIT, scenario, None, Store(tmp_path), anew=True).seconds.values())
    assert max(seconds) == pytest.approx(2.0, rel=0.2), "the cells' estimates of their packets differ a little"
    other = work_of(replace(UNIT, version="quick"), scenario, None, Store(tmp_path))
    assert max(other.seconds.values()) == max(seconds), "a unit without results has the speed of the method"


def test_values_that_compare_with_another_cell_are_kept(tmp_path: Path) -> None:
    from weir import engine

    scenario = parse(BESIDE, "<beside>")
    store = Store(tmp_path / "results")
    work = work_of(UNIT, scenario, None, store)
    assert execute(Plan([work], 1), store, tmp_path / "runs") == []
    name = "uif[baseline: {cc: reno}, legacy: old]"
    found = {r.factors["cc"]: r.values[name] for r in Store(tmp_path / "results").cells(UNIT).values()}
    engine.run(scenario, tmp_path / "run", method="sim", workers=1)
    wanted = open_run(tmp_path / "run").metrics("uif[legacy: old, baseline: {cc: reno}]")
    assert found == {row["cc"]: pytest.approx(row["value"]) for row in wanted.iter_rows(named=True)}
    again = work_of(UNIT, scenario, None, Store(tmp_path / "results"), {"cc": ["cubic"]}, anew=True)
    assert [cell.factors["cc"] for cell in again.missing] == ["cubic", "reno"], "the tables of its baseline are gone"
    papers = Papers({"E": ""}, {"E": ""}, {"sim": ("full",)}, (), {}, (), (), {})
    assert verify(papers, {NAME: scenario}, Store(tmp_path / "results"), seed="x").failures == ()


def test_a_changed_figure_is_found(stored: tuple[Scenario, Path], tmp_path: Path) -> None:
    scenario, results = stored
    same = verify(_papers(), {NAME: scenario}, Store(results), seed="2026-11-23")
    assert len(same.cells) == 8
    assert same.failures == ()
    text = (results / UNIT.file).read_text()
    data = json.loads(text)
    data["cells"]["0001-r0"]["values"]["jain@late"] *= 1 + 1e-12
    data["cells"]["0002-r0"]["drawn"]["flows"]["curves"]["bulk[0]"][5] += 0.1
    (tmp_path / UNIT.file).write_text(json.dumps(data))
    found = verify(_papers(), {NAME: scenario}, Store(tmp_path), seed="2026-11-23")
    assert len(found.failures) == 2
    assert "jain@late" in " ".join(found.failures)
    assert "curve flows differs" in " ".join(found.failures)


def test_one_cell_that_takes_long_is_drawn_too(stored: tuple[Scenario, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of eight small cells all are drawn; of eight large ones, one, and another one on another day."""
    scenario, results = stored
    monkeypatch.setattr("weir.study.claims._verify._MAX_CELL_PACKETS", 0)
    days = [verify(_papers(), {NAME: scenario}, Store(results), seed=f"2026-11-{day}").cells for day in (21, 22, 23)]
    assert {len(cells) for cells in days} == {1}
    assert len(set(days)) > 1


def test_a_result_with_other_factors_does_not_count(stored: tuple[Scenario, Path], tmp_path: Path) -> None:
    """The pages leave such a result out, though its plan is that of the cell."""
    scenario, results = stored
    data = json.loads((results / UNIT.file).read_text())
    del data["cells"]["0002-r0"]["factors"]["cc"]
    (tmp_path / UNIT.file).write_text(json.dumps(data))
    assert [cell.id for cell in work_of(UNIT, scenario, None, Store(tmp_path)).missing] == ["0002-r0"]


def test_a_unit_of_many_cells_leaves_room_for_the_others(
    stored: tuple[Scenario, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario, results = stored
    monkeypatch.setattr("weir.study.claims._verify._MOST_OF_A_UNIT", 3)
    assert len(verify(_papers(), {NAME: scenario}, Store(results), seed="x").cells) == 3


def test_what_a_method_cannot_execute_is_told(tmp_path: Path) -> None:
    name = "D/complementary-udt"
    scenario = parse((ROOT / f"scenarios/{name}.yaml").read_text(encoding="utf-8"), name).version("realtime")
    by = {m: work_of(Unit(name, "realtime", m), scenario, None, Store(tmp_path)) for m in ("sim", "emul")}
    assert obstacle_of(by["sim"]) is None
    assert "in the simulator only" in str(obstacle_of(by["emul"]))


def test_a_cell_of_the_lab_is_drawn_too_where_there_is_one(
    stored: tuple[Scenario, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario, results = stored
    text = (results / UNIT.file).read_text()
    for unit in (UNIT, replace(UNIT, method="lab"), replace(UNIT, method="emul")):
        (tmp_path / unit.file).write_text(text.replace('"sim"', f'"{unit.method}"'))
    papers = replace(_papers(), versions={"sim": ("full",), "lab": ("full",), "emul": ("full",)})
    monkeypatch.setattr("weir.study.claims._verify._different", lambda *_: [])
    for lacking, wanted in ((None, ["lab"]), ("no kernel", [])):
        monkeypatch.setattr(type(methods.get("lab")), "available", lambda _, why=lacking: why)
        found = verify(papers, {NAME: scenario}, Store(tmp_path), seed="x").cells
        assert [unit for unit in (text.split(": ")[0].split(", ")[2] for text in found) if unit != "sim"] == wanted


def test_a_result_of_another_history_is_made_anew_if_asked(stored: tuple[Scenario, Path], tmp_path: Path) -> None:
    scenario, results = stored
    data = json.loads((results / UNIT.file).read_text())
    commits = dict(zip(data["cells"], ["known", "known+", "other", *5 * ["known"]], strict=True))
    for cell, commit in commits.items():
        data["cells"][cell]["commit"] = commit
    (tmp_path / UNIT.file).write_text(json.dumps(data))
    recorded = _papers().recorded[NAME]
    assert work_of(UNIT, scenario, recorded, Store(tmp_path)).missing == ()
    found = work_of(UNIT, scenario, recorded, Store(tmp_path), history={"known"})
    assert [cell.id for cell in found.missing] == [cell for cell, commit in commits.items() if commit != "known"]


def test_every_stored_result_names_a_commit_of_this_history() -> None:
    """A commit of the history; if that is not whole here, such as in an archive, at least none of changed sources."""
    from weir import engine

    history = engine.history()
    store = Store(PLACE / "results")
    named = {(str(unit), result.commit) for unit in store.units() for result in store.cells(unit).values()}
    if any(commit in history for _, commit in named):
        assert [f"{unit}: {commit}" for unit, commit in sorted(named) if commit not in history] == []
    assert [unit for unit, commit in named if commit.endswith("+")] == []


def test_an_earlier_set_up_is_told_with_the_command(stored: tuple[Scenario, Path]) -> None:
    _, results = stored
    other = parse(TEXT.replace("queue: 30kB", "queue: 40kB"), "<small>")
    found = verify(_papers(), {NAME: other}, Store(results), seed="x")
    assert found.cells == ()
    assert "--only E1/small --version full --method sim" in found.stale[0]
    page = Pages(_papers(), {NAME: other}, Store(results)).paper("E")
    assert "earlier set-up" in page


def test_a_claim_has_a_short_table_and_the_rest_of_its_parts_is_folded(stored: tuple[Scenario, Path]) -> None:
    scenario, results = stored
    page = Pages(_papers(), {NAME: scenario}, Store(results)).paper("E")
    claim = page.partition("## E1\n")[2]
    open_, _, rest = claim.partition("<details>")
    rows = [line.split(" | ") for line in open_.splitlines() if line.startswith("| ")]
    assert rows[0] == ["| part", "weir", "verdict", "why |"], "no scenario gives the paper's figure"
    assert [row[0].removeprefix("| ") for row in rows[1:3]] == ["1. fills the link", "2. is fair"]
    ratio = next(row for row in rows if row[0].endswith("ratio"))
    assert ratio[2:] == ["**fails**", "cause not known |"]
    assert re.fullmatch(r"[\d.]+ against 2 \(-?[\d.]+ to [\d.]+\)", ratio[1])
    assert "(Two flows). Judged by `sim`, the papers' size." in open_
    for expectation in scenario.expect:
        assert f"*Check*: `{expectation.check}`" in rest
        assert f"`{expectation.check}`" not in open_
    assert page.count("<details>") == page.count("</details>") == 3, "the set-ups, the notes, and the parts"


def test_a_set_up_is_introduced_with_its_labels_once_and_named_with_its_parts() -> None:
    text = TEXT.replace("transport.cc: [reno, cubic]", "transport.cc: {old: reno, new: cubic}").partition("expect:")[0]
    scenarios = {NAME: parse(text, "<small>"), "E1/other": parse(TEXT, "<other>")}
    part = _part("holds")
    judged = Judged(_papers().claims[0], (part, part, replace(part, scenario="E1/other"), part))
    known: set[str] = {"E1/other"}
    first, _ = introductions(judged, scenarios, known)
    one, other = (f"[{name}](../../scenarios/{name}.yaml)" for name in (NAME, "E1/other"))
    by = "Judged by `sim`, the papers' size."
    assert first == (
        f"*Set-ups*: parts 1 and 2, 4: {one} (Two flows; cc *old*: reno, *new*: cubic); part 3: {other}. {by}"
    )
    assert introductions(replace(judged, parts=(part,)), scenarios, known) == [f"*Set-up*: {one}. {by}", ""]


def test_labels_of_rows_stand_for_what_their_rows_have_in_common() -> None:
    rows = (
        "{case: few, topology.dumbbell.pairs: 1, duration: 5s}, {case: few, topology.dumbbell.pairs: 1, duration: 6s}"
    )
    text = TWO_BY_TWO.replace("  transport.cc: [reno, cubic]\n", f"  zip: [{rows}]\n").partition("expect:")[0]
    text = text.replace("until: 4s", "").replace(", }", "}")
    assert parse(text, "<rows>").meanings() == {"case": {"few": "pairs 1"}}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Short enough.", "Short enough"),
        ("The card binds. The rest of this note says at some length why it does.", "The card binds"),
        ("about 2.5 %; at levels lower than 1.0, and with some more words", "about 2.5 %"),
        ('"not able to go back to its normal throughput state in 50 s"', '"not able to go back to its normal …"'),
        ("one clause of some words, then a second one of many words", "one clause of some words …"),
        (
            "`weir run A/one --set x=y --set z=1` gives something else than that",
            "`weir run A/one --set x=y --set z=1` …",
        ),
    ],
)
def test_the_table_has_the_beginning_of_a_long_text(text: str, shown: str) -> None:
    assert _brief(text, 40) == shown


def test_a_sentence_that_is_too_short_for_a_reason_is_continued() -> None:
    text = "They need 3 % less. Other queues were tried, as for 3000 MB, and none gives 30 %."
    assert _brief(text, 50) == "They need 3 % less"
    assert _brief(text, 50, 40) == "They need 3 % less. Other queues were tried …"


def _part(outcome: str, version: str = "full") -> Part:
    from weir.metrics.expect import Verdict

    verdict = Verdict("", "", "", {}, outcome, (), (), "", ())  # type: ignore[arg-type]
    return Part(
        NAME, "t", "s", "", "", "", "", "holds", 10**10, (Answer(Unit(NAME, version, "sim"), verdict, 1, 1, old=False),)
    )


@pytest.mark.parametrize(
    ("outcomes", "wanted"),
    [
        ([], "open"),
        (["undecided"], "open"),
        (["holds"], "reproduces"),
        (["fails"], "refuted"),
        (["holds", "fails"], "in part"),
        (["holds", "undecided"], "reproduces"),
        (["fails", "undecided", "undecided"], "open"),
    ],
)
def test_the_verdict_on_a_claim_is_that_of_its_parts(outcomes: list[str], wanted: str) -> None:
    claim = _papers().claims[0]
    assert Judged(claim, tuple(_part(outcome) for outcome in outcomes)).outcome == wanted


def test_fitted_parts_count_if_they_fail_and_parts_beyond_the_paper_never() -> None:
    claim = _papers().claims[0]
    holds, fails, open_ = _part("holds"), _part("fails"), _part("undecided")
    fitted, beyond = {"fitted": "the queue"}, {"beyond": "a queue of later years"}
    assert Judged(claim, (fails, replace(holds, **fitted))).outcome == "refuted"
    assert Judged(claim, (holds, replace(fails, **fitted))).outcome == "in part"
    assert Judged(claim, (holds, replace(fails, **beyond))).outcome == "reproduces"
    undecided = (holds, replace(fails, **beyond), replace(open_, **fitted))
    assert Judged(claim, undecided).outcome == "reproduces under an assumption"
    assert Judged(claim, (replace(holds, **fitted), replace(holds, **beyond))).outcome == "open"
    mixed = Judged(claim, (holds, replace(holds, **fitted), replace(fails, **beyond)))
    beside = "1 of 1 parts hold; beside them 1 fitted and 1 beyond the paper"
    assert _verdict(mixed) == f"reproduces under an assumption: {beside}"
    assert reasons(mixed) == [
        "- Refuted, beyond the paper: *t.* The scenario expected it to hold. Cause not known.",
        "",
    ]


def test_a_claim_that_needs_a_choice_of_ours_does_not_reproduce_plainly() -> None:
    assuming = replace(_papers().claims[0], assumes="A queue of 32 kB. Else it fails.", condition="with 32 kB")
    holds, fails, fitted = _part("holds"), _part("fails"), replace(_part("holds"), fitted="the queue")
    assert Judged(_papers().claims[0], (holds, fitted)).outcome == "reproduces under an assumption"
    found = Judged(assuming, (holds, holds))
    assert _verdict(found) == "reproduces under an assumption (with 32 kB)"
    assert _verdict(Judged(assuming, (holds, fails))) == "in part: 1 of 2 parts hold; depends on assumptions"
    assert _verdict(Judged(assuming, (fails,))) == "refuted; depends on assumptions"


def test_a_claim_of_which_half_is_not_tested_reproduces_in_part_at_most() -> None:
    half = replace(_papers().claims[0], half=True, untested="That they share for long.")
    found = Judged(half, (_part("holds"),))
    assert found.outcome == "in part"
    assert _verdict(found) == "in part: 1 of 1 parts hold; half of its sentence is not tested"
    assert Judged(half, (_part("fails"),)).outcome == "refuted"
    assert Judged(half, (_part("undecided"),)).outcome == "open"


def test_parts_that_only_real_time_decides_are_the_exception_and_no_reduced_size() -> None:
    (answer,) = _part("holds").answers
    (real,) = _part("holds", "realtime").answers
    real = replace(real, unit=Unit(NAME, "realtime", "emul"))
    only = replace(_part("holds"), answers=(real,), realtime_only=True)
    judged = Judged(_papers().claims[0], (_part("fails"), only, only))
    assert not judged.reduced
    assert _verdict(judged) == "in part: 2 of 3 parts hold; 2 parts decided in real time by `emul`"
    wanted = ", except for properties that only a real machine has (2 parts of E1, decided by `emul`)"
    assert _exception([judged]) == wanted
    assert _exception([Judged(_papers().claims[0], (replace(only, answers=(answer,), realtime_only=False),))]) == ""


def test_a_part_is_open_if_other_seeds_decide_otherwise() -> None:
    holds, fails = _part("holds"), _part("fails")
    lucky = replace(holds, chance="With clocks of 0.0001 % the last flow has 938 Mb/s.", note="n")
    assert lucky.outcome == "undecided"
    claim = _papers().claims[0]
    assert Judged(claim, (lucky,)).outcome == "open"
    assert Judged(claim, (holds, lucky)).outcome == "reproduces"
    assert _verdict(Judged(claim, (fails, lucky))) == "refuted: 0 of 2 parts hold, 1 undecided"
    assert reasons(Judged(claim, (replace(lucky, expected="fails"),))) == ["- Undecided: *t.* n", ""]
    assert Judged(claim, (holds, replace(fails, chance="c", fitted="the queue"))).count("undecided") == 1
    small, (answer,) = _part("holds", "realtime"), lucky.answers
    said = [_said(one, replace(lucky, answers=(answer, *small.answers)), claim) for one in (answer, *small.answers)]
    assert [text.partition(":")[0] for text in said] == ["undecided (one seed; others decide otherwise)", "holds"]


def test_a_fitted_part_is_not_shown_among_all_claims() -> None:
    measured = (replace(_by_chance(), text="jain >= 1", outcome="holds", within_chance=False),)
    (answer,) = _part("holds").answers
    shown = replace(
        _part("holds"),
        answers=(replace(answer, verdict=replace(answer.verdict, check="jain >= 1", measured=measured)),),
    )
    claim = replace(_papers().claims[0], shown=("t",))
    assert _ours(Judged(claim, (shown,))).startswith("t: holds, `jain >= 1`: 1 against 1")
    other = replace(shown, text="u")
    assert _ours(Judged(claim, (other, shown))).startswith("t: holds")
    both = _ours(Judged(replace(claim, shown=("u", "t")), (shown, other))).split("<br>")
    assert [one[:8] for one in both] == ["u: holds", "t: holds"]
    with pytest.raises(ValueError, match="no part 't' that counts"):
        _ours(Judged(claim, (replace(shown, fitted="the queue"),)))


def test_a_reduced_size_does_not_decide_against_cells_of_the_papers_size() -> None:
    full, quick = _part("undecided"), _part("holds", "quick")
    (answer,) = full.answers
    for hint, wanted in (("undecided", "holds"), ("holds", "holds"), ("fails", "undecided")):
        part = replace(full, answers=(replace(answer, hint=hint), *quick.answers))
        assert (part.outcome, part.contradicted) == (wanted, wanted == "undecided")


def test_the_papers_size_counts_before_a_reduced_one() -> None:
    full, quick = _part("fails"), _part("holds", "quick")
    both = replace(full, answers=(*full.answers, *quick.answers))
    assert both.outcome == "fails"
    open_ = replace(full, answers=(*_part("undecided").answers, *quick.answers))
    assert open_.outcome == "holds"
    assert Judged(_papers().claims[0], (open_,)).reduced
    assert _part("holds", "realtime").outcome == "undecided", "such a version compares methods only"


def test_a_smaller_size_does_not_decide_what_chance_leaves_open() -> None:
    full, quick = _part("undecided"), _part("holds", "quick")
    (answer,) = full.answers
    chance = replace(answer, verdict=replace(answer.verdict, measured=(_by_chance(),)))
    assert replace(full, answers=(chance, *quick.answers)).outcome == "undecided"


def test_the_page_has_the_note_of_every_part() -> None:
    (answer,) = _part("undecided").answers
    chance = replace(answer, verdict=replace(answer.verdict, measured=(_by_chance(),)))
    parts = [
        replace(_part("fails"), text="one", note="a", expected="fails"),
        replace(_part("undecided"), text="two", note="b", answers=(chance,)),
        replace(_part("undecided"), text="a cell is missing", note="c", expected="fails"),
        replace(_part("holds"), text="three", note="d"),
        replace(_part("holds"), text="four", note="e", fitted="the queue"),
        replace(_part("holds"), text="five", note=""),
        replace(_part("fails"), text="six", note=""),
    ]
    assert reasons(Judged(_papers().claims[0], tuple(parts))) == [
        "- Refuted: *one.* a",
        "- Undecided: *two.* b",
        "- Undecided, and expected to fail: *a cell is missing.* c",
        "- Holds: *three.* d",
        "- Fitted: *four.* e",
        "- Refuted: *six.* The scenario expected it to hold. Cause not known.",
        "",
    ]


def test_parts_with_the_same_note_share_it() -> None:
    parts = [replace(_part("fails"), text=text, note=note, expected="fails") for text, note in (("a", "n"), ("b", "n"))]
    assert reasons(Judged(_papers().claims[0], (*parts, replace(_part("holds"), text="c", note="n")))) == [
        "- Refuted: *a.* *b.* n",
        "- Holds: *c.* n",
        "",
    ]


def test_scenarios_in_a_text_are_links_but_not_in_commands() -> None:
    text = "see the rationale; A/one and A/one-two (`A/one`), not `weir run A/one` nor AA/one"
    one, two = "[A/one](../../scenarios/A/one.yaml)", "[A/one-two](../../scenarios/A/one-two.yaml)"
    rationale = "see [the rationale](../../scenarios/A/one.yaml)"
    wanted = f"{rationale}; {one} and {two} ({one}), not `weir run A/one` nor AA/one"
    assert linked(text, ["A/one", "A/one-two"], "A/one") == wanted


def test_the_table_of_set_ups_has_the_values_of_the_plans() -> None:
    scenario = parse(
        TEXT.replace("kind: bulk, start", "kind: transfer, size: 3MB, start")
        .replace("until: 4s", "")
        .replace(", }", "}")
        .replace("measure:", "duration: 9s\nmeasure:")
        .replace("to: 4s", "to: 5s"),
        "<small>",
    )
    *_, row, end = table_of_setups({NAME: scenario})
    assert row == (
        "| [E1/small](../../scenarios/E1/small.yaml) | 10, 20 | 10, 40 | bulk: 2 × transfer of 3 MB | reno, cubic | 9 "
        "| 4, 2 repeats |"
    )
    assert end == ""


def test_a_missing_cell_decides_nothing_that_it_could_change() -> None:
    checks = {
        "spread(goodput.mean over rtt) <= 1Mbps": "fails",
        "spread(goodput.mean over rtt) >= 1Mbps": "holds",
        "max(goodput.mean over rtt) <= 1Mbps": "fails",
        "min(goodput.mean over rtt) >= 3Mbps": "fails",
        "mean(goodput.mean over rtt) <= 1Mbps": "undecided",
    }
    text = TWO_BY_TWO.replace(
        "CHECKS", "\n".join(f"  - {{claim: {check}, check: {check}, where: {{cc: reno}}}}" for check in checks)
    )
    scenario = parse(text, "<small>")
    kept = {
        cell.id: {"goodput.mean": 5e6 if cell.factors["rtt"] == "10ms" else 2e6}
        for cell in scenario.cells()
        if (cell.factors["cc"], cell.factors["rtt"]) != ("reno", "80ms")
    }
    for verdict in evaluate_stored(skeleton(scenario), checks_of(scenario, None), kept):
        assert verdict.outcome == checks[verdict.check], verdict.explanation


@pytest.mark.parametrize(
    ("reno", "cubic", "wanted"),
    [
        ((1e6, 4e6, None), (5e6, 5e6, 5e6), "fails"),
        ((1e6, 1e6, 1e6), (5e6, 8e6, None), "holds"),
        ((1e6, 1e6, None), (5e6, 8e6, 5e6), "undecided"),
    ],
)
def test_an_order_is_decided_when_the_missing_cells_cannot_change_it(
    reno: tuple[float | None, ...], cubic: tuple[float | None, ...], wanted: str
) -> None:
    check = "argmin(spread(goodput.mean over rtt) over cc) == 'reno'"
    scenario = parse(TWO_BY_TWO.replace("CHECKS", f'  - {{claim: order, check: "{check}"}}'), "<small>")
    values = {"reno": reno, "cubic": cubic}
    kept = {}
    for cell in scenario.cells():
        value = values[cell.factors["cc"]][("10ms", "40ms", "80ms").index(cell.factors["rtt"])]
        if value is not None:
            kept[cell.id] = {"goodput.mean": value}
    (verdict,) = evaluate_stored(skeleton(scenario), checks_of(scenario, None), kept)
    assert verdict.outcome == wanted


@pytest.mark.parametrize(
    ("check", "shown"),
    [
        ("goodput.mean / 2Mbps between 90% and 110%", "rtt = 40ms: 2.1 against 2.2 Mb/s"),
        (
            "goodput.mean >= 1.9Mbps and goodput.min >= 0.1Mbps",
            "`goodput.mean >= 1.9Mbps`: cc = reno, rtt = 10ms: 2 against 1.9 Mb/s",
        ),
        (
            "goodput.mean >= 9Mbps or goodput.min >= 1Mbps",
            "`goodput.min >= 1Mbps`: cc = reno, rtt = 10ms: 1.5 against 1 Mb/s",
        ),
    ],
)
def test_a_figure_has_the_papers_unit_and_the_comparison_that_decides(check: str, shown: str) -> None:
    text = TWO_BY_TWO.replace("CHECKS", f'  - {{claim: it, check: "{check}", where: {{cc: reno}}}}')
    scenario = parse(text.replace("40ms, 80ms", "40ms"), "<small>")
    values = {"10ms": (2e6, 1.5e6), "40ms": (2.1e6, 1.6e6)}
    kept = {
        cell.id: dict(zip(("goodput.mean", "goodput.min"), values[cell.factors["rtt"]], strict=True))
        for cell in scenario.cells()
    }
    (verdict,) = evaluate_stored(skeleton(scenario), checks_of(scenario, None), kept)
    assert verdict.outcome == "holds", verdict.explanation
    assert shown in compared(verdict, Bottleneck(10**10))


@pytest.mark.parametrize(
    ("measured", "check", "shown"),
    [
        # Shares of 10 Gb/s, of twelve flows for one of them.
        ({"value": 0.5, "threshold": 0.6}, "efficiency.capacity.mean >= 0.6", "417 against 500 Mb/s a flow"),
        # The threshold's unit of time, and the larger one's of a rate.
        ({"value": 0.0005, "threshold": 0.02, "dimension": (0, 1)}, "rtt.mean <= 20ms", "0.5 against 20 ms"),
        ({"value": 5e3, "threshold": 7.8e6, "dimension": (1, -1)}, "goodput.sd <= 7.8Mbps", "0.005 against 7.8 Mb/s"),
        # The check's percent, and no exponents.
        ({"value": 9.586e-5, "threshold": 0.01}, "goodput.cov <= 1%", "0.009586 % against 1 %"),
        ({"value": 9.586e-5, "threshold": 0.01}, "goodput.cov <= 0.01", "0.00009586 against 0.01"),
    ],
)
def test_a_row_has_one_unit(measured: dict[str, object], check: str, shown: str) -> None:
    from weir.metrics.expect import Verdict

    m = replace(_by_chance(), text=check, outcome="holds", within_chance=False, repeats=1, **measured)  # type: ignore[arg-type]
    m = replace(m, low=float("nan"), high=float("nan"), margin_low=float("nan"), margin_high=float("nan"))
    verdict = Verdict("", "", check, {}, "holds", (m,), (), "", ())
    flows = Bottleneck(10**10, flows=12)
    wanted = shown.replace("417", "416.7")
    assert compared(verdict, flows) == wanted
    assert compared(verdict, flows, named=True) == f"`{check}`: {wanted}"


def test_a_figure_may_show_an_expression_of_stored_metrics(stored: tuple[Scenario, Path]) -> None:
    _, results = stored
    result = Store(results).cells(UNIT)["0000-r0"]
    jain, load = result.values["jain@late"], result.values["utilisation.mean@late"]
    assert isinstance(jain, float)
    assert isinstance(load, float)
    expression = "1 / (1 / jain@late + 2 * -utilisation.mean@late)"
    assert result.number(expression) == pytest.approx(1 / (1 / jain - 2 * load))
    assert result.number("jain@late / (jain@late - jain@late)") is None
    assert result.number("jain@late * loss") is None, "not stored"


def _by_chance() -> Measurement:
    return Measurement("", {}, "undecided", 1.0, 0.0, 2.0, 1.0, 0.0, -1.0, 1.0, 3, (0, 0), within_chance=True)


def test_the_page_has_every_claim_of_the_papers_and_no_other() -> None:
    with (ROOT / "tests" / "catalogue" / "claims.tsv").open(encoding="utf-8", newline="") as file:
        wanted = [row["id"] for row in csv.DictReader(file, delimiter="\t")]
    papers = read_papers(PLACE / "claims.toml")
    assert [claim.id for claim in papers.claims] == wanted
    assert len(wanted) == 52
    judged = {e.basis.get("id") for name in catalogue_files() for e in of_catalogue(name).expect}
    for claim in papers.claims:
        assert (claim.id in judged) != bool(claim.open), f"{claim.id}: a scenario judges it, or the file says why not"
    index = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    assert all(f"| {name} |" in index or f"| [{name}](" in index for name in wanted)


@pytest.fixture(scope="module")
def catalogue() -> Pages:
    """The pages of the catalogue's claims."""
    scenarios = {name: of_catalogue(name) for name in catalogue_files()}
    return Pages(read_papers(PLACE / "claims.toml"), scenarios, Store(PLACE / "results"))


def test_the_simulator_gives_the_outcomes_that_the_scenarios_expect(catalogue: Pages) -> None:
    found = {
        f"{unit}: {one.claim}: {verdict.outcome}, expected {one.expected}"
        for unit, state in catalogue.known.items()
        if unit.method == "sim"
        for one, verdict in zip(state.scenario.expect, state.verdicts(), strict=True)
        if verdict.outcome not in (one.expected, "undecided")
    }
    assert not found, "\n".join(sorted(found))


def test_no_claim_of_the_catalogue_reproduces_plainly_by_a_choice_of_ours(catalogue: Pages) -> None:
    outcomes = {one.claim.id: one.outcome for one in catalogue.judged}
    assert outcomes["D4"] == outcomes["E5"] == "reproduces under an assumption"
    for one in catalogue.judged:
        chosen = one.claim.assumes or any(part.fitted for part in one.parts)
        assert not (chosen and one.outcome == "reproduces"), one.claim.id
        assert bool(one.claim.condition) == (one.outcome == "reproduces under an assumption"), one.claim.id
    line = next(text for text in catalogue.index().splitlines() if text.startswith("**"))
    assert sum(int(word) for word in line.partition(".**")[0].replace("**", "").split() if word.isdigit()) == 52


def test_only_a_part_with_one_seed_is_decided_by_chance(catalogue: Pages) -> None:
    lucky = [part for one in catalogue.judged for part in one.parts if part.chance]
    assert lucky
    for part in lucky:
        assert part.answer is not None, part.text
        assert {m.repeats for m in part.answer.verdict.measured} == {1}, f"{part.text}: its interval decides"


def test_a_claim_of_which_half_is_not_tested_says_which(catalogue: Pages) -> None:
    halves = [one for one in catalogue.judged if one.claim.half]
    assert [one.claim.id for one in halves] == ["D2"]
    assert all(one.claim.untested and one.outcome != "reproduces" for one in halves)


def test_only_a_claim_with_a_failure_has_one_without_an_explanation(catalogue: Pages) -> None:
    named = [one for one in catalogue.judged if one.claim.unexplained]
    assert {"A5", "E6"} <= {one.claim.id for one in named}
    for one in named:
        assert one.count("fails"), one.claim.id
    told = catalogue.index().partition("## Failures without an explanation")[2].partition("\n## ")[0]
    assert [line.partition("]")[0].removeprefix("- [") for line in told.splitlines() if line.startswith("- ")] == [
        one.claim.id for one in named
    ]


def test_the_page_of_runs_has_every_unit_with_results_and_the_index_has_none(catalogue: Pages) -> None:
    runs, index = catalogue.runs(), catalogue.index()
    for unit, state in catalogue.known.items():
        row = f"| `{unit.scenario}` | {unit.version} | `{unit.method}` | "
        assert (row in runs) == bool(state.used)
        assert row not in index


def test_the_index_leaves_out_checks_that_are_long(catalogue: Pages) -> None:
    codes = re.findall(r"`([^`]+)`", catalogue.index())
    assert max(map(len, codes)) <= 110


def test_the_stored_results_are_small_and_are_of_scenarios_that_exist() -> None:
    store = Store(PLACE / "results")
    assert store.units()
    sizes = {file.name: file.stat().st_size for file in (PLACE / "results").iterdir()}
    assert sum(sizes.values()) <= MAX_BYTES
    papers, names = read_papers(PLACE / "claims.toml"), catalogue_files()
    for unit in store.units():
        assert unit.scenario in names
        assert unit.version in papers.versions[unit.method]
        cells = store.cells(unit)
        assert sizes[unit.file] <= MAX_CELL_BYTES * len(cells)
        for result in cells.values():
            assert result.date
            assert result.processor
            assert result.packets > 0


def test_the_page_about_todays_classes_has_the_stored_values() -> None:
    share = 0.84733
    lines = (ROOT / "docs" / "classes-today.md").read_text(encoding="utf-8").splitlines()
    rows = [line.split("|")[1:-1] for line in lines if line.startswith("|")]
    controls = [head.strip() for head in rows[0][1:]]
    shown = {
        (row[0].strip(), control): tuple(float(number) for number in cell.strip().rstrip(")").split(" ("))
        for row in rows[2:]
        for control, cell in zip(controls, row[1:], strict=True)
    }
    cells = Store(PLACE / "results").cells(Unit("B/classes-today", "full", "sim")).values()
    stored = {(cell.factors["queue"], cell.factors["cc"]): cell for cell in cells}
    assert shown.keys() == stored.keys()
    for name, (efficiency, rtt) in shown.items():
        found = stored[name]
        assert found.number("efficiency.capacity.mean@whole") == pytest.approx(efficiency / 100 * share, abs=5e-4), name
        assert found.number("rtt.mean@steady") == pytest.approx(rtt / 1000, abs=6e-4), name
