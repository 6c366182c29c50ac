"""``weir run --on`` on a test bed with real servers of OpenSSH: failures, continuing, and what is left."""

from __future__ import annotations

import itertools
import json
import signal
import time
from pathlib import Path

import pytest
from bed_support import SAVE, Bed, running, scenario, until

from weir.run import open_run


def agree_on_the_time(cell: Path) -> None:
    """The nodes' clocks are a thousand seconds apart (``weir testbed``), and the run began at one instant on all."""
    clocks = json.loads((cell / "clocks.json").read_text())
    offsets = sorted(about["after"]["offset_ns"] for about in clocks["nodes"].values())
    assert offsets[0] > 5e11
    assert all(after - before > 5e11 for before, after in itertools.pairwise(offsets))
    assert clocks["skew_ns"] < 1e9, "as if they had one clock; how exactly depends on this machine's load"
    checks = json.loads((cell / "calibration.json").read_text())["checks"]
    assert [check["holds"] for check in checks if check["what"] == "round-trip time"] == [True] * 4, (
        "two pairs, scenario and inventory"
    )


def test_a_lost_node_ends_the_run_and_the_same_command_continues_it(bed: Bed, tmp_path: Path) -> None:
    file, folder = scenario(tmp_path), tmp_path / "run"
    with bed.about_to("a1", "kill -9 $(ps -eo pid,args | awk '/[s]shd: .*@notty/{print $1}')") as cut:
        run = bed.start(file, folder)
        running(run, folder, 1)
        begun = time.monotonic()
        cut()
    out, _ = run.communicate(timeout=60)
    assert time.monotonic() - begun < 15
    assert run.returncode == 1
    assert "a1 is lost, and was last heard at" in out
    assert "1 of 2 cells were finished and are kept" in out
    assert until(bed.is_clean)

    whole = folder / "cells" / "0000-r0" / "manifest.json"
    before = whole.stat().st_mtime_ns
    partial = json.loads((folder / "cells" / "0001-r0" / "manifest.json").read_text())
    assert "a1 is lost" in partial["partial"]
    assert "key" not in partial
    assert (folder / "cells" / "0001-r0" / "goodput.parquet").is_file()

    again = bed.start(file, folder)
    out, _ = again.communicate(timeout=120)
    assert again.returncode == 0, out
    assert "1 kept from before" in out
    assert whole.stat().st_mtime_ns == before
    found = open_run(folder)
    assert [cell.id for cell in found.cells] == ["0000-r0", "0001-r0"]
    assert not any("partial" in warning for warning in found.warnings)
    agree_on_the_time(folder / "cells" / "0001-r0")
    assert bed.is_clean()


def test_a_killed_agent_costs_its_cell_only(bed: Bed, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with bed.about_to("b2", "kill -9 $(pgrep weir-agent)") as kill:
        run = bed.start(scenario(tmp_path), folder)
        running(run, folder)
        kill()
    out, _ = run.communicate(timeout=120)
    assert run.returncode == 1
    assert "b2 failed at" in out
    assert "2 cells executed" in out
    assert "1 failed" in out
    assert bed.is_clean()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_nothing_is_left_when_the_controller_is(bed: Bed, tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "run"
    run = bed.start(scenario(tmp_path, "4s"), folder)
    running(run, folder, 1)
    run.send_signal(number)
    run.communicate(timeout=60)
    assert until(bed.is_clean)
    tasks = {task["stage"]: task["state"] for task in json.loads((folder / "tasks.json").read_text())["tasks"]}
    killed = number == signal.SIGKILL
    assert tasks.get("clean") == (None if killed else "interrupted"), "the nodes restored themselves"
    assert tasks["collect"] == "done"


def test_machines_are_cleaned_from_their_journals_alone(bed: Bed, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    # Controller, relay and watchdog are gone at once, as after a loss of power without a reboot.
    with bed.about_to("a1", "kill -9 $(pgrep 'weir|python')") as kill:
        run = bed.start(scenario(tmp_path), folder)
        running(run, folder)
        kill()
    run.kill()
    run.communicate(timeout=60)
    assert bed.exec("a1", f"cat {SAVE}") == "1"
    assert "tcp_no_metrics_save='1'" in bed.weir("clean", "--on", str(bed.inventory))
    assert bed.exec("a1", f"cat {SAVE}") == "0"
    assert bed.is_clean()
    assert "nothing to undo" in bed.weir("clean", "--on", str(bed.inventory))
