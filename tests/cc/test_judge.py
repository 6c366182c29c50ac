"""``weir cc judge``: figures, verdicts and a page, from real runs of a small selection of its scenarios."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from cc_support import EXAMPLE, variant

from shared import Weir
from weir import cc as users
from weir import engine
from weir.cc import ControlError
from weir.scenario import load, yaml_texts
from weir.study import judge as judging
from weir.study.judge import CASES, Check, Judged, Judgement, Measure
from weir.study.judge._builds import checks
from weir.study.judge._points import Point
from weir.study.judge._points import graded as grade
from weir.study.judge._words import difference

CHOSEN = ("alone", "with-reno", "losses", "collapse")

BLIND = """
#include "weir_cc.h"
#define NO_OPTIONS(OPTION)
WEIR_CC_OPTIONS(NO_OPTIONS)
struct blind { u32 unused; };
static u32 fixed(struct sock *sk) { (void)sk; return 2000; }
static void avoid(struct sock *sk, u32 ack, u32 acked) { (void)ack; (void)acked; tcp_sk(sk)->snd_cwnd = 2000; }
#define BLIND_OPS(OP) OP(ssthresh, fixed) OP(cong_avoid, avoid) OP(undo_cwnd, fixed)
WEIR_CC_ABOUT("Blind", 2026, "none")
WEIR_CC_REGISTER(blind, "blind", 0, struct blind, BLIND_OPS)
"""
"""Keeps its window whatever is lost."""


def chosen(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Lets judgements have these scenarios only, three times each."""
    monkeypatch.setattr("weir.study.judge._cases.REPEATS", 3)
    monkeypatch.setattr("weir.study.judge._judge.CASES", tuple(case for case in CASES if case.name in names))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a control that is like Reno, one that hardly backs off, and one that never does."""
    made = tmp_path_factory.mktemp("judge")
    reno = EXAMPLE.parents[2] / "cc" / "reno" / "reno.c"
    (made / "mine.c").write_text(reno.read_text(encoding="utf-8").replace('"reno"', '"mine"'))
    text = EXAMPLE.read_text(encoding="utf-8")
    for before, after in (
        ("OPTION(keep, 70, 10, 99,", "OPTION(keep, 99, 10, 99,"),
        ("(increase, 2,", "(increase, 50,"),
    ):
        assert before in text
        text = text.replace(before, after)
    (made / "bully.c").write_text(text)
    (made / "blind.c").write_text(BLIND)
    return made


@pytest.fixture(scope="module")
def judged(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Judgement]]:
    """The judgements of both, by the chosen scenarios."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setattr("weir.study.judge._judge.CASES", tuple(case for case in CASES if case.name in CHOSEN))
        patch.setattr("weir.study.judge._cases.REPEATS", 4)
        yield {name: judging.judge(folder / f"{name}.c", folder / name) for name in ("mine", "bully", "blind")}


def levels(judgement: Judgement) -> dict[tuple[str, str], str]:
    return {(case.case.name, point.measure.name): point.level for case in judgement.cases for point in case.points}


def test_every_scenario_is_sound_and_names_the_controls_that_it_is_about() -> None:
    for case in CASES:
        scenario = load(case.file, overrides=yaml_texts(case.changes({"a": "reno", "b": "cubic"})))
        assert {cell.factors[case.label] for cell in scenario.cells()} == {"a", "b"}
        assert "RFC 9743" in scenario.rationale or case.name in ("long-fat", "rtts")
    assert set(judging.references()) == {"reno", "cubic", "bbr"}
    assert judging.standards() == {"reno", "cubic"}
    assert len(CASES) >= 12


def test_only_a_control_that_wants_ecn_has_it_where_a_queue_marks() -> None:
    """The queue tells packets apart by it: with ECN it marks, without it drops."""
    marking = [case for case in CASES if case.label != "cc"]
    assert [case.name for case in marking] == ["marks", "marks-beside"]
    for case in marking:
        scenario = load(case.file, overrides=yaml_texts(case.changes({"a": "reno", "b": "reno"}, {"b"})))
        for cell in scenario.cells():
            found = {flow["name"] for flow in cell.plan()["flows"] if flow["transport"]["ecn"]}
            own = {"flows[0]", "flows[1]"} if case.name == "marks" else {"entrant[0]"}
            assert found == (own if cell.factors[case.label] == "b" else set())


