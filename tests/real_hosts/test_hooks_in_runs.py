"""Hooks in runs on machines: their order, what is kept of them, and that they are undone however the run ends."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bed_support import Bed, running, scenario, until
from nodes_support import Nodes, text

from shared import Memory, plan_of
from weir.engine import in_use
from weir.methods import About, LostError
from weir.methods.hosts import Hosts

HOOK = f"""#!{sys.executable}
import json, os, sys, time
told = json.load(sys.stdin)
place = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(place, "log.jsonl"), "a") as log:
    log.write(json.dumps(told) + "\\n")
wish = os.path.join(place, told["stage"])
if os.path.exists(wish):
    how = open(wish).read()
    if how == "hang":
        time.sleep(600)
    sys.exit(how)
if told["stage"] != "clean":
    print(json.dumps({{
        "facts": {{"stage": told["stage"]}},
        "undo": {{"of": told["stage"]}},
        "files": {{"note.txt": told.get("cell", {{}}).get("id", "-")}},
    }}))
"""
EVERY = dict.fromkeys(("deploy", "configure", "collect", "clean"), "./hook.py")


class Equipment:
    """A folder with a hook for all stages, and a copy of an inventory that names it."""

    def __init__(self, folder: Path, inventory: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "hook.py").write_text(HOOK)
        (folder / "hook.py").chmod(0o755)
        self.inventory = inventory
        self.wish("none", "")

    def wish(self, stage: str, how: str) -> None:
        """The hook fails at ``stage`` with these last words, or hangs."""
        (self.folder / stage).write_text(how)

    def forget(self, stage: str) -> None:
        (self.folder / stage).unlink()

    def told(self) -> list[dict[str, Any]]:
        log = self.folder / "log.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def calls(self) -> list[tuple[str, str | None]]:
        """Stage, and its cell or what it is to undo."""
        return [
            (
                one["stage"],
                (one.get("undo") or {}).get("of") if one["stage"] == "clean" else one.get("cell", {}).get("id"),
            )
            for one in self.told()
        ]


UNDONE = [("clean", "collect"), ("clean", "configure"), ("clean", "deploy"), ("clean", None)]


def states(run: Path) -> dict[str, str]:
    return {task["stage"]: task["state"] for task in json.loads((run / "tasks.json").read_text())["tasks"]}


@pytest.fixture
def equipment(nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Equipment:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = Equipment(tmp_path / "equipment", nodes.inventory())
    said = json.loads(made.inventory.read_text())
    made.inventory = made.folder / "nodes.yaml"
    made.inventory.write_text(json.dumps({**said, "hooks": EVERY}))
    return made


@pytest.fixture
def method(nodes: Nodes, equipment: Equipment) -> Iterator[Hosts]:
    found = Hosts(nodes.connect).on(str(equipment.inventory))
    yield found
    found.close()


def execute(method: Hosts, run: Path, number: int) -> tuple[Memory, Any]:
    sink = Memory()
    method.prepare(About(run=run, cell=f"000{number}-r0", factors={"cc": "reno"}, repeat=0))
    return sink, method.execute(json.dumps(plan_of(text(until="1s"))), sink, lambda *_: None)


def test_hooks_are_called_in_order_and_what_they_answer_is_kept(
    method: Hosts, equipment: Equipment, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for number in (0, 1):
        sink, outcome = execute(method, run, number)
        assert outcome.partial is None
        for stage in ("configure", "collect"):
            (kept,) = json.loads(sink.text(f"hooks/{stage}.json"))
            assert (kept["facts"], kept["files"]) == ({"stage": stage}, [f"hooks/{stage}-1/note.txt"])
            assert sink.text(f"hooks/{stage}-1/note.txt") == f"000{number}-r0"
    (kept,) = json.loads((run / "hooks" / "deploy.json").read_text())
    assert kept["facts"] == {"stage": "deploy"}
    assert (run / "hooks" / "deploy-1" / "note.txt").read_text() == "-"
    assert states(run) == dict.fromkeys(("deploy", "configure", "execute", "collect"), "done"), "no clean so far"

    method.close()

    cells = [(stage, f"000{number}-r0") for number in (0, 1) for stage in ("configure", "collect")]
    assert equipment.calls() == [("deploy", None), *cells, *UNDONE]
    told = equipment.told()
    assert {one["scenario"] for one in told} == {"Test"}
    assert {one["run"] for one in told} == {str(run)}
    assert {tuple(node["name"] for node in one["nodes"]) for one in told} == {("a1", "a2", "b1", "b2")}
    assert told[1]["cell"] == {"id": "0000-r0", "repeat": 0, "factors": {"cc": "reno"}}
    tasks = {task["stage"]: task for task in json.loads((run / "tasks.json").read_text())["tasks"]}
    assert {stage: (task["state"], task["cells"], task["cell"]) for stage, task in tasks.items()} == {
        "deploy": ("done", 0, None),
        "configure": ("done", 2, "0001-r0"),
        "execute": ("done", 2, "0001-r0"),
        "collect": ("done", 2, "0001-r0"),
        "clean": ("done", 0, None),
    }
    assert sorted(tasks["execute"]["nodes"]) == ["a1", "a2", "b1", "b2"]


@pytest.mark.parametrize("stage", ["deploy", "configure"])
def test_a_hook_that_fails_stops_the_run_before_the_traffic(
    method: Hosts, equipment: Equipment, nodes: Nodes, tmp_path: Path, stage: str
) -> None:
    equipment.wish(stage, "the router is on fire")
    with pytest.raises(LostError, match=f"hook of stage {stage}.*exit code 1: the router is on fire"):
        execute(method, tmp_path, 0)
    assert states(tmp_path)[stage] == "failed"
    assert "execute" not in states(tmp_path)
    method.close()
    before = [("deploy", None), ("configure", "0000-r0")][: 1 if stage == "deploy" else 2]
    undone = [("clean", None), ("clean", None)] if stage == "deploy" else [("clean", None), *UNDONE[2:]]
    assert equipment.calls() == [*before, *undone]
    assert nodes.journals() == []


def test_a_cell_whose_hook_fails_to_collect_is_partial(method: Hosts, equipment: Equipment, tmp_path: Path) -> None:
    equipment.wish("collect", "no counters")
    sink, outcome = execute(method, tmp_path, 0)
    assert outcome.lost
    assert "no counters" in str(outcome.partial)
    assert len(sink.columns("goodput")["flow"]) > 0
    assert states(tmp_path) == {"deploy": "done", "configure": "done", "execute": "done", "collect": "failed"}


def test_what_a_lost_run_left_is_undone_by_the_next(method: Hosts, equipment: Equipment, tmp_path: Path) -> None:
    equipment.wish("clean", "not now")
    execute(method, tmp_path, 0)
    with pytest.raises(Exception, match="not now"):
        method.close()
    assert states(tmp_path)["clean"] == "failed"
    assert len(equipment.calls()) == 7, "every one is tried"
    # It is of this process, which lives. That of a run is dead then.
    (record,) = (tmp_path / "state" / "weir" / "hooks").iterdir()
    equipment.forget("clean")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("weir.stages._records.Record.alive", False)
        execute(method, tmp_path, 0)
    assert equipment.calls()[7:] == [*UNDONE, ("deploy", None), ("configure", "0000-r0"), ("collect", "0000-r0")]
    assert not record.exists()


SCHEDULER = f"""#!{sys.executable}
import json, os, sys
told = json.load(sys.stdin)
place = os.path.dirname(os.path.abspath(__file__))
if told["do"] in ("submit", "release"):
    with open(os.path.join(place, "log.jsonl"), "a") as log:
        log.write(json.dumps({{"stage": told["do"], "nodes": []}}) + "\\n")
