"""weir's congestion controls and the kernel's, in one kernel: with ``as_linux`` they do the same to every packet."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from lab_support import plan

from shared import ROOT, Memory, execute
from weir import engine, study
from weir.cli.cc import command
from weir.compare import trace_distance
from weir.lab import Kernel
from weir.study import Grid, StudyError
from weir.study.validation import controls
from weir.study.validation.controls import KINDS, PAIRS, Row, fields

STATE = ("time_ns", "flow", "cwnd", "ssthresh", "in_flight", "acked_bytes", "srtt_ns", "min_rtt_ns", "ca_state")
LOSSES = [150, 700, 701, 2000, 2100, 4000]


def made(folder: Path, cc: str, *changes: str, **options: int) -> dict[str, Any]:
    """A plan of the lab's tests, whose first link also loses the packets of a list."""
    compiled = plan(folder, f"transport.cc='{cc}'", "workload.a.until=4s", *changes)
    compiled["links"][0]["loss"] = {"kind": "list", "packets": LOSSES}
    for flow in compiled["flows"]:
        flow["transport"]["cc_options"] = options
    return compiled


def state(compiled: dict[str, Any]) -> dict[str, list[Any]]:
    """The decisions of the congestion control, at every sample."""
    samples = execute("lab", compiled)[0].columns("samples")
    return {name: samples[name] for name in STATE}


Traces = Callable[..., Memory]


