"""OAR's commands against what a real OAR 2.5.9 with three nodes answered (tests/reserve/oar)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from weir import reserve
from weir.reserve import Held, Phase, Request, ReserveError, oar
from weir.reserve._command import Answer
from weir.reserve._request import FrontEnd

RECORDED = Path(__file__).with_name("oar")
JOB = ("oarstat", "--json", "--full", "--job=10")
MINE = ("oarstat", "--json", "--user")
DELETE = ("oardel", "10")
SUBMIT = (
    *("oarsub", "--name=weir-recorded", "--stdout=/dev/null", "--stderr=/dev/null"),
    *("--resource=nodes=2,walltime=0:05:00", "sleep infinity"),
)


class Frontal:
    """A front end that answers as recorded, and remembers what it was asked."""

    def __init__(self, answers: dict[tuple[str, ...], tuple[str, int, str]]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, ...]] = []

    def ask(self, front_end: FrontEnd | None, words: list[str]) -> Answer:
        assert front_end == FrontEnd("lyon.example.org")
        self.asked.append(tuple(words))
        out, code, err = self.answers[tuple(words)]
        return Answer(" ".join(words), code, out, err)


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


def request(**more: Any) -> Request:
    return reserve.parse({"by": "oar", "nodes": 2, "time": "5min", "front_end": "lyon.example.org", **more})


@pytest.fixture
def frontal(monkeypatch: pytest.MonkeyPatch) -> Frontal:
    made = Frontal({})
    monkeypatch.setattr(oar, "ask", made.ask)
    return made


def test_the_number_is_found_behind_the_admission_rules(frontal: Frontal) -> None:
    frontal.answers = {SUBMIT: (recorded("submitted"), 0, "")}
    assert oar.Oar().submit(request(), "weir-recorded") == "10"


def test_all_that_a_request_may_say_is_told(frontal: Frontal) -> None:
    words = (
        *("oarsub", "--name=weir-recorded", "--stdout=/dev/null", "--stderr=/dev/null", "--notify=x"),
        *("--type=deploy", "--type=exotic", "--queue=production", "--property=cluster='sagittaire'"),
        *("--project=tcp", "--resource=nodes=12,walltime=3:00:01", "sleep infinity"),
    )
    frontal.answers = {words: (recorded("submitted"), 0, "")}
    said = {"types": ["deploy", "exotic"], "project": "tcp", "options": ["--notify=x"]}
    more = {"nodes": 12, "time": "10801s", "partition": "production", "properties": "cluster='sagittaire'"}
    assert oar.Oar().submit(request(**said, **more), "weir-recorded") == "10"


def test_a_refusal_is_shown(frontal: Frontal) -> None:
    frontal.answers = {SUBMIT: (recorded("refused"), 8, "")}
    with pytest.raises(ReserveError, match=r"OAR refuses: .*There are not enough resources for your request"):
        oar.Oar().submit(request(), "weir-recorded")


def test_a_waiting_job(frontal: Frontal) -> None:
    frontal.answers = {JOB: (recorded("waiting.json"), 0, "")}
    state = oar.Oar().state(request(), "10")
    assert (state.phase, state.nodes, state.start) == (Phase.WAITING, (), "")


def test_a_running_job_has_its_nodes(frontal: Frontal) -> None:
    frontal.answers = {JOB: (recorded("running.json"), 0, "")}
    state = oar.Oar().state(request(), "10")
    assert (state.phase, state.nodes) == (Phase.ACTIVE, (Held("n1", "n1"), Held("n2", "n2")))


def test_a_deleted_job_has_ended(frontal: Frontal) -> None:
    frontal.answers = {JOB: (recorded("ended.json"), 0, "")}
    assert oar.Oar().state(request(), "10").phase is Phase.ENDED


def test_a_job_whose_nodes_are_suspected_has_ended_and_says_why(frontal: Frontal) -> None:
    frontal.answers = {("oarstat", "--json", "--full", "--job=1"): (recorded("suspected.json"), 0, "")}
    state = oar.Oar().state(request(), "1")
    assert (state.phase, state.why) == (Phase.ENDED, "Error: One or several nodes are not responding correctly")


def test_an_unknown_job_is_silence_and_has_ended(frontal: Frontal) -> None:
    frontal.answers = {JOB: ("", 0, "")}
    assert oar.Oar().state(request(), "10").phase is Phase.ENDED


def test_a_job_is_found_by_its_name(frontal: Frontal) -> None:
    frontal.answers = {MINE: (recorded("user.json"), 0, "")}
    assert oar.Oar().find(request(), "weir-recorded") == "10"
    assert oar.Oar().find(request(), "weir-other") is None


def test_a_release_deletes_also_what_oar_submitted_anew(frontal: Frontal) -> None:
    frontal.answers = {
        MINE: (recorded("user.json"), 0, ""),
        DELETE: (recorded("deleted"), 0, ""),
        ("oardel", "9"): (recorded("deleted-twice"), 6, "Cannot frag 9 ; This job was already killed."),
    }
    oar.Oar().release(request(), "9", "weir-recorded")
    assert frontal.asked == [MINE, ("oardel", "9"), DELETE]


def test_a_refused_release_is_an_error_if_the_job_still_runs(frontal: Frontal) -> None:
    frontal.answers = {
        MINE: ("", 0, ""),
        DELETE: ("Deleting the job = 10 ...ERROR.\n", 1, "Cannot frag 10 ; You are not the right user."),
        JOB: (recorded("running.json"), 0, ""),
    }
    with pytest.raises(ReserveError, match="not the right user"):
        oar.Oar().release(request(), "10", "weir-recorded")


@pytest.mark.parametrize("out", ["{", "{}x", "warning {"])
def test_a_broken_answer_is_an_error(frontal: Frontal, out: str) -> None:
    frontal.answers = {JOB: (out, 0, "")}
    with pytest.raises(ReserveError, match="expected JSON"):
        oar.Oar().state(request(), "10")


@pytest.mark.parametrize("out", ['{"10": 7}', '{"10": {}}', '{"10": {"state": "Running"}}'])
def test_an_answer_that_lacks_something_has_no_nodes(frontal: Frontal, out: str) -> None:
    frontal.answers = {JOB: (out, 0, "")}
    assert oar.Oar().state(request(), "10").nodes == ()
