"""``weir catalogue --method`` with methods made of the simulator, on a tiny scenario."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from shared import Ran, called, dumbbell
from weir.compare import of_outcomes
from weir.study import Clock, StudyError, parse_methods
from weir.study.survey import Claim, Said, tasks_of

TINY = dumbbell(
    bottleneck="rate: 50Mbps, queue: 50packets, loss: 1%",
    workload="name: flows, between: pairs, kind: bulk, until: 30s",
    more="""\
quick: {workload.flows.until: 6s}
realtime:
  topology.dumbbell.bottleneck: {rate: 5Mbps, queue: 20packets, loss: 1%}
  workload.flows.until: 3s
expect:
  - claim: more than half
    check: goodput.aggregate.mean >= 30Mbps
    realtime: {check: goodput.aggregate.mean >= 3Mbps}
  - {claim: they share it, check: jain >= 0.5}
  - {claim: absolute, check: goodput.aggregate.mean >= 30Mbps}
  - {claim: nobody knows, check: completion.mean > 0 * completion.mean}
sweep:
  transport.cc: [reno]
""",
)
TWIN, ODD, ABSENT, SMALL, BROKEN = (f"other_methods:{name}" for name in ("Twin", "Odd", "Absent", "Small", "Broken"))


surveyed = partial(called, "catalogue")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Runs ``weir catalogue`` in a folder that holds the tiny scenario."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(TINY)
    return surveyed


THREE = ("tiny.yaml", "--method", f"sim,{TWIN},{ODD}", "--out", "o", "--seeds", 3, "--no-verdict", "-q")


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    """A folder in which three methods executed the tiny scenario, one of which stands alone; and the output."""
    folder = tmp_path_factory.mktemp("survey")
    (folder / "tiny.yaml").write_text(TINY)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return folder, surveyed(*THREE, "--json")


@pytest.fixture
def three(executed: tuple[Path, Ran], monkeypatch: pytest.MonkeyPatch) -> Ran:
    """The output, in that folder."""
    monkeypatch.chdir(executed[0])
    return executed[1]


def test_the_majority_is_named_and_so_is_the_one_that_stands_alone(three: Ran) -> None:
    found = three.json
    (scenario,) = found["scenarios"]
    first, second, unknown = scenario["claims"]
    assert first["check"] == "goodput.aggregate.mean >= 3Mbps", "of this version's scale"
    assert [said["outcome"] for said in first["methods"].values()] == ["holds", "holds", "fails"]
    assert (first["outcome"], first["agreement"], first["odd"]) == ("holds", "majority", [ODD])
    distances = {tuple(d["methods"]): d["relative"] for d in first["distances"]}
    assert distances["sim", TWIN] == 0
    assert distances["sim", ODD] == pytest.approx(2 / 3, rel=0.2), "half of it, relative to the mean"
    assert second["agreement"] == "all"
    assert unknown["agreement"] == "alone"
    assert found["odd_one_out"] == {"sim": 0, TWIN: 0, ODD: 1}
    assert {tuple(p["methods"]): (p["claims"]["same"], p["claims"]["of"]) for p in found["pairs"]} == {
        ("sim", TWIN): (2, 2),
        ("sim", ODD): (1, 2),
        (TWIN, ODD): (1, 2),
    }


def test_figures_have_values_distances_and_what_chance_makes(three: Ran) -> None:
    (scenario,) = three.json["scenarios"]
    figures = {figure["metric"]: figure for figure in scenario["figures"]}
    goodput = figures["goodput.aggregate.mean"]
    assert goodput["odd"] == [ODD]
    assert goodput["values"]["sim"] == goodput["values"][TWIN] > 1.5 * goodput["values"][ODD]
    assert len(goodput["seeds"]) == 3
    assert not goodput["by_chance"]
    loss = figures["link.loss"]
    assert loss["seeds"][0] == loss["values"]["sim"], "the first of the seeds is that of the run"
    assert len(set(loss["seeds"])) == 3
    assert scenario["figures"][0]["agreement"] == "majority", "those that disagree come first"


def test_what_is_not_judged_is_listed_with_its_reason(three: Ran) -> None:
    (scenario,) = three.json["scenarios"]
    assert [(u["claim"], "absolute" in u["reason"]) for u in scenario["not_judged"]] == [("absolute", True)]


def test_it_goes_on_where_it_was(three: Ran) -> None:
    assert all(m["executed"] == 1 for m in three.json["scenarios"][0]["methods"].values())
    again = surveyed(*THREE, "--json")
    assert all(m["executed"] == 0 for m in again.json["scenarios"][0]["methods"].values())
    other = Path("other.yaml")
    other.write_text(TINY.replace("until: 3s", "until: 2s"))
    (Path("o") / "tiny.yaml").rename(Path("o") / "other.yaml")
    try:
        refused = surveyed("other.yaml", *THREE[1:])
    finally:
        (Path("o") / "other.yaml").rename(Path("o") / "tiny.yaml")
    assert refused.code == 2
    assert "--fresh" in refused.err


def test_without_time_nothing_is_begun_and_the_report_says_so(run: Callable[..., Ran]) -> None:
    done = run(
        "tiny.yaml", "--method", f"sim,{TWIN}", "--out", "o", "--max-time", "1ms", "--json", "--no-verdict", "-q"
    )
    reasons = [m["not_run"] for m in done.json["scenarios"][0]["methods"].values()]
    assert all("no time left" in reason for reason in reasons)
    assert done.json["scenarios"][0]["claims"] == []


def test_what_this_machine_does_not_have_or_carry_is_said(run: Callable[..., Ran]) -> None:
    done = run("tiny.yaml", "--method", f"sim,{ABSENT},{SMALL}", "--out", "o", "--seeds", 0, "--no-verdict")
    assert done.code == 0
    assert "there is no moon" in done.out
    assert "cannot carry" in done.out
    assert re.search("1/2 tiny.yaml by sim; about 0:0[0-9] left", done.err)
    page = Path("o/catalogue.html").read_text()
    assert "there is no moon" in page
    assert "cannot carry" in page


def test_a_method_that_fails_does_not_stop_the_others(run: Callable[..., Ran]) -> None:
    done = run("tiny.yaml", "--method", f"{BROKEN},sim", "--out", "o", "--seeds", 0, "--json", "-q", "--no-verdict")
    assert done.code == 1
    methods = done.json["scenarios"][0]["methods"]
    assert methods[BROKEN]["not_run"] == "every cell failed"
    assert "it is broken" in methods[BROKEN]["failures"][0]
    assert methods["sim"]["not_run"] is None


def test_a_claim_whose_majority_does_not_hold_is_a_failure(run: Callable[..., Ran]) -> None:
    done = run("tiny.yaml", "--out", "o", "--seeds", 0, "-q", "--method", "sim", "--json")
    assert done.code == 1, "nobody knows is undecided, which no claim should be"
    assert done.json["unsettled"] == ["tiny.yaml: nobody knows"]


@pytest.mark.parametrize(
    ("outcomes", "outcome", "settled"),
    [
        (["holds", "undecided"], "holds", True),
        (["undecided", "undecided"], "undecided", True),
        (["fails", "undecided"], "fails", False),
        (["no value", "undecided"], "undecided", False),
        (["no value"], "undecided", False),
    ],
)
def test_what_repeats_leave_open_is_no_failure(outcomes: list[str], outcome: str, settled: bool) -> None:
    said = {
        f"m{k}": Said("undecided" if word == "no value" else word, "", None, word == "holds", word == "undecided")
        for k, word in enumerate(outcomes)
    }
    agreement = of_outcomes({m: s.outcome for m, s in said.items()})
    claim = Claim("c", "jain > 0", "", "", "holds", "", "", said, agreement, {})
    assert (claim.outcome, claim.settled) == (outcome, settled)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--method", "sim,moon"), "no method 'moon'"),
        (("--method", "sim,sim"), "several different ones"),
        (("--method", ","), "does not name one method"),
        (("--method", ABSENT), "there is no moon"),
        (("--method", "sim", "--max-time", "soon"), "expected a time"),
        (("--method", "sim", "--max-time", "-1s"), "expected a time"),
        (("--realtime",), "needs --method"),
        (("--max-time", "1min"), "needs --method"),
        (("--fresh",), "needs --method"),
    ],
)
def test_mistakes_end_with_2_and_say_what_was_expected(
    run: Callable[..., Ran], arguments: tuple[str, ...], message: str
) -> None:
    done = run("tiny.yaml", *arguments)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err


def test_an_unknown_scenario_is_told_before_anything_is_executed(run: Callable[..., Ran], tmp_path: Path) -> None:
    done = run("E2/congestion", "--method", "sim", "--out", "o")
    assert done.code == 2
    assert "Did you mean 'E2/congestion-collapse'" in done.err
    assert not (tmp_path / "o").exists()


def test_without_a_method_it_lists(run: Callable[..., Ran]) -> None:
    assert "E2/congestion-collapse" in run().out
    assert "claims:" in run("E2/congestion-collapse").out


def test_the_page_says_it_all_and_loads_nothing(three: Ran) -> None:
    page = Path("o/catalogue.html").read_text()
    assert re.findall(r'<section id="([a-z]+)"', page) == [
        "glance", "disputed", "claims", "figures", "worst", "unjudged", "warnings",
    ]  # fmt: skip
    assert not re.search(r"<(?:link|img|iframe|object)\b|@import|url\(", page.split("<script>")[0])
    assert not re.search(r'\bstyle="', page.split("<script>")[0]), "the policy allows none"
    assert f"sim and {TWIN} agree; {ODD} differs" in page
    assert "half of it" in page
    assert 'href="tiny.yaml/compare.html"' in page
    assert Path("o/tiny.yaml/compare.html").is_file()
    assert page.count('class="sq fails alone"') == 1
    assert f"the run by {ODD} has warnings" in page


@pytest.mark.usefixtures("three")
def test_the_terminal_says_who_differs_from_whom() -> None:
    done = surveyed(*THREE)
    assert f"sim and {TWIN} agree; {ODD} differs" in done.out
    assert re.search(r"sim with 3 seeds: holds with 3, [0-9.]+ Mbps to [0-9.]+ Mbps\n", done.out)
    assert "1 claim not judged" in done.out
    assert f"sim, {TWIN} and {ODD} agree on 1 of 2 claims" in done.out


def test_methods_are_read_in_their_order() -> None:
    assert parse_methods(" lab, sim ") == ("lab", "sim")
    with pytest.raises(StudyError):
        parse_methods("")


def test_the_time_left_follows_what_it_took(tmp_path: Path) -> None:
    from weir.scenario import parse

    scenarios = {name: parse(TINY, realtime=True) for name in ("a", "b")}
    tasks = tasks_of(scenarios, {}, ["sim"], tmp_path)
    assert [task.name for task in tasks] == ["a", "b"]
    clock = Clock(tasks)
    assert clock.left_s() == pytest.approx(2 * tasks[0].seconds)
    clock.done(tasks[0], 3 * tasks[0].seconds, executed=True)
    assert clock.left_s() == pytest.approx(3 * tasks[1].seconds)
    clock.done(tasks[1], 0.0, executed=False)
    assert clock.left_s() == 0