def test_a_copy_of_reno_is_as_good_as_reno(judged: dict[str, Judgement]) -> None:
    found = judged["mine"]
    for _, point in found.points("serious", "weak", "strong", "ordinary"):
        if point.measure.better != "half":
            assert point.yours == pytest.approx(point.others["reno"], rel=0.02, abs=0.01)
    assert not found.points("serious", "unknown")
    share = next(
        point for case, point in found.points("ordinary") if point.measure.name == "Its own share (judged if too small)"
    )
    assert share.yours == pytest.approx(50, abs=12)
    assert found.behaves_as == "reno"
    figures = sum(len(case.points) for case in found.cases)
    assert judging.recommendation(found) == (
        "Reject", f"it behaves as reno: none of {figures} figures tells the two apart, so that nothing is new",
    )  # fmt: skip
    assert judged["bully"].behaves_as is None
    assert judged["blind"].behaves_as is None


def test_a_scenario_draws_anew_for_each_repeat_and_the_same_for_all_controls() -> None:
    for case in CASES:
        scenario = load(case.file, overrides=yaml_texts(case.changes({"a": "reno", "b": "cubic"})))
        seeds: dict[int, set[int]] = {}
        for cell in scenario.cells():
            seeds.setdefault(cell.repeat, set()).add(cell.plan()["seed"])
        assert len(seeds) > 2
        assert all(len(found) == 1 for found in seeds.values())
        assert len(set.union(*seeds.values())) == len(seeds)
        text = case.file.read_text(encoding="utf-8")
        assert "uniform" in text or "clocks" in text, f"{case.name} draws nothing: its repeats are one"


def test_a_difference_that_chance_explains_is_no_point() -> None:
    """Single pages of one seed were a tenth faster; over eight seeds the lead is gone."""
    measure = Measure("m", "x", "s", "less", alike=0.1)
    reno = (0.433, 0.39, 0.41, 0.44, 0.4, 0.42, 0.38, 0.43)
    lucky = (0.386, 0.41, 0.40, 0.43, 0.42, 0.40, 0.41, 0.40)
    found = grade(Point(measure, lucky, {"reno": reno}))
    assert found.level == "ordinary"
    assert not found.is_told_from("reno")
    certain = tuple(value * 0.7 for value in reno)
    better = grade(Point(measure, certain, {"reno": reno}))
    assert (better.level, better.nearest, better.is_told_from("reno")) == ("strong", "reno", True)
    assert grade(Point(measure, reno, {"reno": certain})).level == "weak"
    once = grade(Point(measure, certain[:1], {"reno": reno[:1]}))
    assert once.level == "ordinary"


def test_pairs_take_what_a_seed_does_to_both_from_the_difference() -> None:
    """The repeats spread by 40 %, but one control is always a fifth better."""
    measure = Measure("m", "x", "s", "less")
    reno = (1.0, 1.4, 0.8, 1.2)
    assert grade(Point(measure, tuple(value - 0.2 for value in reno), {"reno": reno})).level == "strong"
    assert grade(Point(measure, (1.2, 0.8, 0.6, 1.0), {"reno": reno})).level == "ordinary"


def test_a_control_that_starves_standard_tcp_is_rejected(judged: dict[str, Judgement]) -> None:
    found = levels(judged["bully"])
    assert found["with-reno", "Left to the other flow"] == "serious"
    word, why = judging.recommendation(judged["bully"])
    assert word == judging.REJECT
    assert "it starves the other flow (RFC 9743, section 5.2): with-reno" in why
    left = next(point for _, point in judged["bully"].rejecting if point.measure.relative)
    assert left.yours is not None
    assert left.yardstick == min(value for name, value in left.others.items() if name in ("reno", "cubic") and value)
    assert left.yours < 0.05 * left.yardstick
    assert f"{100 * left.yours / left.yardstick:.0f} % of the least that cubic and reno leave" in judging.sentence(
        judged["bully"], left
    )


def test_a_control_that_ignores_congestion_is_rejected_for_each_of_its_harms(judged: dict[str, Judgement]) -> None:
    found, words = judged["blind"], levels(judged["blind"])
    word, why = judging.recommendation(found)
    assert word == judging.REJECT
    assert "it fails Shared suite" in why
    assert words["collapse", "Rate that it keeps sending"] == "serious"
    assert "more packets are lost than a network bears (RFC 9743, section 5.1.3): alone 3" in why
    assert "it starves the other flow (RFC 9743, section 5.2): with-reno" in why
    only = replace(found, checks=())
    assert judging.recommendation(only)[0] == judging.REJECT
    assert not judged["mine"].rejecting


