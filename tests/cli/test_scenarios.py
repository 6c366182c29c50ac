"""Scenarios through the command line: check, plan, run, show, report, and failures."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from shared import ROOT, Weir, argv, dumbbell, environment
from weir import _weir

SCENARIO = dumbbell(
    """\
sweep:
  transport.cc: [reno, cubic]
expect:
  - {claim: The path is used, check: goodput.aggregate.mean >= MIN}
quick:
  workload[0].until: 1s
""",
    title="TITLE",
    access="rate: 20Mbps",
    bottleneck="rate: 10Mbps, queue: {droptail: {size: 50ms}}",
    rtt="10ms",
    workload="name: elephants, between: pairs, kind: bulk, until: 2s",
    measure="goodput: 100ms, tcp: 100ms, links: 100ms",
)


def write(folder: Path, *, title: str = "Two flows", least: str = "5Mbps", name: str = "two.yaml") -> Path:
    path = folder / name
    path.write_text(SCENARIO.replace("TITLE", title).replace("MIN", least), encoding="utf-8")
    return path


def test_a_run_ends_with_verdicts_the_report_and_0(weir: Weir, here: Path) -> None:
    write(here)
    ran = weir("run", "two.yaml", "--method", "sim")
    assert ran.code == 0, ran
    lines = ran.out.splitlines()
    assert lines[0].startswith("holds      The path is used")
    assert "1 of 1 claim holds" in lines
    assert lines[-2].startswith("2 cells executed in ")
    assert lines[-1] == "report: runs/two/report.html"
    assert (here / "runs/two/report.html").stat().st_size > 10_000
    assert ran.err == ""
    again = weir("run", "two.yaml", "--method", "sim")
    assert again.code == 0
    assert ", 2 kept from before: runs/two" in again.out


def test_a_claim_that_fails_gives_1_unless_told_otherwise(weir: Weir, here: Path) -> None:
    write(here, least="11Mbps")
    ran = weir("run", "two.yaml", "--method", "sim")
    assert ran.code == 1
    assert ran.out.startswith("FAILS      The path is used\n")
    assert "goodput.aggregate.mean >= 11Mbps" in ran.out
    assert "against 11 Mbps" in ran.out
    assert weir("run", "two.yaml", "--method", "sim", "--no-verdict").code == 0


CHANCE = dumbbell(
    """\
repeat: 2
expect:
  - {claim: The first is faster, check: "goodput.mean(flows[0]) > goodput.mean(flows[1])"}
""",
    bottleneck="rate: 5Mbps, queue: 30packets, loss: 1%",
)


def test_repeats_that_leave_a_claim_undecided_give_0_or_with_strict_1(weir: Weir, here: Path) -> None:
    """Two repeats of two equal flows with random losses: t(1) = 12.7 times their spread includes any difference."""
    (here / "chance.yaml").write_text(CHANCE, encoding="utf-8")
    ran = weir("run", "chance.yaml", "--method", "sim", "--no-report")
    assert ran.code == 0, ran
    assert ran.out.startswith("undecided  The first is faster\n")
    assert "95 % interval of the margin" in ran.out
    assert "0 of 1 claim holds, 1 undecided: more repeats would narrow the intervals" in ran.out
    assert weir("run", "chance.yaml", "--method", "sim", "--no-report", "--strict").code == 1
    told = weir("run", "chance.yaml", "--method", "sim", "--no-report", "--json", "--confidence", "90%").json
    verdict = told["verdicts"][0]
    assert (verdict["outcome"], verdict["within_chance"], verdict["level"]) == ("undecided", True, 0.9)
    refused = weir("run", "chance.yaml", "--method", "sim", "--confidence", "90")
    assert refused.code == 2
    assert "expected a share of at least 50%" in refused.err


def test_show_takes_expressions_and_tells_figures_that_do_not_vary(weir: Weir, here: Path) -> None:
    (here / "chance.yaml").write_text(CHANCE, encoding="utf-8")
    assert weir("run", "chance.yaml", "--method", "sim", "--no-report").code == 0
    ran = weir("show", "runs/chance", "-m", "1GB / goodput.aggregate", "-m", "jain", "-m", "timeouts < 0")
    assert ran.code == 0, ran
    head, _, names, values, _, legend = ran.out.splitlines()[:6]
    assert head == "Tiny: 1 cell with 2 repeats each"
    assert re.split(r" {2,}", names) == ["1GB / goodput.aggregate", "jain", "timeouts < 0"]
    assert values.rstrip().endswith("fails")
    assert legend.startswith("± or [from to]: 95 % interval of the mean over repeats")
    (row,) = weir("show", "runs/chance", "-m", "1GB / goodput.aggregate", "--json").json["metrics"]
    assert (row["unit"], row["n"]) == ("s", 2)
    assert 1600 < row["value"] < 2500
    refused = weir("show", "runs/chance", "-m", "goodput + 1s")
    assert (refused.code, refused.err) == (
        2,
        "weir: 'goodput + 1s', column 11: 'goodput' is in bit/s but '1s' is in seconds; expected bit/s\n",
    )
    assert weir("show", "runs/chance", "-m", "goodput.distribution").code == 2


TWO_QUEUES = """\
title: A queue without classes, and one with
topology:
  dumbbell: {pairs: 2, access: {rate: 100Mbps}, bottleneck: {rate: 20Mbps, queue: 1bdp}, rtt: 40ms}
