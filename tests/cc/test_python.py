"""Congestion controls in Python: what they do, what they are told, and what is said of their mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from cc_support import ROOT

import weir as package
from shared import Weir, dumbbell
from weir import cc, control
from weir.methods import get
from weir.scenario import load

AIMD = ROOT / "examples" / "my_cc" / "my_cc.py"

CONSTANT = """
from weir.control import Answer

class Control:
    OPTIONS = {"window": (30, 1, 1000, "packets")}

    def __init__(self, flow):
        self.window = flow.options["window"]

    def report(self, report):
        return Answer(window_packets=self.window)
"""


def write(folder: Path, body: str = "return None", *, init: str = "pass", top: str = "", more: str = "") -> Path:
    """A control whose method `report` has ``body``, in line 8 if nothing else is given."""
    path = folder / "mine.py"
    lines = [
        *(f"from weir.control import Answer; import math{top}", "", "class Control:", *([more] if more else [])),
        *("    def __init__(self, flow):", f"        {init}", "", "    def report(self, report):", f"        {body}"),
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def scenario(folder: Path, control: str = "./mine.py", *more: str) -> Path:
    path = folder / "s.yaml"
    path.write_text(dumbbell(transport=f"cc: {control}", more="".join(more)))
    return path


def tables(run: Any, cell: int = 0) -> dict[str, pl.DataFrame]:
    """The tables of a cell that do not name its control."""
    return {name: run.cells[cell].table(name).collect() for name in ("goodput", "samples", "links", "events")}


def goodput(run: Any) -> dict[str, float]:
    frame = run.metrics("goodput.aggregate.mean")
    return dict(zip(frame["cc"].cast(pl.String), frame["value"], strict=True))


def test_a_constant_window_leaves_the_tables_of_the_control_in_c(here: Path) -> None:
    (here / "mine.py").write_text(CONSTANT)
    sweep = "sweep: {transport.cc: [{name: constant, window: 15}, {name: ./mine.py, window: 15}]}\n"
    run = package.execute(scenario(here, "reno", sweep), here / "run", method="sim")
    native, python = tables(run, 0), tables(run, 1)
    assert native["samples"].height > 20
    assert native["goodput"]["delivered_bytes"].sum() > 100_000
    for name, table in native.items():
        assert table.equals(python[name]), name


def test_once_a_round_trip_it_is_as_good_as_reno(here: Path) -> None:
    (here / "mine.py").write_text(AIMD.read_text())
    text = """
        title: One flow
        seed: 1
        topology:
          dumbbell:
            pairs: 1
            access: {rate: 100Mbps}
            bottleneck: {rate: 10Mbps, queue: 0.5bdp}
            rtt: 60ms
        transport: {cc: reno, ack: every}
        workload:
          - {name: flow, between: pairs, kind: bulk, until: 60s}
        sweep: {transport.cc: [reno, ./mine.py]}
    """
    (here / "s.yaml").write_text("\n".join(line[8:] for line in text.splitlines()))
    run = package.execute(here / "s.yaml", here / "run", method="sim")
    found = goodput(run)
    assert found["./mine.py"] == pytest.approx(found["reno"], rel=0.05)
    window = run.metrics("cwnd.mean")
    assert window["value"][1] == pytest.approx(window["value"][0], rel=0.1)


def test_the_same_seed_leaves_the_same_tables_whatever_the_number_of_workers(here: Path) -> None:
    write(here, "self.w = self.random.uniform(5, 40); return Answer(window_packets=self.w)",
          init="self.random = random.Random(flow.seed)", top=", random")  # fmt: skip
    file = scenario(here, "./mine.py", "sweep: {topology.dumbbell.rtt: [10ms, 20ms]}\nrepeat: 2\n")
    runs = [package.execute(file, here / f"run{workers}", method="sim", workers=workers) for workers in (1, 2)]
    assert len(runs[0].cells) == 4
    for cell in range(4):
        for name, table in tables(runs[0], cell).items():
            assert table.equals(tables(runs[1], cell)[name]), (cell, name)
    first, second = (tables(runs[0], cell)["samples"]["cwnd"].to_list() for cell in (0, 1))
    assert first != second, "another repeat has another seed"


CHECKED = """
from weir.control import Answer

class Control:
    def __init__(self, flow):
        self.acked, self.time, self.is_trial = 0, 0, flow.name == "trial"

    def report(self, report):
        if self.is_trial:
            return None
        self.acked += report.acked_bytes
        assert report.first == (report.interval_s == 0)
        assert report.acked_bytes == report.acked_packets * report.packet_bytes
        assert report.first or abs(report.delivery_bps * report.interval_s / 8 - report.acked_bytes) < 2
        assert report.first or abs(report.send_bps * report.interval_s / 8 - report.sent_bytes) < 2
        assert report.first or abs(report.time_s - self.time - report.interval_s) < 1e-9
        assert report.rtt_s is None or 0.02 <= report.rtt_min_s <= report.rtt_mean_s + 1e-6 < 0.2
        assert 0 <= report.in_flight_packets <= 1000
        assert report.time_s < 2 or self.acked > 300_000
        self.time = report.time_s
        return Answer(window_packets=12)