released = '"release"' in open(os.path.join(place, "log.jsonl")).read()
nodes = json.load(open(os.path.join(place, "nodes.json")))
print(json.dumps({{"id": "7", "state": "ended" if released else "active", "nodes": [] if released else nodes}}))
"""


def test_reserved_nodes_are_there_for_every_hook(nodes: Nodes, equipment: Equipment, tmp_path: Path) -> None:
    (equipment.folder / "scheduler.py").write_text(SCHEDULER)
    (equipment.folder / "scheduler.py").chmod(0o755)
    said = json.loads(equipment.inventory.read_text())
    (equipment.folder / "nodes.json").write_text(json.dumps(said["sets"]["B"]["nodes"]))
    said["sets"]["B"] = {"reserve": {"by": "command", "program": ["./scheduler.py"], "nodes": 2, "time": "1h"}}
    equipment.inventory.write_text(json.dumps(said))
    method = Hosts(nodes.connect).on(str(equipment.inventory))
    try:
        execute(method, tmp_path, 0)
    finally:
        method.close()
    cell = [("configure", "0000-r0"), ("collect", "0000-r0")]
    assert equipment.calls() == [("submit", None), ("deploy", None), *cell, *UNDONE, ("release", None)]
    told = [one for one in equipment.told() if one["stage"] not in ("submit", "release")]
    assert {tuple(node["name"] for node in one["nodes"]) for one in told} == {("a1", "a2", "b1", "b2")}
    assert list(states(tmp_path)) == ["reserve", "deploy", "configure", "execute", "collect", "clean"]
    assert set(states(tmp_path).values()) == {"done"}


# Over SSH.


@pytest.fixture
def router(bed: Bed, tmp_path: Path) -> Iterator[Equipment]:
    """Hooks beside the inventory of the test bed."""
    made = Equipment(tmp_path / "equipment", bed.inventory)
    before = bed.inventory
    bed.inventory = before.with_name("with-hooks.yaml")
    bed.inventory.write_text(
        before.read_text() + "\nhooks: " + json.dumps({stage: str(made.folder / "hook.py") for stage in EVERY}) + "\n"
    )
    yield made
    bed.inventory.unlink()
    bed.inventory = before


def test_a_run_with_hooks_and_its_state(bed: Bed, router: Equipment, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run = bed.start(scenario(tmp_path, "2s"), folder)
    out, _ = run.communicate(timeout=240)
    assert run.returncode == 0, out
    cells = [(stage, f"000{number}-r0") for number in (0, 1) for stage in ("configure", "collect")]
    assert router.calls() == [("deploy", None), *cells, *UNDONE]
    assert [one["cell"]["factors"] for one in router.told()[1:5:2]] == [{"buffers": "1MB"}, {"buffers": "2MB"}]
    assert (folder / "cells" / "0001-r0" / "hooks" / "collect-1" / "note.txt").read_text() == "0001-r0"
    shown = json.loads(bed.weir("hosts", "status", str(folder), "--json"))
    assert (shown["active"], shown["complete_cells"]) == (False, 2)
    assert {task["stage"]: task["state"] for task in shown["tasks"]} == dict.fromkeys(
        ("deploy", "configure", "execute", "collect", "clean"), "done"
    )
    bed.weir("hosts", "archive", str(folder))
    assert states(folder)["archive"] == "done"
    assert bed.is_clean()


def test_an_interrupted_run_is_undone_and_the_same_command_continues_it(
    bed: Bed, router: Equipment, tmp_path: Path
) -> None:
    folder, file = tmp_path / "run", scenario(tmp_path)
    run = bed.start(file, folder)
    running(run, folder, 1)
    assert in_use(folder)
    assert states(folder)["execute"] == "active"
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=60)
    assert run.returncode == 130, out
    assert router.calls()[-4:] == UNDONE
    found = states(folder)
    assert (found["execute"], found["collect"], found["clean"]) == ("interrupted", "done", "done")
    assert until(bed.is_clean)
    again = bed.start(file, folder)
    out, _ = again.communicate(timeout=240)
    assert again.returncode == 0, out
    assert "1 kept from before" in out
    assert set(states(folder).values()) == {"done"}
    assert ("configure", "0000-r0") not in router.calls()[9:]


@pytest.mark.parametrize("stage", ["configure", "execute"])
def test_weir_clean_undoes_what_a_killed_controller_left(
    bed: Bed, router: Equipment, tmp_path: Path, stage: str
) -> None:
    folder = tmp_path / "run"
    if stage == "configure":
        router.wish("configure", "hang")
    run = bed.start(scenario(tmp_path), folder)
    if stage == "configure":
        assert until(lambda: ("configure", "0000-r0") in router.calls(), 120)
    else:
        running(run, folder)
    before = len(router.calls())
    run.send_signal(signal.SIGKILL)
    run.communicate(timeout=60)
    assert until(bed.is_clean)
    assert len(router.calls()) == before, "nobody is there who could"
    shown = json.loads(bed.weir("hosts", "status", str(folder), "--json"))
    assert not shown["active"]
    assert {task["stage"]: task["state"] for task in shown["tasks"]}[stage] == "interrupted"
    done = json.loads(bed.weir("clean", "--on", str(bed.inventory), "--json"))
    assert [one["run"] for one in done["hooks"]] == [str(folder)]
    left = [("clean", None)] if stage == "configure" else [("clean", "configure")]
    assert router.calls()[before:] == [*left, *UNDONE[2:]]
    assert states(folder)["clean"] == "done"
    assert json.loads(bed.weir("clean", "--on", str(bed.inventory), "--json"))["hooks"] == []
