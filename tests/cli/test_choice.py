"""The method that executes a scenario by default, and the messages about the choice."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from shared import ROOT, Weir
from weir import methods, scenario
from weir._duration import estimate_text
from weir.cli._capacity import show_capacities
from weir.cli._choice import Outlook
from weir.methods import MAX_S, Capacity, MethodError, Need, Prospect, choose, order
from weir.methods.lab import LabMethod

_SCENARIO = """\
title: Two flows
topology:
  dumbbell: {{pairs: 2, access: {{rate: 20Mbps}}, bottleneck: {{rate: 10Mbps, queue: 50ms}}, rtt: 10ms}}
transport: {{cc: "{cc}"}}
workload: [{{name: elephants, between: pairs, kind: bulk, until: {until}}}]
"""


def _given(**prospects: float | str) -> tuple[Callable[[str], Prospect], list[str]]:
    """Prospects by method, an obstacle or seconds each; and the list of the methods asked."""
    asked: list[str] = []

    def prospect(method: str) -> Prospect:
        asked.append(method)
        value = prospects[method]
        return Prospect(method, value) if isinstance(value, str) else Prospect(method, None, value)

    return prospect, asked


@pytest.mark.parametrize(
    ("prospects", "method", "reason"),
    [
        ({"lab": MAX_S, "sim": 1.0, "emul": 5.0}, "lab", "real Linux in virtual time"),
        ({"lab": MAX_S + 1, "sim": 1.0, "emul": 5.0}, "sim", "the lab would take about 61 s"),
        ({"lab": "not built", "sim": 4e4, "emul": 5.0}, "sim", "no lab: not built"),
        ({"lab": 4e4, "sim": "a program", "emul": 5.0}, "lab", "the simulator cannot: a program"),
        ({"lab": "not built", "sim": "a program", "emul": 5.0}, "emul", "this host's Linux in real time"),
    ],
)
def test_the_rules(prospects: dict[str, float | str], method: str, reason: str) -> None:
    choice = choose(_given(**prospects)[0])
    assert choice.method == method
    assert reason in choice.reason


def test_nothing_is_asked_of_a_method_that_the_rules_do_not_come_to() -> None:
    """emul's capacity is measured, as root: not for a plan that another method executes."""
    prospect, asked = _given(lab="not built", sim=1.0, emul=5.0)
    choose(prospect)
    assert asked == ["lab", "sim"]


def test_where_no_method_can_each_says_why() -> None:
    with pytest.raises(MethodError) as caught:
        choose(_given(lab="not built", sim="a program", emul="it needs root")[0])
    for reason in ("lab: not built", "sim: a program", "emul: it needs root"):
        assert reason in str(caught.value)


@pytest.mark.parametrize(("seconds", "text"), [(0.1, "1 s"), (61, "61 s"), (120, "2 min"), (9000, "2.5 h")])
def test_times_in_words(seconds: float, text: str) -> None:
    assert estimate_text(seconds) == text


class _Lab(LabMethod):
    """Replaces the lab: slow, or missing."""

    def __init__(self, missing: str | None, seconds: float = 0.0) -> None:
        self._missing, self._seconds = missing, seconds

    def available(self) -> str | None:
        return self._missing

    def obstacle(self, plan: Mapping[str, Any]) -> str | None:
        return None

    def foreseen_s(self, plan: Mapping[str, Any], packets: int) -> float:
        return self._seconds


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[[_Lab], None]:
    """Replaces this machine's lab."""
    real = methods.get

    def with_lab(lab: _Lab) -> None:
        monkeypatch.setattr(methods, "get", lambda name, on=None: lab if name == "lab" else real(name, on))

    return with_lab


_PROGRAMS = """\
title: A program
topology:
  dumbbell: {pairs: 1, access: {rate: 20Mbps}, bottleneck: {rate: 10Mbps, queue: 50ms}, rtt: 10ms}
transport: {cc: reno}
workload: [{name: p, kind: %s, until: 1s}]
duration: 1s
"""
_KINDS = {
    "command": "command, between: pairs, command: [touch, escaped], peer: [sleep, '9'], ready: {after: 100ms}",
    "iperf3": "iperf3, between: pairs",
}


class _Emul(_Lab):
    """Replaces a method on this machine, which would run programs as root."""

    name = "emul"
    clock = "real"

    def execute(self, plan: str, sink: Any, progress: Any) -> Any:
        raise AssertionError("nobody asked for it")


