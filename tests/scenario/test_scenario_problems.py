"""Every kind of problem, with its exact position: a folder of bad scenarios and a text with the expected messages."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from scenario_support import BAD, GOOD, HERE, dumbbell

from weir.scenario import Problem, ScenarioError, check, load, parse

GOLDEN = HERE / "problems.txt"
REBUILD = "WEIR_REBUILD_GOLDENS=1 .venv/bin/python -m pytest tests/scenario/test_scenario_problems.py"


def _report(path: Path) -> list[str]:
    # Without this checkout's path: the text must be the same in any other.
    return [str(p).replace(f"{path.parent}{os.sep}", "") for p in check(path)]


def test_all_problems_of_the_bad_scenarios_are_those_recorded() -> None:
    text = "".join(f"{line}\n" for path in BAD for line in _report(path))
    if os.environ.get("WEIR_REBUILD_GOLDENS"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8"), f"if that is intended: {REBUILD}"


@pytest.mark.parametrize("path", BAD, ids=lambda p: p.stem)
def test_a_bad_scenario_is_refused_with_the_problems_that_check_lists(path: Path) -> None:
    problems = check(path)
    if path.stem == "warnings":
        assert {p.severity for p in problems} == {"warning", "info"}
        assert list(load(path).problems) == problems
        return
    with pytest.raises(ScenarioError) as caught:
        load(path)
    assert caught.value.problems == problems
    assert any(p.severity == "error" for p in problems)


@pytest.mark.parametrize("path", BAD, ids=lambda p: p.stem)
def test_problems_are_in_the_file_and_in_its_order(path: Path) -> None:
    lines = path.read_bytes().decode("utf-8", errors="replace").split("\n")
    places = [(p.line, p.column) for p in check(path)]
    assert places == sorted(places)
    assert all(1 <= line <= len(lines) and 1 <= column <= len(lines[line - 1]) + 1 for line, column in places)


@pytest.mark.parametrize("path", GOOD, ids=lambda p: p.stem)
def test_examples_and_the_catalogue_have_no_errors(path: Path) -> None:
    assert [str(p) for p in check(path) if p.severity == "error"] == []


def test_a_problem_reads_like_a_compilers() -> None:
    assert str(Problem("a.yaml", 3, 7, "what is wrong")) == "a.yaml:3:7: what is wrong"
    assert str(Problem("a.yaml", 3, 7, "odd", "warning")) == "a.yaml:3:7: warning: odd"


def test_files_that_cannot_be_read_are_problems(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path, tmp_path / "nul\0.yaml"):
        (problem,) = check(path)
        assert "cannot be read" in problem.message
        with pytest.raises(ScenarioError):
            load(path)


def test_a_huge_file_is_refused_without_being_parsed(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    path.write_text("title: " + "x" * (2 << 20), encoding="utf-8")
    (problem,) = check(path)
    assert "too much for a scenario" in problem.message


def test_checking_ends_when_there_are_very_many_problems() -> None:
    text = dumbbell() + "".join(f"unknown{i}: 1\n" for i in range(5000))
    with pytest.raises(ScenarioError) as caught:
        parse(text)
    assert len(caught.value.problems) < 300
    assert "what follows was not checked" in caught.value.problems[-1].message


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("fast", "1:1: `fast` is not a delay"),
        ("[10ms", "1:6: not YAML: expected ',' or ']'"),
        ("", "1:1: there is nothing here; expected a value"),
        ("10\0ms", "1:3: character U+0000 is not allowed"),
    ],
)
def test_problems_of_an_override_name_the_override(value: str, said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(dumbbell(), overrides={"topology.dumbbell.rtt": value})
    assert str(caught.value.problems[0]).startswith(f"--set topology.dumbbell.rtt:{said}")


def test_a_path_of_a_sweep_is_marked_at_its_wrong_part() -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(dumbbell(sweep="{transport.ccc: [reno]}"))
    problem = next(p for p in caught.value.problems if "`ccc`" in p.message)
    assert (problem.line, problem.column) == (dumbbell().count("\n") + 1, len("sweep: {transport.") + 1)
    assert "did you mean `cc`?" in problem.message


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"transport": "{cc: cubc}"}, "there is no congestion control `cubc`; did you mean `cubic`?"),
        ({"transport": "{cc: RENO}"}, "`RENO` is not a congestion control; did you mean `reno`?"),
        ({"transport": "{cc: westwood+}"}, "`westwood+` is not a congestion control; did you mean `westwood`?"),
        ({"transport": "{cc: LEDBAT++}"}, "`LEDBAT++` is not a congestion control; did you mean `ledbatpp`?"),
        (
            {"transport": "{cc: {name: cubic, beta: 0.7}}"},
            "`beta` of `cubic` is a whole number, `true` or `false`, not `0.7`; `weir cc list cubic` has its unit",
        ),
        ({"measure": "{TCP: 1s}"}, "unknown key `TCP`; did you mean `tcp`?"),
        ({"topology": "{parking-lot: {}}"}, "`parking-lot` is not a topology; did you mean `parking_lot`?"),
        (
            {"expect": "[{claim: x, check: goodput.mean{cc: reno} > 1bps}]"},
            'not YAML: a check with braces needs quotes: check: "goodput.mean{cc: reno} > 1Mbps"',
        ),
        (
            {"expect": "\n- claim: x\n  check: goodput.mean{cc: reno} > 1bps"},
            "not YAML: a check with braces needs quotes",
        ),
        (
            {"expect": "\n- claim: x\n  check: for each rtt: jain > 0.9"},
            "not YAML: a second `: ` in this line; a text that contains `: ` needs quotes",
        ),
    ],
)
def test_hints(keys: dict[str, str], said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(dumbbell(**keys))
    assert any(p.message.startswith(said) for p in caught.value.problems), caught.value


@pytest.mark.parametrize("queue", ["fq-codel", "FQ_CoDel", "fq codel"])
def test_a_queue_is_suggested_whatever_its_hyphens_and_case(queue: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(dumbbell(), overrides={"topology.dumbbell.bottleneck.queue": queue})
    assert caught.value.problems[0].message == f"`{queue}` is not a queue; did you mean `fq_codel`?"


def test_a_name_that_weir_has_is_no_kernels() -> None:
    assert parse(dumbbell(transport="{cc: htcp}")).cells()[0].plan()["flows"][0]["transport"]["cc"] == "htcp"


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Callable[[tuple[str, ...] | None], None]:
    """Replaces this host's kernel by another, with a module for `other`; ``None``: a host that does not tell."""

    def with_controls(names: tuple[str, ...] | None) -> None:
        monkeypatch.setattr("weir._linux.available", lambda: names)
        monkeypatch.setattr("weir._linux._modules", lambda release: frozenset({"other"}))

    return with_controls