transport: {cc: cubic}
workload: [{name: flows, kind: bulk, between: pairs, until: 1s}]
measure: {links: 100ms}
sweep:
  topology.dumbbell.bottleneck.queue:
    fifo: 1bdp
    drr: {drr: {classes: {gold: {flows: "flows[0]", quantum: 3kB, queue: 1bdp}, rest: {quantum: 3kB, queue: 1bdp}}}}
"""


def test_show_leaves_out_what_some_cells_do_not_have(weir: Weir, here: Path) -> None:
    (here / "two.yaml").write_text(TWO_QUEUES, encoding="utf-8")
    assert weir("run", "two.yaml", "--method", "sim", "--no-report").code == 0
    ran = weir("show", "runs/two", "-m", "class.share[class: rest]")
    assert ran.code == 0, ran
    values = dict(re.findall(r"^(fifo|drr) +(\S+)", ran.out, re.MULTILINE))
    assert values["fifo"] == "-"
    assert float(values["drr"]) > 0.4
    assert weir("show", "runs/two", "-m", "class.share[class: none]").code == 2


def test_repeats_of_a_plan_without_randomness_are_told(weir: Weir, here: Path) -> None:
    """Without random losses, with exact clocks and immediate answers, every seed gives the same."""
    text = dumbbell("repeat: 2\n", access="rate: 100Mbps", transport="cc: reno, processing: 0s")
    (here / "fixed.yaml").write_text(text, encoding="utf-8")
    assert weir("run", "fixed.yaml", "--method", "sim", "--no-report").code == 0
    ran = weir("show", "runs/fixed")
    assert "all repeats are identical, byte for byte: nothing in this plan is random, and they count as one" in ran.out
    assert "± 0" not in ran.out
    assert "=: the same in all repeats" in ran.out
    assert weir("show", "runs/fixed", "--json").json["identical_repeats"] is True
    assert weir("report", "runs/fixed").code == 0
    assert "All 2 repeats are identical, byte for byte" in (here / "runs/fixed/report.html").read_text()
    (here / "chance.yaml").write_text(CHANCE, encoding="utf-8")
    assert weir("run", "chance.yaml", "--method", "sim", "--no-report").code == 0
    assert weir("show", "runs/chance", "--json").json["identical_repeats"] is False


def test_a_claim_without_a_value_gives_1(weir: Weir, here: Path) -> None:
    """A flow that never reaches a rate: the time it would need is unknown."""
    text = CHANCE.replace("goodput.mean(flows[0]) > goodput.mean(flows[1])", "goodput.reach[rate: 50Mbps] > 50s")
    (here / "none.yaml").write_text(text, encoding="utf-8")
    ran = weir("run", "none.yaml", "--method", "sim", "--no-report")
    assert ran.code == 1, ran
    assert "0 of 1 claim holds, 1 cannot be judged on this run" in ran.out


def test_json_of_a_run(weir: Weir, here: Path) -> None:
    write(here, least="11Mbps")
    ran = weir("run", "two.yaml", "--method", "sim", "--json", "--no-report")
    assert ran.code == 1
    told = json.loads(ran.out)
    assert (told["cells"], told["executed"], told["failures"], told["report"]) == (2, 2, [], None)
    assert [v["outcome"] for v in told["verdicts"]] == ["fails"]
    assert not (here / "runs/two/report.html").exists()


def test_quick_and_set_make_runs_of_their_own(weir: Weir, here: Path) -> None:
    write(here)
    assert weir("run", "two.yaml", "--method", "sim", "--quick", "--no-report").code == 0
    plan = json.loads((here / "runs/two-quick/cells/0000-r0/plan.json").read_text())
    assert plan["end_ns"] == 1_000_000_000
    refused = weir("run", "two.yaml", "--method", "sim", "--quick", "--set", "topology.dumbbell.rtt=20ms")
    assert refused.code == 2
    said = "with other settings (--quick instead of --quick --set topology.dumbbell.rtt=20ms)"
    assert f"runs/two-quick holds another run: {said}" in refused.err
    assert "--fresh" in refused.err
    replaced = weir(
        "run", "two.yaml", "--method", "sim", "--quick", "--set", "topology.dumbbell.rtt=20ms", "--fresh", "--no-report"
    )
    assert replaced.code == 0
    assert json.loads((here / "runs/two-quick/manifest.json").read_text())["settings"] == {
        "quick": True,
        "set": {"topology.dumbbell.rtt": "20ms"},
    }


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("transport.cc", "'transport.cc' is not path=value"),
        ("=x", "'=x' is not path=value"),
        ("transport.ccc=reno", "transport.ccc"),
    ],
)
def test_a_bad_set_is_refused(weir: Weir, here: Path, word: str, said: str) -> None:
    write(here)
    ran = weir("run", "two.yaml", "--method", "sim", "--set", word)
    assert ran.code == 2
    assert said in ran.err
    assert not (here / "runs").exists()


def test_a_bad_scenario_lists_every_problem_with_its_place(weir: Weir, here: Path) -> None:
    path = write(here)
    path.write_text(path.read_text().replace("10ms", "10mz").replace("kind: bulk", "kind: bukl"))
    for command in ("check", "run", "plan"):
        ran = weir(command, "two.yaml")
        assert ran.code == 2, command
        told = ran.out + ran.err
        assert "two.yaml:9:10: " in told
        assert "two.yaml:12:" in told
        assert "Traceback" not in told
    problems = json.loads(weir("check", "two.yaml", "--json").out)
    assert {"file", "line", "column", "message", "severity"} == problems[0].keys()
    assert not (here / "runs").exists()


def test_check_is_content_with_a_good_scenario(weir: Weir, here: Path) -> None:
    write(here)
    ran = weir("check", "two.yaml")
    assert (ran.code, ran.out) == (0, "1 scenario: no errors\n")
    assert weir("check", "two.yaml", "-q").out == ""


def test_what_no_method_can_execute_is_an_error_of_check(weir: Weir, here: Path) -> None:
    path = write(here)
    text = path.read_text(encoding="utf-8").replace("[reno, cubic]", "[reno, xcp]")
    (here / "bad.yaml").write_text(text, encoding="utf-8")
    checked = weir("check", "bad.yaml", "-q")
    assert checked.code == 2, checked
    (line,) = checked.out.splitlines()
    assert line.startswith(
        "bad.yaml:1:1: cc = xcp: no method can execute this: sim: flow elephants[0]: cc: xcp does what "
    )
    assert "lab, emul: cc: xcp: routers tell it what to do, by a header that no kernel has" in line


def test_what_no_kernel_has_is_refused_before_the_run(weir: Weir, here: Path) -> None:
    path = write(here)
    text = path.read_text(encoding="utf-8").replace("\ntransport: {", "\ntransport: {jump_start: true, ")
    path.write_text(text, encoding="utf-8")
    ran = weir("run", "two.yaml", "--method", "emul")
    assert ran.code == 2, ran
    assert "jump_start (elephants[0], elephants[1]): no kernel has Jump Start" in ran.err
    assert not (here / "runs/two").exists()


def test_plan_shows_cells_and_prints_valid_plans(weir: Weir, here: Path) -> None:
    write(here)
    ran = weir("plan", "two.yaml")
    header, first = ran.out.splitlines()[:2]
    assert header.split() == ["cell", "cc", "flows", "simulated", "packets", "time", "memory"]
    assert first.split()[:4] == ["0000-r0", "reno", "2", "2"]
    _weir.check_plan(weir("plan", "two.yaml", "--cell", "0001-r0").out)
    assert "no cell '7'; there are 0000-r0, 0001-r0" in weir("plan", "two.yaml", "--cell", "7").err
    assert [cell["factors"] for cell in json.loads(weir("plan", "two.yaml", "--json").out)] == [
        {"cc": "reno"},
        {"cc": "cubic"},
    ]


def test_show_and_report_of_a_run(weir: Weir, here: Path) -> None:
    write(here)
    weir("run", "two.yaml", "--method", "sim", "--no-report")
    ran = weir("show", "runs/two")
    assert ran.code == 0
    assert ran.out.startswith("Two flows: 2 cells\n")
    assert [line.split()[0] for line in ran.out.splitlines()[2:5]] == ["cc", "reno", "cubic"]
    assert "holds      The path is used" in ran.out
    assert weir("show", "runs/two", "-m", "jian").code == 2
    told = json.loads(weir("show", "runs/two", "-m", "jain", "--json").out)
    assert [row["metric"] for row in told["metrics"]] == ["jain", "jain"]
    assert told["complete"] is True
    assert weir("report", "runs/two").out == "report: runs/two/report.html\n"
    assert weir("report", "runs/two", "--out", "elsewhere").out == "report: elsewhere/report.html\n"


def test_a_cell_that_fails_gives_1_and_is_named(weir: Weir, here: Path) -> None:
    write(here, title="refuse")
    ran = weir("run", "two.yaml", "--method", "fake:Fake")
    assert ran.code == 1
    # Once, when it happens, whatever else is printed.
    for option in ("--fresh", "-q", "-v"):
        again = weir("run", "two.yaml", "--method", "fake:Fake", option)
        said = "cell 0000-r0 (cc = reno) failed: flows[0]: no such congestion control"
        assert (again.out + again.err).count(said) == 1, option
    assert "warning" not in ran.out
    assert ", 2 failed: runs/two\n" in ran.out
    assert "Traceback" not in ran.out + ran.err
    shown = weir("show", "runs/two")
    assert shown.code == 2
    assert "all failed; the first: 0000-r0: failed: flows[0]: no such congestion control" in shown.err


def test_a_defect_in_a_cell_shows_its_trace_to_who_asks(weir: Weir, here: Path) -> None:
    write(here, title="bug")
    assert "Traceback" not in weir("run", "two.yaml", "--method", "fake:Fake").out
    assert "ZeroDivisionError: a defect" in weir("run", "two.yaml", "--method", "fake:Fake", "-vv").out


def test_unknown_methods_give_2_and_unavailable_ones_1(weir: Weir, here: Path) -> None:
    write(here)
    assert weir("run", "two.yaml", "--method", "lab2").code == 2
    ran = weir("run", "two.yaml", "--method", "fake:Unavailable")
    assert ran.code == 1
    assert "cannot run here: there is no moon" in ran.err


def test_ctrl_c_says_how_to_go_on_and_the_same_command_does(here: Path) -> None:
    write(here, title="token=token")
    (here / "token").touch()  # lets the first cell finish; the second one waits for another
    options = ("--method", "fake:Fake", "--workers", "1", "--no-report")
    run, env = argv("run", "two.yaml", *options), environment(ROOT / "tests/engine")
    process = subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    deadline = time.monotonic() + 300  # only against a hang: no result depends on the machine's speed
    while not list(here.glob("runs/two/.partial/0001-r0-*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "interrupted; 1 of 2 cells were finished and are kept. Run the same command again to continue" in errors
    assert not list(here.glob("runs/two/.partial/*"))
    (here / "token").touch()
    done = subprocess.run([*run, "--no-verdict"], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    assert "1 cell executed" in done.stdout
    assert "1 kept from before" in done.stdout


def test_verbosity(weir: Weir, here: Path) -> None:
    write(here)
    quiet = weir("run", "two.yaml", "--method", "sim", "--no-report", "-q")
    assert quiet.err == ""
    verbose = weir("run", "two.yaml", "--method", "sim", "--no-report", "--fresh", "-v")
    assert "0000-r0: done in " in verbose.err


def test_figures_are_written_where_asked(weir: Weir, here: Path) -> None:
    write(here)
    weir("run", "two.yaml", "--method", "sim", "--no-report")
    ran = weir("report", "runs/two", "--figures", "--only", "goodput-total", "-v")
    assert ran.code == 0, ran
    files = [line.strip() for line in ran.out.splitlines() if line.startswith("  ")]
    assert {Path(file).suffix for file in files} == {".svg", ".pdf", ".csv"}
    assert all((here / file).stat().st_size > 0 for file in files)
    assert weir("report", "runs/two", "--figures", "--only", "no-such-chart").code == 2


def test_figures_have_the_size_and_the_formats_that_the_command_line_asks_for(weir: Weir, here: Path) -> None:
    write(here)
    weir("run", "two.yaml", "--method", "sim", "--no-report")
    made = ("report", "runs/two", "--figures", "--only", "cwnd", "--format", "svg,png", "--width", "120mm", "-v")
    ran = weir(*made)
    assert ran.code == 0, ran
    files = [here / line.strip() for line in ran.out.splitlines() if line.startswith("  ")]
    assert {file.suffix for file in files} == {".svg", ".png"}
    widths = [re.search(r'<svg [^>]*?width="([\d.]+)"', file.read_text()) for file in files if file.suffix == ".svg"]
    assert widths
    assert all(found is not None and abs(float(found[1]) - 120 / 25.4 * 72) <= 3 for found in widths)
    for wrong in (("--width", "120"), ("--height", "1mm"), ("--format", "gif")):
        assert weir("report", "runs/two", "--figures", *wrong).code == 2, wrong
    assert weir("report", "runs/two", "--width", "120mm").code == 2


def test_a_claim_about_a_value_left_out_is_left_out_too(weir: Weir, here: Path) -> None:
    path = write(here)
    claims = [f"  - {{claim: About {cc}, where: {{cc: {cc}}}, check: jain >= 0}}\n" for cc in ("reno", "cubic")]
    path.write_text(path.read_text().replace("quick:\n", "".join(claims) + "quick:\n  sweep.transport.cc: [cubic]\n"))
    ran = weir("run", "two.yaml", "--method", "sim", "--quick", "--no-report")
    assert ran.code == 0, ran
    assert "About cubic" in ran.out
    assert "About reno" not in ran.out
    assert "About reno" in weir("run", "two.yaml", "--method", "sim", "--set", "transport.cc=reno", "--no-report").out
    path.write_text(path.read_text().replace("{cc: cubic}", "{cc: cubik}"))
    assert "`cubik` is not a value of `cc` in the sweep; did you mean `cubic`?" in weir("check", "two.yaml").out


def test_rows_of_a_zip_are_shown_by_their_names(weir: Weir, here: Path) -> None:
    path = write(here)
    rows = """sweep:
  transport.cc: [reno, cubic]
  zip:
    - {case: near, topology.dumbbell.rtt: 5ms, topology.dumbbell.bottleneck.loss: {list: [3, 5, 8]}}
    - {case: far, topology.dumbbell.rtt: 9ms, topology.dumbbell.bottleneck.loss: {list: [4]}}