def test_another_that_does_the_same_harm_excuses_none() -> None:
    """BBR takes as much from the other flow; that is no yardstick, unless the other is BBR, too."""
    measure = Measure("m", "x", "Mb/s", limit=0.25, bound=0.05, peer="cubic", relative=True, praised=False)
    others: dict[str, float | None] = {"bbr": 2, "cubic": 20, "reno": 24}
    word = {value: graded(measure, value, others).level for value in (30, 19.5, 8, 4, 0.9)}
    assert word == {30: "ordinary", 19.5: "ordinary", 8: "weak", 4: "serious", 0.9: "serious"}
    assert not graded(measure, 4, others).rejects
    assert graded(measure, 0.9, others).rejects
    beside_bbr = replace(measure, peer="bbr")
    assert graded(beside_bbr, 2, others).level == "ordinary"
    assert graded(beside_bbr, 0.4, others).level == "serious"


def test_bbr_excuses_no_unfairness_and_hides_no_strength() -> None:
    """Four flows of a control with a flow near zero were ordinary, since those of BBR are as unequal; so was a delay
    of half Reno's, since that of BBR is shorter.
    """
    jain = next(m for case in CASES for m in case.measures if case.name == "fairness" and m.name == "Jain's index")
    found = graded(jain, 0.745, {"bbr": 0.765, "cubic": 0.975, "reno": 0.982})
    assert (found.level, found.nearest) == ("weak", "cubic")
    assert graded(jain, 0.96, {"bbr": 0.765, "cubic": 0.975, "reno": 0.982}).level == "ordinary"
    delay = next(m for case in CASES for m in case.measures if case.name == "deep" and m.unit == "ms")
    found = graded(delay, 146, {"bbr": 57, "cubic": 276, "reno": 222})
    assert (found.level, found.nearest) == ("strong", "reno")
    assert graded(delay, 240, {"bbr": 57, "cubic": 276, "reno": 222}).level == "ordinary"
    assert graded(delay, 320, {"bbr": 900, "cubic": 276, "reno": 222}).level == "weak"


def test_flows_of_its_own_kind_are_repeated_until_chance_leaves_the_figure() -> None:
    """CUBIC's own newcomers vary so much that eight repeats hid a Jain's index of 0.86 beside 0.97."""
    often = {case.name: int(str(case.changes({})["repeat"])) for case in CASES}
    assert often["fairness"] == often["convergence"] == 3 * often["alone"]


def test_the_page_has_the_intervals_and_says_which_mark_is_whose(judged: dict[str, Judgement], tmp_path: Path) -> None:
    found = judged["bully"]
    text = judging.build(found, tmp_path / "report.html").read_text(encoding="utf-8")
    _, point = found.points("ordinary", "weak", "serious")[0]
    assert judging.intervals(point) in html.unescape(text)
    legend = re.search(r'<p class="legend">(.*?)</p>', text, re.S)
    assert legend is not None
    marks = re.findall(r"<span><svg[^>]*>(.*?)</svg>(\w+)</span>", legend[1])
    assert [name for _, name in marks] == ["bully", "bbr", "cubic", "reno"]
    assert len({re.sub(r"[^a-z]", "", mark) for mark, _ in marks}) == 4, "each has a look of its own, without colour"
    dots = re.search(r'<svg class="dots" .*?</svg>', text, re.S)
    assert dots is not None
    assert dots[0].index("yours") < dots[0].index("other"), "outlines lie over the dot"


def test_an_interval_has_the_sign_of_the_values() -> None:
    more = graded(Measure("m", "x", "1"), 0.7, {"cubic": 0.98})
    assert (
        judging.intervals(more) == "Difference, 99.9 % intervals: from cubic \N{MINUS SIGN}0.28 to \N{MINUS SIGN}0.28."
    )
    less = graded(Measure("m", "x", "ms", "less"), 30, {"reno": 20})
    assert judging.intervals(less) == "Difference, 99.9 % intervals: from reno 10 to 10 ms."
    half = graded(Measure("m", "x", "%", "half"), 20, {"reno": 60})
    assert judging.intervals(half).endswith("distance from 50 %, 99.9 % intervals: from reno 20 to 20 points.")