def test_a_name_that_no_kernel_known_here_has_is_an_error(host: Callable[[tuple[str, ...] | None], None]) -> None:
    host(("bbr3", "reno"))
    for name in ("westwood", "bbr3", "other"):  # of the lab, of this host, of a module of this host
        parse(dumbbell(transport=f"{{cc: linux:{name}}}"))
    with pytest.raises(ScenarioError) as caught:
        parse(dumbbell(transport="{cc: linux:westwod}"))
    (problem,) = caught.value.problems
    assert problem.message == (
        "neither the lab's kernel nor this host's has a congestion control `westwod`; did you mean `linux:westwood`?"
    )
    with pytest.raises(ScenarioError, match="did you mean `linux:bbr3`"):
        parse(dumbbell(sweep="{transport.cc: [reno, linux:bbr33]}"))


def test_where_this_host_does_not_say_what_it_has_such_a_name_is_a_warning(
    host: Callable[[tuple[str, ...] | None], None],
) -> None:
    host(None)
    found = parse(dumbbell(transport="{cc: linux:westwod}")).problems
    assert [p.severity for p in found if "westwod" in p.message] == ["warning"]
    assert any(p.message.endswith("did you mean `linux:westwood`?") for p in found)


def test_all_options_of_a_control_are_checked_at_once() -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(dumbbell(transport='{cc: {name: cubic, hystartt: 1, beta: 5000, c: "4"}}'))
    assert sorted(problem.message for problem in caught.value.problems) == [
        "`beta` of `cubic` is 1 to 1023, not 5000",
        "`c` of `cubic` is a number from 1 to 2000: write 4 without quotes",
        "`hystartt` is not an option of `cubic`; did you mean `hystart`?",
    ]


def test_a_wrong_sweep_is_told_together_with_a_wrong_body() -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(
            dumbbell(
                transport="{cc: reno, bufers: 4MB}",
                sweep="{topology.dumbbel.rtt: [1ms, 2ms]}",
                phases="{late: {from: 1s}}",
                expect='[{claim: x, check: "goodput.mean@latee > 1Mbps"}]',
            )
        )
    text = str(caught.value)
    for said in ("did you mean `buffers`?", "did you mean `dumbbell`?", "no phase 'latee'"):
        assert said in text, text
