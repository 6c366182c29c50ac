"""What `make claims` is asked to execute: a word that selects nothing is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from shared import of_catalogue
from weir.study import StudyError
from weir.study.claims import Asked, Unit, read_papers, read_where, wanted_units

ROOT = Path(__file__).parent.parent.parent
PAPERS = read_papers(ROOT / "docs" / "claims" / "claims.toml")


@pytest.fixture(scope="module")
def scenarios():
    names = ["A/large-flows", "E2/congestion-collapse"]
    return {name: of_catalogue(name) for name in names}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (Asked(only=["Z9"]), "--only Z9: not known; expected a claim, such as E2, or a scenario"),
        (Asked(only=["A/large-flow"]), "did you mean `A/large-flows`?"),
        (Asked(papers=["Q"]), "--paper Q: not known; expected `A`, `B`, `C`, `D` or `E`"),
        (Asked(versions=["ful"]), "--version ful: not known; did you mean `full`?"),
        (Asked(methods=["foo"]), "--method foo: not known; expected `sim`, `lab` or `emul`"),
        (Asked(where={"cc": ["renoo"]}), "--where cc=renoo: no cell has this value; did you mean `reno`?"),
        (Asked(where={"nokey": ["1"]}), "--where nokey: not a factor of what is asked for; expected"),
        (Asked(papers=["A"], only=["E2"]), "no scenario has all of --paper A, --only E2"),
    ],
)
def test_a_word_that_selects_nothing_is_refused_with_what_was_expected(scenarios, asked, said):
    with pytest.raises(StudyError) as caught:
        wanted_units(asked, PAPERS, scenarios)
    assert said in str(caught.value)


def test_what_is_asked_for_is_selected(scenarios):
    asked = Asked(only=["E2"], methods=["sim"], versions=["full"])
    units, _ = wanted_units(asked, PAPERS, scenarios)
    assert units == [Unit("E2/congestion-collapse", "full", "sim")]
    units, words = wanted_units(Asked(where={"rtt": ["0.05s"]}, papers=["A"]), PAPERS, scenarios)
    assert {unit.scenario for unit in units} == {"A/large-flows"}
    assert words.where == {"rtt": ["50ms"]}, "the value as the scenario writes it"


@pytest.mark.parametrize(
    ("texts", "where"),
    [
        (["rtt=50ms,100ms"], {"rtt": ["50ms", "100ms"]}),
        (["rtt=50ms,cc=reno"], {"rtt": ["50ms"], "cc": ["reno"]}),
        (["rtt=50ms", "cc=reno,cubic"], {"rtt": ["50ms"], "cc": ["reno", "cubic"]}),
        (["cc={name: cubic, beta: 900},reno"], {"cc": ["{name: cubic, beta: 900}", "reno"]}),
    ],
)
def test_factors_are_joined_as_weir_run_joins_them(texts, where):
    assert read_where(texts) == where


@pytest.mark.parametrize("text", ["50ms", "rtt=", "rtt=50ms,", "=3"])
def test_a_text_without_factor_or_value_is_refused(text):
    with pytest.raises(StudyError, match="expected a factor with its values"):
        read_where([text])


def test_the_script_ends_with_2():
    command = [sys.executable, str(ROOT / "scripts" / "claims.py"), "--list", "--where", "renoo"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr == "--where renoo: expected a factor with its values, such as rtt=50ms,100ms\n"