def test_the_same_losses_have_the_same_limit_in_every_scenario() -> None:
    limits = {m.limit for case in CASES for m in case.measures if m.name == "Packets lost"}
    assert limits == {10}
    assert sum(m.name == "Packets lost" for case in CASES for m in case.measures) >= 5
    measure = next(m for m in CASES[0].measures if m.name == "Packets lost")
    others: dict[str, float | None] = {"bbr": 15.5, "cubic": 0.1, "reno": 0.2}
    assert graded(measure, 15, others).level == "serious"
    assert graded(measure, 9, others).level == "weak"
    found = graded(measure, 27.4, others)
    assert found.rejects


def test_a_limit_is_named_where_it_is_exceeded(judged: dict[str, Judgement]) -> None:
    measure = next(m for m in CASES[0].measures if m.name == "Packets lost")
    others: dict[str, float | None] = {"bbr": 0, "cubic": 0.1, "reno": 0.2}
    said = {value: judging.sentence(judged["mine"], graded(measure, value, others)) for value in (15, 30)}
    assert said[15].endswith("section 5.1.3); the limit: at most 10 %.")
    assert said[30].endswith("section 5.1.3); above 25 %, it is rejected.")


def test_a_scenario_with_a_serious_fault_has_no_strong_points(judged: dict[str, Judgement]) -> None:
    found = judged["bully"]
    failing = {case.case.name for case, _ in found.points("serious")}
    assert failing
    assert not failing & {case.case.name for case, _ in found.points("strong")}


def test_serious_faults_in_most_scenarios_are_a_rejection(judged: dict[str, Judgement]) -> None:
    def worse(case: Judged) -> Judged:
        return replace(case, points=tuple(replace(point, level="serious", rejects=False) for point in case.points))

    found = replace(judged["mine"], cases=tuple(worse(case) for case in judged["bully"].cases))
    verdict, why = judging.recommendation(found)
    assert verdict == "Reject"
    assert f"in {len(found.cases)} of {len(found.cases)} scenarios" in why


def test_the_builds_are_checked_or_the_reason_is_said(judged: dict[str, Judgement]) -> None:
    checks = {check.name: check for check in judged["mine"].checks}
    assert list(checks) == [
        "Simulator", "Undefined behaviour", "Shared suite", "BPF", "Simulator = BPF", "Kernel module",
    ]  # fmt: skip
    assert checks["Simulator"].outcome == checks["Shared suite"].outcome == "passed"
    for check in checks.values():
        assert check.outcome in ("passed", "not run"), check
        assert check.said