"""


def test_a_report_adds_up(here: Path) -> None:
    (here / "mine.py").write_text(CHECKED)
    run = package.execute(scenario(here), here / "run", method="sim")
    assert run.complete
    assert run.cells[0].table("samples").collect()["cwnd"].max() == 12


@pytest.mark.parametrize(
    ("body", "init", "said"),
    [
        ("return Answer(window_packets=math.nan)", "pass", "mine.py:7: the answer of Control.report: window_packets"),
        ("return Answer(window_packets=-3)", "pass", "window_packets is -3.0; expected a number from 1 to"),
        ("return Answer(pacing_bps=math.inf)", "pass", "pacing_bps is inf; expected"),
        ("return Answer(window_packets='12')", "pass", "window_packets is '12'; expected"),
        ("return 12", "pass", "mine.py:7: the answer of Control.report: it returned 12; expected weir.control.Answer"),
        ("return 1 / 0", "pass", "mine.py:8: Control.report raised ZeroDivisionError: division by zero"),
        ("return None", "raise KeyError('x')", "mine.py:5: Control.__init__ raised KeyError: 'x'"),
        ("return None", "self.interval = -1", "interval is -1; expected 'rtt' for once a round trip, or seconds"),
    ],
)  # fmt: skip
def test_a_mistake_is_found_in_the_trial_and_told_with_its_line(
    here: Path, weir: Weir, body: str, init: str, said: str
) -> None:
    write(here, body, init=init)
    scenario(here)
    ran = weir("check", "s.yaml")
    assert ran.code == 2
    assert said in ran.out, ran
    assert "s.yaml:10:17" in ran.out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\nclass Contrl:\n    pass\n", "there is no class `Control`; it has `Contrl` (line 2); expected"),
        ("class Control:\n    def __init__(self, flow): pass\n", "mine.py:1: class `Control` has no `report(self, "),
        ("class Control:\n    def report(self, report): pass\n", "mine.py:1: class `Control` has no `__init__(self, "),
        (
            "class Control:\n    def __init__(self, flow): pass\n    def report(self): pass\n",
            "mine.py:3: `Control.report(self)`; expected `report(self, report)`",
        ),
        ("class Control\n", "mine.py:1: it is no Python"),
        ("import nowhere_to_be_found\n", "mine.py:1: it raised ModuleNotFoundError"),
        ("class Control:\n    OPTIONS = {'gain': 3}\n    def __init__(self, f): pass\n    def report(self, r): pass\n",
         "mine.py:1: Control.OPTIONS['gain'] is 3; expected"),
    ],
)  # fmt: skip
def test_what_is_no_control_is_told_with_its_line(here: Path, weir: Weir, text: str, said: str) -> None:
    (here / "mine.py").write_text(text)
    scenario(here)
    ran = weir("check", "s.yaml")
    assert ran.code == 2
    assert said in ran.out, ran


def test_an_exception_during_the_run_fails_the_cell_with_the_traceback(here: Path, weir: Weir) -> None:
    write(
        here,
        "return self.later(report)",
        more="    def later(self, report):\n        return [][3] if report.srtt_s != 0.02 else None",
    )
    scenario(here, "./mine.py", "sweep: {transport.cc: [reno, ./mine.py]}\n")
    ran = weir("run", "s.yaml", "--method", "sim", "--no-report")
    assert ran.code == 1
    text = ran.out + ran.err
    assert "mine.py:5: Control.report raised IndexError: list index out of range" in text
    assert "in later" in text
    assert "flow flows[0]" in text


@pytest.mark.parametrize("begin", ["jump_start: true", "quick_start: 20Mbps"])
def test_a_beginning_that_sets_the_first_window_is_refused_as_with_bbr(here: Path, weir: Weir, begin: str) -> None:
    """It was refused in the run only, as `cc: asked`."""
    write(here, "return None")
    scenario(here, "./mine.py")
    text = (here / "s.yaml").read_text()
    (here / "s.yaml").write_text(text.replace("transport: {", f"transport: {{{begin}, "))
    assert "transport: {" + begin in (here / "s.yaml").read_text()
    ran = weir("check", "s.yaml")
    assert ran.code == 2
    said = f"`{begin.partition(':')[0]}` sets the first window, and `./mine.py` sets window and rate by itself"
    assert said in " ".join((ran.out + ran.err).split())


def test_an_endless_loop_is_ended(here: Path, weir: Weir) -> None:
    write(here, "\n        while report.srtt_s != 0.02 and not report.first: pass")
    scenario(here)
    ran = weir("run", "s.yaml", "--method", "sim", "--no-report")
    assert ran.code == 1
    assert "report of ./mine.py does not return: a loop without an end?" in ran.out + ran.err


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (
            "\n        while True: pass",
            "report of ./mine.py does not return: a loop without an end, at line LINE?",
        ),
        # No signal handler of Python runs in a loop of C; the kernel ends the process.
        (
            "sum(iter(int, 1))",
            "ended with signal 9 before it was described. It may take 10 s of processor time and 4 GiB of memory.",
        ),
    ],
    ids=["in Python", "in C"],
)
def test_an_endless_loop_in_the_trial_is_told(here: Path, weir: Weir, report: str, said: str) -> None:
    write(here, report)
    line = next(n for n, text in enumerate((here / "mine.py").read_text().splitlines(), 1) if report.strip() in text)
    scenario(here)
    ran = weir("check", "s.yaml")
    assert ran.code == 2
    assert said.replace("LINE", str(line)) in " ".join((ran.out + ran.err).split())


def test_a_call_that_sleeps_is_ended(here: Path, weir: Weir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weir.cc._watch.CALL_WALL_S", 2.0)
    write(here, "\n        if report.srtt_s != 0.02 and not report.first: __import__('time').sleep(3600)")
    scenario(here)
    ran = weir("run", "s.yaml", "--method", "sim", "--no-report")
    assert ran.code == 1
    said = "report of ./mine.py does not return: it has taken 2 s, but less than 2 s of processor time"
    assert said in " ".join((ran.out + ran.err).split())


def test_options_are_those_of_the_class(here: Path, weir: Weir) -> None:
    (here / "mine.py").write_text(CONSTANT)
    scenario(here, "{name: ./mine.py, window: 2000}")
    assert "`window` of `./mine.py` is 1 to 1000, not 2000" in weir("check", "s.yaml").out
    scenario(here, "{name: ./mine.py, widow: 20}")
    assert "`widow` is not an option of `./mine.py`; did you mean `window`?" in weir("check", "s.yaml").out
    scenario(here, "./mine.py", "sweep: {transport.cc: [{name: ./mine.py, window: 2}, {name: ./mine.py, window: 8}]}\n")
    found = list(goodput(package.execute("s.yaml", here / "run", method="sim")).values())
    assert found[1] > 2 * found[0]
    assert "packets" in weir("cc", "list", "./mine.py").out


@pytest.mark.parametrize("method", ["lab", "emul"])
def test_other_methods_refuse_it(here: Path, method: str) -> None:
    write(here)
    plan = load(scenario(here)).cells()[0].plan()
    assert get("sim").obstacle(plan) is None  # type: ignore[attr-defined]
    assert "in Python runs in the simulator only" in str(get(method).obstacle(plan))  # type: ignore[attr-defined]


def test_the_files_beside_it_belong_to_it(here: Path, weir: Weir) -> None:
    write(here, "return Answer(window_packets=load())", top="; from helper import load")
    (here / "helper.py").write_text(
        "import pathlib, json\n"
        "def load(): return json.loads(pathlib.Path(__file__).with_name('policy.json').read_text())\n"
    )
    (here / "policy.json").write_text("2")
    (here / "notes.txt").write_text("nobody names this")
    assert [path.name for path in control.files(here / "mine.py")] == ["mine.py", "helper.py", "policy.json"]
    scenario(here)
    first = package.execute("s.yaml", "run", method="sim").metrics("goodput.aggregate.mean")["value"][0]
    assert "0 cells executed" in weir("run", "s.yaml", "--method", "sim", "--no-report", "-o", "run").out
    before = cc.identity("./mine.py")
    (here / "policy.json").write_text("12")
    assert cc.identity("./mine.py") != before
    assert "1 cell executed" in weir("run", "s.yaml", "--method", "sim", "--no-report", "-o", "run").out
    assert package.open(here / "run").metrics("goodput.aggregate.mean")["value"][0] > 1.5 * first
    assert not list(here.rglob("__pycache__"))


def test_a_link_beside_it_opens_nothing(here: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    secret = tmp_path_factory.mktemp("secret") / "key"
    secret.write_text("x")
    write(here, "return None", top="; K = 'key'")
    (here / "key").symlink_to(secret)
    assert [path.name for path in control.files(here / "mine.py")] == ["mine.py"]


def test_it_is_confined(here: Path, weir: Weir) -> None:
    write(here, "return None", top=f"; open({str(here / 'written')!r}, 'w')")
    scenario(here)
    ran = weir("check", "s.yaml")
    assert ran.code == 2
    assert "PermissionError" in ran.out
    assert not (here / "written").exists()


def test_the_manifest_says_which_source_it_was(here: Path) -> None:
    write(here)
    scenario(here)
    run = package.execute("s.yaml", here / "run", method="sim")
    manifest = json.loads(next((here / "run" / "cells").glob("*/manifest.json")).read_text())
    assert manifest["controls"] == {"./mine.py": cc.identity(str(here / "mine.py"))}
    assert run.complete


def test_its_title_is_its_first_sentence_without_the_full_stop(tmp_path: Path) -> None:
    path = write(tmp_path, more='    """AIMD of mine.\n\n    More of it.\n    """')
    assert cc.control(str(path)).about.title == "AIMD of mine"
