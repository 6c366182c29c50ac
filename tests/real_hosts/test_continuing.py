"""The same command continues a run whose controller was killed, whatever stage it was in; each stage works alone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bed_support import Bed, running, scenario, until
from test_hooks_in_runs import EVERY, Equipment, states

from shared import argv
from weir.run import open_run

SCHEDULER = f"""#!{sys.executable}
import json, os, sys, time
told = json.load(sys.stdin)
place = os.path.dirname(os.path.abspath(__file__))
held = os.path.join(place, "held")
if told["do"] in ("submit", "release"):
    with open(os.path.join(place, "log.jsonl"), "a") as log:
        log.write(json.dumps({{"stage": told["do"], "nodes": []}}) + "\\n")
if told["do"] == "submit":
    if os.path.exists(os.path.join(place, "submit")):
        time.sleep(600)
    open(held, "w").write(told["name"])
elif told["do"] == "release" and os.path.exists(held):
    os.unlink(held)
there = os.path.exists(held)
nodes = json.load(open(os.path.join(place, "nodes.json")))
mine = there and (told["do"] != "find" or open(held).read() == told["name"])
answer = {{"id": "7" if mine else None, "state": "active" if there else "ended", "nodes": nodes if there else []}}
print(json.dumps(answer))
"""
STAGES = ("reserve", "deploy", "configure", "execute", "collect", "clean")


@pytest.fixture
def site(bed: Bed, tmp_path: Path) -> Iterator[Equipment]:
    """Hooks of all stages, and a scheduler for the nodes of ``B``, beside the inventory of the test bed."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe")
    made = Equipment(tmp_path / "equipment", bed.inventory)
    before = bed.inventory
    said = yaml.load(before.read_text())
    nodes = said["sets"]["B"].pop("nodes")
    (made.folder / "nodes.json").write_text(json.dumps(nodes))
    (made.folder / "scheduler.py").write_text(SCHEDULER)
    (made.folder / "scheduler.py").chmod(0o755)
    program = [str(made.folder / "scheduler.py")]
    said["sets"]["B"]["reserve"] = {"by": "command", "program": program, "nodes": 2, "time": "1h"}
    said["hooks"] = {stage: str(made.folder / "hook.py") for stage in EVERY}
    bed.inventory = before.with_name("whole.yaml")
    bed.inventory.write_text(json.dumps(said))
    yield made
    bed.inventory.unlink()
    bed.inventory = before


def reach(stage: str, bed: Bed, site: Equipment, run: subprocess.Popen[str], folder: Path) -> None:
    """Waits until the run is in the stage."""
    if stage == "execute":
        running(run, folder)
        return
    wanted = "submit" if stage == "reserve" else stage
    assert until(lambda: wanted in [one for one, _ in site.calls()], 120), run.poll()
    assert until(lambda: states(folder).get(stage) == "active", 10), states(folder)


@pytest.mark.parametrize("stage", STAGES)
def test_a_controller_killed_in_a_stage(bed: Bed, site: Equipment, tmp_path: Path, stage: str) -> None:
    file, folder = scenario(tmp_path, "4s" if stage == "execute" else "1s"), tmp_path / "run"
    if stage != "execute":
        site.wish("submit" if stage == "reserve" else stage, "hang")
    run = bed.start(file, folder)
    reach(stage, bed, site, run, folder)
    run.send_signal(signal.SIGKILL)
    if stage != "execute":  # what cleans up in place of the controller calls hooks, too
        site.forget("submit" if stage == "reserve" else stage)
    run.communicate(timeout=60)
    assert until(bed.is_clean)
    shown = json.loads(bed.weir("hosts", "status", str(folder), "--json"))
    assert not shown["active"]
    found = {task["stage"]: task["state"] for task in shown["tasks"]}
    assert found[stage] == "interrupted"
    assert [name for name, state in found.items() if state == "active"] == []
    before = len(site.calls())

    again = bed.start(file, folder)
    out, _ = again.communicate(timeout=240)

    assert again.returncode == 0, out
    assert [cell.id for cell in open_run(folder).cells] == ["0000-r0", "0001-r0"]
    assert states(folder) == dict.fromkeys(STAGES, "done") if shown["complete_cells"] < 2 else True
    calls = site.calls()[before:]
    if shown["complete_cells"]:
        assert ("configure", "0000-r0") not in calls, "a complete cell is kept"
    assert until(bed.is_clean)
    assert until(lambda: not (site.folder / "held").exists()), "what was reserved is given back"
    left = json.loads(bed.weir("clean", "--on", str(bed.inventory), "--json"))
    assert left["hooks"] == []


def test_an_archive_whose_making_was_killed(bed: Bed, tmp_path: Path) -> None:
    file, folder = scenario(tmp_path, "2s"), tmp_path / "run"
    bed.start(file, folder).communicate(timeout=240)
    command = argv("hosts", "archive", str(folder))
    tasks = json.loads((folder / "tasks.json").read_text())
    killed = {"stage": "archive", "state": "active", "since": "2026-11-23T09:31:05+00:00", "nodes": []}
    (folder / "tasks.json").write_text(json.dumps({**tasks, "tasks": [*tasks["tasks"], killed]}))
    (tmp_path / ".run.weir.tar.gz.tmp").write_bytes(b"half an archive")
    shown = json.loads(bed.weir("hosts", "status", str(folder), "--json"))
    assert {task["stage"]: task["state"] for task in shown["tasks"]}["archive"] == "interrupted"
    done = subprocess.run(command, capture_output=True, text=True, env=bed.environment, check=False)
    assert done.returncode == 0, done.stderr
    assert states(folder)["archive"] == "done"
    assert not (tmp_path / ".run.weir.tar.gz.tmp").exists()
    opened = bed.weir("open", str(tmp_path / "run.weir.tar.gz"), "--out", str(tmp_path / "back"))
    assert "back" in opened
    assert len(open_run(tmp_path / "back").cells) == 2
