"""``weir cc judge``: figures, verdicts and a page, from real runs of a small selection of its scenarios."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from cc_support import EXAMPLE, variant

from shared import Weir
from weir.cc import ControlError
from weir.scenario import load
from weir.study import judge as judging
from weir.study.judge import CASES, Check, Judged, Judgement, Measure
from weir.study.judge._builds import checks
from weir.study.judge._judge import _level

CHOSEN = ("alone", "with-reno", "losses")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a control that is like Reno, and one that never backs off."""
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
    return made


@pytest.fixture(scope="module")
def judged(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Judgement]]:
    """The judgements of both, by the chosen scenarios."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setattr("weir.study.judge._judge.CASES", tuple(case for case in CASES if case.name in CHOSEN))
        yield {name: judging.judge(folder / f"{name}.c", folder / name) for name in ("mine", "bully")}


def levels(judgement: Judgement) -> dict[tuple[str, str], str]:
    return {(case.case.name, point.measure.name): point.level for case in judgement.cases for point in case.points}


def test_every_scenario_is_sound_and_names_the_controls_that_it_is_about() -> None:
    for case in CASES:
        scenario = load(case.file, overrides={f"sweep.{case.factor}": json.dumps({"a": "reno", "b": "cubic"})})
        assert {cell.factors["cc"] for cell in scenario.cells()} == {"a", "b"}
        assert "RFC 9743" in scenario.rationale or case.name in ("long-fat", "rtts")
    assert set(judging.references()) == {"reno", "cubic", "bbr"}
    assert len(CASES) >= 12


def test_a_copy_of_reno_is_as_good_as_reno(judged: dict[str, Judgement]) -> None:
    found = judged["mine"]
    for _, point in found.points("serious", "weak", "strong", "fair"):
        if point.measure.better != "half":
            assert point.yours == pytest.approx(point.others["reno"], rel=0.02, abs=0.01)
    assert not found.points("serious", "unknown")
    share = next(point for case, point in found.points("fair") if point.measure.name == "Its share")
    assert share.yours == pytest.approx(50, abs=12)
    assert found.copy_of == "reno"
    assert judging.recommendation(found) == (
        "Reject", "in every scenario its figures are those of reno within 1 %: it is nothing new",
    )  # fmt: skip
    assert judged["bully"].copy_of is None


def test_a_control_that_never_backs_off_starves_the_other(judged: dict[str, Judgement]) -> None:
    found = levels(judged["bully"])
    assert found["with-reno", "Its share"] == "serious"
    assert found["with-reno", "Goodput of the other"] == "weak"
    assert judging.recommendation(judged["bully"])[0] == "Major revision"


def test_a_scenario_with_a_serious_fault_has_no_strong_points(judged: dict[str, Judgement]) -> None:
    found = judged["bully"]
    failing = {case.case.name for case, _ in found.points("serious")}
    assert failing
    assert not failing & {case.case.name for case, _ in found.points("strong")}


def test_serious_faults_in_most_scenarios_are_a_rejection(judged: dict[str, Judgement]) -> None:
    from dataclasses import replace

    def worse(case: Judged) -> Judged:
        return replace(case, points=tuple(replace(point, level="serious") for point in case.points))

    found = replace(judged["mine"], cases=tuple(worse(case) for case in judged["bully"].cases))
    verdict, why = judging.recommendation(found)
    assert verdict == "Reject"
    assert f"it fails in {len(found.cases)} of {len(found.cases)} scenarios" in why


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
    for case, point in judged["bully"].points("serious", "weak", "fair", "strong"):
        assert case.title in plain
        assert point.measure.name in plain
    assert "one of the two starves" in plain.lower()
    assert text.count("<svg") > 6
    again = judging.build(judged["bully"], tmp_path / "again.html").read_text(encoding="utf-8")
    assert again == text


def test_what_a_machine_lacks_is_on_the_page(judged: dict[str, Judgement], tmp_path: Path) -> None:
    from dataclasses import replace

    lacking = replace(judged["mine"], checks=(Check("BPF", "not run", "there is no 'clang' here; install clang"),))
    text = judging.build(lacking, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "BPF: not run here: there is no" in text


def test_a_control_that_fails_its_checks_is_rejected(judged: dict[str, Judgement]) -> None:
    from dataclasses import replace

    failed = replace(judged["mine"], checks=(Check("Simulator = BPF", "failed", "they differ"),))
    assert judging.recommendation(failed)[0] == "Reject"


@pytest.mark.parametrize(
    ("better", "yours", "level"),
    [
        ("more", 101, "strong"), ("more", 96, "fair"), ("more", 85, "weak"), ("more", 40, "serious"),
        ("less", 85, "strong"), ("less", 101, "weak"),
        ("half", 50, "strong"), ("half", 79, "fair"), ("half", 1, "weak"),
    ],
)  # fmt: skip
def test_levels_compare_with_the_best_and_the_worst(better: str, yours: float, level: str) -> None:
    never = 50 if better == "more" else None
    measure = Measure("m", "x", "%", better, never=never, slack=1.0 if better == "half" else 0.0)  # type: ignore[arg-type]
    others: dict[str, float | None] = {"a": 90, "b": 97, "c": None} if better != "half" else {"a": 60, "b": 90}
    assert _level(measure, yours, others, bound=False) == level


def test_a_figure_that_is_missing_is_unknown() -> None:
    measure = Measure("m", "x", "%")
    assert _level(measure, None, {"a": 1}, bound=False) == "unknown"
    assert _level(measure, 1, {"a": None}, bound=False) == "unknown"


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
    monkeypatch.setattr("weir.study.judge._judge.CASES", tuple(case for case in CASES if case.name == "alone"))
    source = tmp_path / "mine.py"
    source.write_text(EXAMPLE.with_suffix(".py").read_text(encoding="utf-8"))
    found = judging.judge(source, tmp_path / "judged")
    outcomes = {check.name: check.outcome for check in found.checks}
    assert outcomes["Simulator"] == outcomes["Same results"] == "passed"
    assert outcomes["BPF and kernel module"] == outcomes["Simulator = BPF"] == "not run"
    used = next(point for _, point in found.points("fair", "strong", "weak") if point.measure.name == "Utilisation")
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
