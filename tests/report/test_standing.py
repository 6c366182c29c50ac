"""What stands on top of a run's pages: a smaller version than the title's, and cells that are missing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from reading import read_page

from shared import Weir
from weir.report import build
from weir.run import RunWarning, open_run
from weir.scenario import reduced

TEXT = """
title: Ten gigabits
topology:
  dumbbell: {pairs: 2, access: {rate: 100Mbps}, bottleneck: {rate: 10Mbps, queue: 30kB}, rtt: 20ms}
transport: {cc: reno}
workload:
  - {name: bulk, between: pairs, kind: bulk, start: {uniform: [0s, 100ms]}, until: 4s}
measure: {goodput: 500ms, tcp: 100ms, links: 100ms}
sweep:
  transport.cc: [reno, cubic, bic]
  topology.dumbbell.rtt: [10ms, 40ms]
repeat: 3
summary:
  - {title: The sum, value: goodput.aggregate.mean}
quick:
  topology.dumbbell.bottleneck: {rate: 5Mbps, queue: 30kB}
  workload.bulk.until: 1s
  measure.tcp: 50ms
  sweep.transport.cc: [reno, cubic]
  repeat: 2
realtime:
  topology.dumbbell.bottleneck.rate: 1Mbps
  sweep.topology.dumbbell.rtt: [30ms, 50ms]
"""
QUICK = (
    "Quick version of the scenario, not the size that its texts describe: bottleneck 5Mbps (not 10Mbps); "
    "2 of 3 values of cc; bulk until 1s (not 4s); repeats 2 (not 3); 1 other setting."
)


def test_a_version_says_what_it_changes() -> None:
    assert reduced(TEXT, {}) == ""
    assert reduced(TEXT, {"quick": True}) == QUICK
    assert reduced(TEXT, {"realtime": True}) == (
        "Real-time version of the scenario, not the size that its texts describe: bottleneck 1Mbps (not 10Mbps); "
        "2 of 3 values of cc; other values of rtt; bulk until 1s (not 4s); repeats 2 (not 3); 1 other setting."
    )


def test_a_version_that_the_scenario_does_not_have_is_the_scenario() -> None:
    assert reduced(TEXT.partition("quick:")[0], {"quick": True}) == ""
    assert reduced("title: [", {"quick": True}) == ""


def test_what_the_user_sets_is_not_the_versions() -> None:
    assert "bulk until" not in reduced(TEXT, {"quick": True, "set": {"workload.bulk.until": "3s"}})


@pytest.fixture
def interrupted(weir: Weir, tmp_path: Path) -> Path:
    """A quick run that ended after seven of eight cells."""
    folder = tmp_path
    (folder / "my.yaml").write_text(TEXT)
    done = weir("run", str(folder / "my.yaml"), "--quick", "--method", "sim", "--out", str(folder / "run"), "-q")
    assert done.code == 0, done.err
    assert QUICK in weir("show", str(folder / "run")).out.replace("\n", " ")
    (folder / "run" / "manifest.json").unlink()
    shutil.rmtree(folder / "run" / "cells" / "0003-r1")
    return folder / "run"


def test_an_interrupted_run_keeps_its_summary_and_counts_its_cells(weir: Weir, interrupted: Path) -> None:
    shown = weir("show", str(interrupted)).out
    told = " ".join(shown.split())
    assert "Ten gigabits: 4 cells with 2 repeats or fewer" in told
    assert QUICK in told
    assert "Incomplete: 7 of 8 cells have results, 1 to 2 of 2 repeats of each; `weir run` continues it." in told
    assert "The sum" in told
    found = json.loads(weir("show", str(interrupted), "--json").out)
    assert [figure["title"] for figure in found["summary"]] == ["The sum"]
    assert [value["repeats"] for value in found["summary"][0]["values"]] == [2, 2, 2, 1]


def test_the_report_of_an_interrupted_run_says_so_on_top(interrupted: Path) -> None:
    with pytest.warns(RunWarning, match="it has 7 of 8 cells and no manifest"):
        run = open_run(interrupted)
    page = read_page(build(run))
    assert [p.text for p in page.all("p", "standing")] == [
        QUICK,
        "Incomplete: 7 of 8 cells have results, 1 to 2 of 2 repeats of each; weir run continues it.",
    ]
    assert "2 cc × 2 rtt, 1 to 2 of 2 repeats, 4 cells" in page.all("dl", "facts")[0].text
    assert "The sum:" in page.by_id("outcome").text
    assert "Means over 1 to 2 repeats" in page.by_id("tables").text


def test_a_run_that_older_versions_began_opens_without_its_summary(interrupted: Path, tmp_path: Path) -> None:
    old = shutil.copytree(interrupted, tmp_path / "old")
    (old / ".run.json").unlink()
    with pytest.warns(RunWarning, match="it has 7 cells and no manifest"):
        run = open_run(old)
    assert run.intended == {}
    assert [p.text for p in read_page(build(run)).all("p", "standing")] == []