@pytest.mark.parametrize("kind", _KINDS)
def test_no_program_of_a_scenario_runs_unconfined_unless_that_is_asked_for(
    weir: Weir, here: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, others = methods.get, {"lab": _Lab("not built"), "emul": _Emul(None)}
    monkeypatch.setattr(methods, "get", lambda name, on=None: others.get(name) or real(name, on))
    Path("p.yaml").write_text(_PROGRAMS % _KINDS[kind])
    ran = weir("run", "p.yaml", "--no-report")
    assert ran.code == 1, ran.err
    assert "it would run the scenario's programs as root on this machine: ask for it, --method emul" in ran.err
    assert not Path("runs").exists()
    Path("p.yaml").write_text(_SCENARIO.format(cc="reno", until="1s"))
    assert Outlook(scenario.load("p.yaml").cells()).unasked("emul").obstacle is None  # there are no programs


def _write(here: Path, cc: str = "reno", until: str = "1s") -> None:
    (here / "two.yaml").write_text(_SCENARIO.format(cc=cc, until=until), encoding="utf-8")


def test_a_run_says_on_one_line_which_method_and_why(weir: Weir, here: Path, machine: Callable[[_Lab], None]) -> None:
    machine(_Lab("its kernel is not built"))
    _write(here)
    ran = weir("run", "two.yaml", "--no-report")
    assert ran.code == 0, ran
    assert ran.err == (
        "method sim: the packet-level simulator; no lab: its kernel is not built; about 1 s. --method chooses another\n"
    )
    assert json.loads((here / "runs/two/manifest.json").read_text())["method"] == "sim"


def test_a_run_goes_on_with_the_method_that_it_was_begun_with(
    weir: Weir, here: Path, machine: Callable[[_Lab], None]
) -> None:
    _write(here)
    assert weir("run", "two.yaml", "--method", "sim", "--no-report").code == 0
    machine(_Lab(None, seconds=1.0))  # would be chosen for a new run
    again = weir("run", "two.yaml", "--no-report")
    assert again.code == 0, again
    assert again.err == ""


def test_a_plan_shows_what_every_method_would_do(weir: Weir, here: Path, machine: Callable[[_Lab], None]) -> None:
    machine(_Lab(None, seconds=240.0))
    _write(here)
    out = weir("plan", "two.yaml").out
    table = {words[0]: line for line in out.splitlines() for words in [line.lstrip("* ").split()] if words}
    assert set(order()) <= set(table)
    assert "4 min" in table["lab"]
    assert [name for name in order() if table[name].startswith("*")] == ["sim"]
    assert "without --method: sim" in out


def test_what_the_simulator_lacks_is_told_where_nothing_else_can(
    weir: Weir, here: Path, machine: Callable[[_Lab], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(_Lab("its kernel is not built"))
    monkeypatch.setattr("weir.methods.emul.Emul.available", lambda self: "it needs root")
    _write(here, cc="linux:cubic")
    ran = weir("run", "two.yaml")
    assert ran.code != 0
    for reason in ("linux:cubic", "its kernel is not built", "it needs root"):
        assert reason in ran.err


def test_a_plan_compares_methods_where_the_simulator_cannot(
    weir: Weir, here: Path, machine: Callable[[_Lab], None]
) -> None:
    machine(_Lab(None, seconds=4.0))
    _write(here, cc="linux:westwood")
    ran = weir("plan", "two.yaml")
    assert ran.code == 0, ran
    table = {words[0]: line for line in ran.out.splitlines() for words in [line.lstrip("* ").split()] if words}
    assert "linux:westwood" in table["sim"]
    assert "without --method: lab" in ran.out
    assert "the time of 1 cell by method sim is unknown" in ran.out
    assert json.loads(weir("plan", "two.yaml", "--json").out)[0]["seconds"] is None
    named = weir("plan", "two.yaml", "--method", "sim")
    assert (named.code, named.out) == (2, "")
    assert "method 'sim' cannot execute this: flow elephants[0]: no congestion control is called" in named.err


def test_a_run_is_refused_before_it_begins_where_one_cell_cannot_be_executed(weir: Weir, here: Path) -> None:
    _write(here)
    file = here / "two.yaml"
    file.write_text(f"{file.read_text()}sweep: {{transport.cc: [reno, linux:reno], transport.sack: [true, false]}}\n")
    ran = weir("run", "two.yaml", "--method", "sim")
    assert ran.code == 2
    assert "method 'sim' cannot execute cell 0002-r0 (cc = linux:reno, sack = true): " in ran.err
    assert not (here / "runs").exists()


def test_a_typo_in_a_name_of_the_kernels_is_told_before_a_method_is_chosen(weir: Weir, here: Path) -> None:
    _write(here, cc="linux:westwod")
    for command in ("check", "plan", "run"):
        ran = weir(command, "two.yaml")
        assert ran.code == 2
        assert "did you mean `linux:westwood`?" in ran.out + ran.err
    assert not (here / "runs").exists()


def test_whether_a_kernel_takes_a_control_of_ones_own_is_no_promise(
    weir: Weir, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(ROOT / "examples/my_cc/my_cc.c", here / "mine.c")
    _write(here, cc="./mine.c")
    for name in ("available", "obstacle"):
        monkeypatch.setattr(f"weir.methods.emul.Emul.{name}", lambda *_: None)
    (line,) = [line for line in weir("plan", "two.yaml").out.splitlines() if line.split()[:1] == ["emul"]]
    assert line.endswith("not tried: whether this kernel takes ./mine.c as BPF (`weir cc build --bpf`)")
    _write(here, cc="reno")
    (line,) = [line for line in weir("plan", "two.yaml").out.splitlines() if line.split()[:1] == ["emul"]]
    assert line.endswith("can execute it here")


def test_the_capacity_of_this_machine_names_each_unit_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(here)
    needs = (
        Need("packets a second", 488, 87e3, "1/s"),
        Need("processors", 0.006, 1.6, ""),
        Need("memory", 6e6, 1e9, "B"),
    )
    assert show_capacities(scenario.load("two.yaml").cells()[:1], [Capacity(needs, "measured here")], as_json=False)
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("this machine: ")]
    assert shown == [
        "this machine: 87k packets a second",
        "this machine: 1.6 processors",
        "this machine: 1GB memory",
    ]


def test_several_methods_are_all_asked_before_the_first_executes(weir: Weir, here: Path) -> None:
    text = _SCENARIO.format(cc="reno", until="1s").replace(
        "kind: bulk", "kind: bulk, transport: {initial_ssthresh: 10}"
    )
    (here / "s.yaml").write_text(text)
    done = weir("run", "s.yaml", "--method", "sim,emul")
    assert done.code == 2
    assert "emul" in done.err
    assert not (here / "runs").exists(), "the simulator, which has thresholds, did not begin"