class _Page(HTMLParser):
    """The ids and links of a page, and whether it loads or runs anything."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.active: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [given["id"]] if given.get("id") else []  # type: ignore[list-item]
        self.links += [str(given["href"])] if tag == "a" else []
        if (
            tag in ("script", "iframe", "object", "embed")
            or "src" in given
            or any(name.startswith("on") for name in given)
        ):
            self.active.append(tag)


def test_the_page_has_every_figure_and_needs_nothing_else(judged: dict[str, Judgement], tmp_path: Path) -> None:
    path = judging.build(judged["bully"], tmp_path / "report.html")
    text = path.read_text(encoding="utf-8")
    page = _Page(text)
    assert page.active == []
    anchors = [link.removeprefix("#") for link in page.links if link.startswith("#")]
    assert set(anchors) <= set(page.ids)
    plain = re.sub(r"<[^>]+>", "", text)
    for case, point in judged["bully"].points("serious", "weak", "ordinary", "strong"):
        assert case.title in plain
        assert point.measure.name in plain
    assert "it starves the other flow" in plain.lower()
    for word, reasons in judging.rule().items():
        assert word in plain
        assert all(reason in html.unescape(plain) for reason in reasons)
    assert "mbit" not in text.lower()
    assert text.count("<svg") > 6
    again = judging.build(judged["bully"], tmp_path / "again.html").read_text(encoding="utf-8")
    assert again == text


def test_what_a_machine_lacks_is_on_the_page(judged: dict[str, Judgement], tmp_path: Path) -> None:
    lacking = replace(judged["mine"], checks=(Check("BPF", "not run", "there is no 'clang' here; install clang"),))
    text = judging.build(lacking, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "BPF: not run here: there is no" in text


def test_the_page_lists_the_requirements_of_the_shared_suite(judged: dict[str, Judgement], tmp_path: Path) -> None:
    suite = next(check for check in judged["mine"].checks if check.name == "Shared suite")
    assert len(suite.listed) >= 10
    assert f"{len(suite.listed)} of {len(suite.listed)} requirements" in suite.said
    text = html.unescape(judging.build(judged["mine"], tmp_path / "report.html").read_text(encoding="utf-8"))
    folded = re.search(r"<details>(.*?)</details>", text, re.S)
    assert folded is not None
    assert re.findall("<li>(.*?)</li>", folded[1]) == list(suite.listed)
    assert "a loss takes a share of the window, which grows again (RFC 5681, section 3.1)" in suite.listed


def test_a_control_that_fails_its_checks_is_rejected(judged: dict[str, Judgement]) -> None:
    failed = replace(judged["mine"], checks=(Check("Simulator = BPF", "failed", "they differ"),))
    assert judging.recommendation(failed)[0] == "Reject"


def graded(measure: Measure, yours: float | None, others: Mapping[str, float | None]) -> Point:
    return grade(Point(measure, (yours,) * 3, {name: (value,) * 3 for name, value in others.items()}))


@pytest.mark.parametrize(
    ("better", "yours", "level"),
    [
        ("more", 101, "strong"), ("more", 96, "ordinary"), ("more", 85, "weak"), ("more", 40, "serious"),
        ("less", 85, "strong"), ("less", 101, "weak"),
        ("half", 50, "strong"), ("half", 79, "ordinary"), ("half", 1, "weak"),
    ],
)  # fmt: skip
def test_levels_compare_with_the_best_and_the_worst(better: str, yours: float, level: str) -> None:
    limit = 50 if better == "more" else None
    measure = Measure("m", "x", "%", better, limit=limit, slack=1.0 if better == "half" else 0.0)  # type: ignore[arg-type]
    others: dict[str, float | None] = {"a": 90, "b": 97, "c": None} if better != "half" else {"a": 60, "b": 90}
    assert graded(measure, yours, others).level == level


def test_a_difference_of_two_shares_is_in_points() -> None:
    """Of 41.9 % against 54.9 %, 13 % could be a share of either."""
    assert difference(Measure("Utilisation", "utilisation.mean", "%"), 13.0) == "13 points"
    assert difference(Measure("Mean queueing delay", "queue.delay.mean", "ms"), 13.0) == "13 ms"


def test_a_figure_that_is_missing_is_unknown() -> None:
    measure = Measure("m", "x", "%")
    assert graded(measure, None, {"a": 1}).level == "unknown"
    assert graded(measure, 1, {"a": None}).level == "unknown"


def test_a_forbidden_window_in_a_later_check_is_a_rejection_on_the_page(
    here: Path, weir: Weir, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen(monkeypatch, "alone")
    variant(here, "tp->snd_cwnd += 1 + acked; return;")
    ran = weir("cc", "judge", "mine.c", "-q")
    assert ran.code == 1, ran.err
    assert "Shared suite: failed: cong_avoid of mine.c set snd_cwnd to 0; a window has at least one packet" in ran.out
    assert "where the suite asks: windows of a million packets and of 2^32 do not overflow" in ran.out
    assert "options at their defaults" in ran.out
    assert "Reject: it fails Shared suite" in ran.out
    text = (here / "runs" / "judge-mine" / "report.html").read_text(encoding="utf-8")
    assert "set snd_cwnd to 0" in text


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "if (tp->snd_cwnd >= 500000) { tp->snd_cwnd /= tp->snd_cwnd >> 20; }",
            "divides by zero, where the suite asks: windows of a million packets and of 2^32 do not overflow",
        ),
        (
            "if (tp->snd_cwnd == 10000) { tp->snd_cwnd = 0; return; }",
            "at least one packet, where the suite asks: a loss takes a share of the window, which grows again "
            "(RFC 5681, section 3.1)",
        ),
    ],
)
def test_a_fault_in_the_suite_names_the_requirement(tmp_path: Path, statement: str, said: str) -> None:
    source = variant(tmp_path, statement)
    with pytest.raises(ControlError) as caught:
        users.requirements(users.object_of(str(source)), str(source))
    assert said in re.sub(r" at \S+:\d+", "", str(caught.value))


def test_a_requirement_that_is_not_met_is_named_with_its_rfc(tmp_path: Path) -> None:
    source = variant(tmp_path, "return;")
    said = {one.title: one.instead for one in users.requirements(users.object_of(str(source)), str(source))}
    assert said["slow start doubles the window in a round trip, up to the threshold (RFC 5681, section 3.1)"] == (
        "10 packets become 10, not 20"
    )
    assert said["windows of a million packets and of 2^32 do not overflow"] is None


def test_the_exit_code_is_that_of_the_recommendation(here: Path, weir: Weir, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen(monkeypatch, "alone")
    variant(here)
    monkeypatch.setattr("weir.study.judge.recommendation", lambda found: ("Accept", "of a test"))
    ran = weir("cc", "judge", "mine.c", "-q", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["recommendation"] == "Accept"
    monkeypatch.setattr("weir.study.judge.recommendation", lambda found: (judging.REJECT, "of a test"))
    assert weir("cc", "judge", "mine.c", "-q").code == 1


def test_a_scenario_that_the_control_breaks_off_is_a_failed_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen(monkeypatch, "alone")
    source = tmp_path / "mine.py"
    source.write_text(
        "from weir.control import Answer\n\nclass Control:\n    def __init__(self, flow): self.left = 200\n"
        "    def report(self, report):\n        self.left -= 1\n"
        "        return Answer(window_packets=100 // min(1, self.left))\n"
    )
    monkeypatch.setattr("weir.study.judge._judge.checks", lambda source: iter(()))
    found = judging.judge(source, tmp_path / "judged")
    (check,) = found.checks
    assert (check.name, check.outcome) == ("Scenario alone", "failed")
    assert "ZeroDivisionError" in check.said
    assert judging.recommendation(found)[0] == judging.REJECT
    assert {point.level for point in found.cases[0].points} == {"unknown"}
    assert "ZeroDivisionError" in judging.build(found, tmp_path / "report.html").read_text(encoding="utf-8")


def test_an_interruption_counts_scenarios_and_the_same_command_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen(monkeypatch, "alone", "shallow", "collapse")
    monkeypatch.setattr("weir.study.judge._judge.checks", lambda source: iter(()))
    source = variant(tmp_path)
    execute = engine.run
    executed: list[object] = []

    def run(scenario: engine.Scenario, out: Path, **options: object) -> engine.Result:
        if out.name == "collapse" and not executed.count("collapse"):
            executed.append("collapse")
            raise engine.Interrupted("interrupted; no cell was finished")
        result = execute(scenario, out, **options)  # type: ignore[arg-type]
        executed.append(result.executed)
        return result

    monkeypatch.setattr("weir.engine.run", run)
    with pytest.raises(engine.Interrupted, match=r"^interrupted; 2 of 3 scenarios are finished and kept: the same"):
        judging.judge(source, tmp_path / "judged")
    assert len(judging.judge(source, tmp_path / "judged").cases) == 3
    assert executed == [12, 12, "collapse", 0, 0, 12]
    source.write_text(source.read_text().replace("keep, 70", "keep, 71"))
    judging.judge(source, tmp_path / "judged")
    assert executed[6:] == [3, 3, 3]


def test_what_does_not_run_in_the_simulator_is_an_error(here: Path, weir: Weir) -> None:
    variant(here, "tp->snd_cwnd = 0; return;")
    ran = weir("cc", "judge", "mine.c", "-q")
    assert ran.code == 2
    assert "set snd_cwnd to 0" in ran.err
    assert weir("cc", "judge", "none.c").code == 2
    (here / "bad.c").write_text("int x(\n")
    with pytest.raises(ControlError, match="does not compile"):
        judging.judge(here / "bad.c", here / "out")


def test_a_control_in_python_has_no_builds_and_the_page_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen(monkeypatch, "alone")
    source = tmp_path / "mine.py"
    source.write_text(EXAMPLE.with_suffix(".py").read_text(encoding="utf-8"))
    found = judging.judge(source, tmp_path / "judged")
    outcomes = {check.name: check.outcome for check in found.checks}
    assert outcomes["Simulator"] == outcomes["Same results"] == "passed"
    assert outcomes["BPF and kernel module"] == outcomes["Simulator = BPF"] == "not run"
    used = next(point for _, point in found.points("ordinary", "strong", "weak") if point.measure.name == "Utilisation")
    assert used.yours is not None
    assert used.yours > 80
    page = judging.build(found, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "no kernel executes Python" in page
    assert "AIMD in Python, once a round trip" in page


def test_a_control_in_python_that_is_not_repeatable_is_rejected(tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    source.write_text(
        "import random\nfrom weir.control import Answer\n\nclass Control:\n    def __init__(self, flow): pass\n"
        "    def report(self, report): return Answer(window_packets=random.uniform(4, 90))\n"
    )
    found = {check.name: check for check in checks(source)}
    assert found["Same results"].outcome == "failed"
    assert "Flow.seed" in found["Same results"].said