"""
    path.write_text(path.read_text().replace("sweep:\n  transport.cc: [reno, cubic]\n", rows), encoding="utf-8")
    assert weir("run", "two.yaml", "--quick", "--method", "sim", "--no-report").code == 0
    shown = weir("show", "runs/two-quick", "-m", "goodput.mean", "-m", "1Mbit / goodput.mean").out
    heads = [line.split()[:3] for line in shown.splitlines() if line.startswith("cc ")]
    assert heads[0] == ["cc", "case", "goodput.mean"]
    assert all(head[1] == "case" for head in heads)
    assert "{list" not in shown.partition("holds")[0]  # the verdicts name all factors of their cell
    rows_ = json.loads(weir("show", "runs/two-quick", "-m", "goodput.mean", "--json").out)["metrics"]
    assert {row["rtt"] for row in rows_} == {"5ms", "9ms"}


def test_each_entry_under_test_has_a_goodput_of_its_own(here: Path, weir: Weir) -> None:
    """One column had the mean over a backup and a download."""
    text = dumbbell(workload="name: long, between: pairs, kind: bulk, until: 4s")
    text = text.replace(
        "kind: bulk, until: 4s}", "kind: bulk, until: 4s}\n  - {name: short, between: pairs, kind: bulk, until: 2s}"
    )
    (here / "entries.yaml").write_text(text)
    assert weir("run", "entries.yaml", "--method", "sim", "--no-report", "-q").code == 0
    ran = weir("show", "runs/entries", "--json")
    assert ran.code == 0, ran.err
    found = [row["metric"] for row in ran.json["metrics"]]
    assert found == ["goodput.aggregate.mean", "goodput.mean(long)", "goodput.mean(short)", "jain"]