@pytest.fixture(scope="module")
def alone(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Traces:
    """Executes one flow that loses exactly the packets of the list."""

    @cache
    def run(cc: str, method: str = "lab", **options: int) -> Memory:
        compiled = made(tmp_path_factory.mktemp("alone"), cc, "topology.dumbbell.pairs=1", **options)
        compiled["links"][0]["queue"]["limit"] = {"bytes": 50_000_000, "packets": None}
        sink = execute(method, compiled)[0]
        assert sink.columns("flows")["lost_packets"] == [len(LOSSES)]
        return sink

    return run


def distance(a: Memory, b: Memory) -> float:
    """Distance of the windows of two runs of one flow; see docs/comparisons.md."""
    windows = [np.array(sink.columns("samples")["cwnd"], dtype=np.float64) for sink in (a, b)]
    count = min(len(each) for each in windows)
    return trace_distance(windows[0][:count], windows[1][:count])


AS_LINUX = [
    *("bic", "cubic", "highspeed", "htcp", "scalable", "illinois", "veno", "vegas", "westwood", "hybla"),
    *("lp", "cdg", "nv"),
]


@pytest.mark.parametrize("cc", AS_LINUX)
def test_with_as_linux_the_kernels_is_followed_to_the_packet(kernel: Kernel, tmp_path: Path, cc: str) -> None:
    """Two flows that fill a queue, so that one packet of difference would cause others."""
    assert state(made(tmp_path, cc, as_linux=1)) == state(made(tmp_path, f"linux:{cc}"))


@pytest.mark.parametrize(("cc", "ecn"), [("yeah", "false"), ("dctcp", "true"), ("bbr", "false")])
def test_without_that_option_the_kernels_is_followed_to_the_packet(
    kernel: Kernel, tmp_path: Path, cc: str, ecn: str
) -> None:
    changes = f"transport.ecn={ecn}"
    assert state(made(tmp_path, cc, changes)) == state(made(tmp_path, f"linux:{cc}", changes))


@pytest.mark.parametrize(("cc", "most"), [("cubic", 0.15), ("bic", 0.3)])
def test_by_the_papers_they_differ_within_what_is_said(alone: Traces, cc: str, most: float) -> None:
    """Each README documents the differences; that there are any shows that the tests above could fail."""
    assert 0.001 < distance(alone(f"linux:{cc}"), alone(cc)) < most


def test_the_simulator_follows_the_same_source(alone: Traces) -> None:
    """With forced losses, only the hosts' stacks can make a difference."""
    assert distance(alone("bic"), alone("bic", "sim")) < 0.03


_SMALL = """\
title: a test
topology:
  dumbbell:
    pairs: 1
    access: {rate: 100Mbps}
    bottleneck: {rate: 10Mbps, queue: 5000packets, loss: {list: [100, 300]}}
    rtt: 20ms
transport: {cc: reno, buffers: 2MB, processing: 0s}
workload: [{name: a, between: pairs, kind: bulk, until: 2s}]
measure: {goodput: 500ms, tcp: 20ms, links: 100ms}
sweep:
  transport.cc: [reno]
  zip: [{case: scripted, topology.dumbbell.rtt: 20ms}]
"""


def test_a_comparison_is_executed_continued_and_written(kernel: Kernel, tmp_path: Path) -> None:
    scenario = tmp_path / "small.yaml"
    scenario.write_text(_SMALL, encoding="utf-8")
    found = controls.execute(Grid(scenario), ["scalable"], tmp_path / "runs")
    assert [len(found.of(pair)) for pair in PAIRS] == [1, 1, 1, 1]
    assert all(row.same for row in found.of(PAIRS[1]))
    assert {row.lost for row in found.rows} == {(2, 2)}

    page, data, *drawn = controls.document(found, tmp_path / "out", "weir cc compare")
    assert json.loads(data.read_text(encoding="utf-8"))["rows"] == [row.to_json() for row in found.rows]
    text = page.read_text(encoding="utf-8")
    assert "1 of 1 cells are the same" in text
    assert [path.name for path in drawn] == ["scalable-scripted-20ms.svg"]
    assert f"({drawn[0].relative_to(page.parent)})" in text

    again = controls.execute(Grid(scenario), ["scalable"], tmp_path / "runs")
    assert again.rows == found.rows


def test_cells_that_failed_are_named_and_the_others_compared(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small.yaml").write_text(_SMALL, encoding="utf-8")
    executed = study.execute

    def execute(task: study.Task, how: study.How) -> study.Done:
        done = executed(task, how)
        if task.side.name != "sim":
            return done
        lost = next(cell.id for cell in task.cells.cells() if cell.factors["cc"] == "reno")
        engine.discard(task.folder, [lost])
        return replace(done, failures=("cc reno: it died",))

    monkeypatch.setattr("weir.study.execute", execute)
    arguments = ["compare", "reno", "scalable", "--scenario", str(tmp_path / "small.yaml"), "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(command, [*arguments, "-q"])
    assert result.exit_code == 1
    assert "failed: sim: cc reno: it died" in result.output
    found = json.loads(CliRunner().invoke(command, [*arguments, "-q", "--json"]).stdout)
    there = {(row["test"], row["cc"]) for row in found["rows"]}
    assert ("sim", "scalable") in there
    assert ("lab", "reno") in there
    assert ("sim", "reno") not in there


# Tests without a lab -------------------------------------------------------------------------------------------------


BOTH = ("reno", "bic", "cubic", "highspeed", "htcp", "scalable")


def test_what_is_chosen_is_compared_and_a_scenario_chooses_by_what_it_names(tmp_path: Path) -> None:
    assert controls.names(["htcp", "bic", "cubic-2005"]) == ("bic", "cubic-2005", "htcp")
    with pytest.raises(StudyError, match=r"cubix: weir has no such congestion control; there are reno, .* or a C file"):
        controls.names(["cubix"])
    small = tmp_path / "small.yaml"
    small.write_text(_SMALL.replace("[reno]", "['linux:htcp', reno]"), encoding="utf-8")
    assert controls.named_in(small, {}, quick=False) == ("reno", "htcp")
    assert controls.named_in(ROOT / "scenarios/validation/variants.yaml", {}, quick=True) == BOTH


def test_a_users_own_is_compared_between_the_lab_and_the_simulator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples/my_cc/my_cc.c", tmp_path / "mine.c")
    assert controls.names(["./mine.c", "bic"]) == ("bic", "./mine.c")
    changed = {side.name: side.overrides for side in controls.sides(["./mine.c"])}
    assert set(changed) == {"lab", "sim"}
    mine = {"sweep.transport.cc": json.dumps({"./mine.c": str(tmp_path / "mine.c")})}
    assert changed["lab"] == changed["sim"] == mine
    with pytest.raises(StudyError, match=r"missing\.c: No such file"):
        controls.names(["./missing.c"])


def test_a_users_own_is_compared_with_one_of_the_kernels(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Additive increase by one and a decrease by half are Reno's: the windows are close, and CUBIC's are not."""
    monkeypatch.chdir(tmp_path)
    source = (ROOT / "examples/my_cc/my_cc.c").read_text(encoding="utf-8")
    source = source.replace("OPTION(increase, 2,", "OPTION(increase, 1,").replace(
        "OPTION(keep, 70,", "OPTION(keep, 50,"
    )
    (tmp_path / "mine.c").write_text(source, encoding="utf-8")
    (tmp_path / "small.yaml").write_text(_SMALL, encoding="utf-8")
    distances = {}
    for name in ("reno", "cubic"):
        found = controls.execute(Grid(tmp_path / "small.yaml"), ["./mine.c"], tmp_path / name, against=name)
        (row,) = found.of(PAIRS[0])
        assert (row.pair.reference, row.pair.test, row.factors["cc"]) == ("kernel", "lab", "./mine.c")
        distances[name] = row.distance
    assert distances["reno"] < 0.02
    assert distances["cubic"] > 2 * distances["reno"]


def test_with_names_one_of_the_labs_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples/my_cc/my_cc.c", tmp_path / "mine.c")
    changed = {side.name: side.overrides["sweep.transport.cc"] for side in controls.sides(["./mine.c"], "westwood")}
    assert json.loads(changed["kernel"]) == {"./mine.c": "linux:westwood"}
    assert set(changed) == {"kernel", "lab", "sim"}
    for arguments, said in (
        (["./mine.c", "--with", "linux:westwod"], "the lab's kernel has no such congestion control"),
        (["./mine.c", "--with", "westwood"], "there are linux:reno, "),
        (["--with", "linux:westwood"], "--with needs a NAME"),
    ):
        result = CliRunner().invoke(command, ["compare", *arguments])
        assert result.exit_code == 2
        assert said in " ".join(result.output.split())


def test_a_users_own_is_the_same_in_the_lab_and_in_the_simulator(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples/my_cc/my_cc.c", tmp_path / "mine.c")
    (tmp_path / "small.yaml").write_text(_SMALL, encoding="utf-8")
    found = controls.execute(Grid(tmp_path / "small.yaml"), ["./mine.c"], tmp_path / "runs")
    (row,) = found.rows
    assert (row.pair.reference, row.pair.test, row.factors["cc"]) == ("lab", "sim", "./mine.c")
    assert row.goodput_bps[1] == pytest.approx(row.goodput_bps[0], rel=0.02)


def test_a_side_keeps_the_names_of_the_cells() -> None:
    """So that cells of different sides align by them."""
    sides = controls.sides(["reno", "bic"])
    overrides = {side.name: json.loads(side.overrides["sweep.transport.cc"]) for side in sides}
    assert overrides["kernel"] == {"reno": "linux:reno", "bic": "linux:bic"}
    assert overrides["lab"] == overrides["sim"] == {"reno": "reno", "bic": "bic"}
    # RFC 5681 leaves no choice, so reno has no such option.
    assert overrides["lab as_linux"] == overrides["sim as_linux"] == {"bic": {"name": "bic", "as_linux": True}}
    assert next(kind for kind in KINDS if kind.rules == "as linux").side(["reno"]) is None


def test_a_wrong_name_is_the_users_mistake() -> None:
    result = CliRunner().invoke(command, ["compare", "nonesuch"])
    assert result.exit_code == 2
    assert "nonesuch: weir has no such congestion control" in result.output


def row(**changes: Any) -> Row:
    values: dict[str, Any] = {
        "pair": PAIRS[0], "factors": {"cc": "bic"}, "goodput_bps": (9e6, 9e6), "lost": (4, 4), "cwnd": (20.0, 20.0),
        "distance": 0.0, "value_distance": 0.0, "same": True,
    }  # fmt: skip
    return Row(**{**values, **changes})


def test_numbers_are_given_where_something_differs() -> None:
    assert "**same**" in fields(row())
    assert fields(row(goodput_bps=(9e6, 9.9e6), lost=(4, 5), distance=0.25, value_distance=0.013, same=False)) == [
        "9.00, 9.90 (+10.0 %)", "4, 5", "20.0, 20.0", "25 %", "1.3 %",
    ]  # fmt: skip


def test_every_pair_names_two_sides() -> None:
    known = [kind.name for kind in KINDS]
    for pair in PAIRS:
        assert known.index(pair.reference) < known.index(pair.test)
    assert len(set(itertools.chain.from_iterable((p.reference, p.test) for p in PAIRS))) == len(known)
