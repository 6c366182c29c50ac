"""One hook: what it is told, what it may answer, how it is bounded, and how it is undone."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shared import ROOT, Weir, argv, environment
from weir.inventory import load
from weir.methods.hosts import Hosts
from weir.stages import HookError, Hooks, remains
from weir.stages.tasks import Tasks, read

CELL = {"id": "0001-r0", "repeat": 0, "factors": {"rate": "20Mbps"}}


class Lab:
    """A folder with an inventory and hooks, each of which logs what it is told before it does anything."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "nodes.yaml"
        self.log = folder / "log.jsonl"

    def hook(self, name: str, body: str) -> None:
        """An executable; ``body`` sees ``told``, and ``answer(...)``."""
        path = self.folder / name
        path.write_text(
            f"#!{sys.executable}\n"
            "import json, os, subprocess, sys, time\n"
            "told = json.load(sys.stdin)\n"
            f"open({str(self.log)!r}, 'a').write(json.dumps([{name!r}, sys.argv[1:], os.getcwd(), told]) + '\\n')\n"
            "def answer(**keys): print(json.dumps(keys), flush=True)\n"
            f"{body}\n"
        )
        path.chmod(0o755)

    def inventory(self, hooks: dict[str, Any]) -> None:
        sets = {"A": {"nodes": [{"name": "a1", "address": "127.0.0.1", "port": 1}, "127.0.0.2"], "user": "me"}}
        connections = [{"between": ["A", "A"], "rate": "1Gbps", "rtt": "18ms"}]
        self.file.write_text(json.dumps({"sets": sets, "connections": connections, "hooks": hooks}))

    def hooks(self, hooks: dict[str, Any], **more: Any) -> Hooks:
        self.inventory(hooks)
        return Hooks(load(self.file), **more)

    def told(self) -> list[tuple[str, str, Any]]:
        """What was called: executable, stage, what it was to undo."""
        return [(name, told["stage"], told.get("undo")) for name, _, _, told in self.lines()]

    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def left(self) -> list[remains.Remain]:
        return remains.find(self.file)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "lab"
    folder.mkdir()
    return Lab(folder)


def failure(call: Callable[[], object]) -> str:
    with pytest.raises(HookError) as error:
        call()
    return str(error.value)


def processes(marker: str) -> list[str]:
    """The processes with ``marker`` in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker.encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def test_a_hook_is_told_where_it_is_and_what_it_is_for(lab: Lab, tmp_path: Path) -> None:
    lab.hook("set.py", "answer(facts={'rate': told['cell']['factors']['rate']})")
    hooks = lab.hooks(
        {"configure": {"run": ["./set.py", "a b", "$HOME; true"]}}, scenario="My title", run=tmp_path / "run"
    )
    (done,) = hooks.call("configure", CELL)
    assert done.answer.facts == {"rate": "20Mbps"}
    ((name, arguments, cwd, told),) = lab.lines()
    assert (name, arguments, cwd) == ("set.py", ["a b", "$HOME; true"], str(lab.folder))
    assert told == {
        "contract": 1,
        "stage": "configure",
        "scenario": "My title",
        "inventory": str(lab.file),
        "run": str(tmp_path / "run"),
        "nodes": [
            {
                "name": name,
                "set": "A",
                "address": address,
                "port": port,
                "user": "me",
                "interface": None,
                "experiment_address": None,
            }
            for name, address, port in (("a1", "127.0.0.1", 1), ("127.0.0.2", "127.0.0.2", None))
        ],
        "connections": [{"between": ["A", "A"], "rate_bps": 1_000_000_000, "rtt_ns": 18_000_000}],
        "cell": CELL,
    }
    hooks.clean()
    assert len(lab.lines()) == 1, "it had nothing to undo"
    assert lab.left() == []


def test_what_was_done_is_undone_backwards_and_then_cleaned(lab: Lab) -> None:
    for name in ("one.py", "two.py", "last.py"):
        lab.hook(name, f"if told['stage'] != 'clean': answer(undo={{'by': {name!r}, 'at': told['stage']}})")
    hooks = lab.hooks({"deploy": ["./one.py", "./two.py"], "configure": "./one.py", "clean": ["./last.py", "./two.py"]})
    hooks.call("deploy")
    for _ in range(3):
        hooks.call("configure", CELL)
    lab.log.write_text("")
    hooks.clean()
    assert lab.told() == [
        ("one.py", "clean", {"by": "one.py", "at": "configure"}),
        ("two.py", "clean", {"by": "two.py", "at": "deploy"}),
        ("one.py", "clean", {"by": "one.py", "at": "deploy"}),
        ("last.py", "clean", None),
        ("two.py", "clean", None),
    ]
    assert lab.left() == []


def test_what_has_failed_is_undone_with_what_it_had_said(lab: Lab) -> None:
    lab.hook("said.py", "if told['stage'] == 'deploy': answer(undo={'half': 1}); sys.exit('out of\\x1b[31m paint')")
    lab.hook("mute.py", "if told['stage'] == 'configure': sys.exit(3)")
    hooks = lab.hooks({"deploy": "./said.py", "configure": ["./mute.py", "./said.py"]})
    text = failure(lambda: hooks.call("deploy"))
    assert "hook of stage deploy" in text
    assert text.endswith("said.py` failed with exit code 1: out of?[31m paint")
    assert failure(lambda: hooks.call("configure", CELL)).endswith("mute.py` failed with exit code 3")
    assert lab.told()[1:] == [("mute.py", "configure", None)], "those after one that failed are not called"
    hooks.clean()
    assert lab.told()[2:] == [("mute.py", "clean", None), ("said.py", "clean", {"half": 1})]
    assert lab.left() == []


def test_what_cannot_be_undone_stays_written_down_until_it_is(lab: Lab) -> None:
    lab.hook("one.py", "if told['stage'] == 'clean' and os.path.exists('broken'): sys.exit('no way')\nanswer(undo={})")
    lab.hook("two.py", "answer(undo={'two': 2}) if told['stage'] == 'deploy' else None")
    (lab.folder / "broken").touch()
    hooks = lab.hooks({"deploy": ["./one.py", "./two.py"]})
    hooks.call("deploy")
    text = failure(hooks.clean)
    assert "no way" in text
    assert f"`weir clean --on {lab.file}` tries again" in text
    (left,) = lab.left()
    assert [line.rpartition("/")[2] for line in left.lines()] == ["one.py (undoes stage deploy)"]
    (lab.folder / "broken").unlink()
    left.clean()
    assert lab.told()[-1] == ("one.py", "clean", {})
    assert lab.left() == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("print('hello')", "expected one JSON object or nothing, got 'hello\\n'"),
        ("print('[1, 2]')", "expected one JSON object or nothing, got '[1, 2]\\n'"),
        ("answer(fact={})", "'fact' is no key of an answer; there are: facts, files, undo"),
        ("answer(facts=[1])", "`facts`: expected an object, got '[1]'"),
        ("answer(undo='x')", "`undo`: expected an object, got 'x'"),
        ("answer(undo={'x': 'y' * 70000})", "`undo` has more than 64 KiB"),
        ("answer(files={'../x': ''})", "'../x' is no plain name"),
        ("answer(files={'a/b': ''})", "'a/b' is no plain name"),
        ("answer(files={'.x': ''})", "'.x' is no plain name"),
        ("answer(files={'x': 5})", "expected the text of x, got '5'"),
        ("answer(files={str(n): '' for n in range(1001)})", "`files` has 1001 files; the limit is 1000"),
        ("sys.stdout.write('[' * 100000)", "expected one JSON object or nothing"),
        ("while True: sys.stdout.write('x' * 65536)", "said more than 16 MiB"),
        ("os.kill(os.getpid(), 11)", "failed with signal 11"),
    ],
)
def test_nonsense_is_refused(lab: Lab, body: str, message: str) -> None:
    lab.hook("odd.py", f"if told['stage'] == 'clean': sys.exit(0)\n{body}")
    hooks = lab.hooks({"deploy": "./odd.py"})
    assert message in failure(lambda: hooks.call("deploy"))
    hooks.clean()
    assert lab.told() == [("odd.py", "deploy", None), ("odd.py", "clean", None)], "what it did is not known"


def test_nothing_and_everything_are_answers(lab: Lab) -> None:
    lab.hook("quiet.py", "sys.stderr.write('x' * 1_000_000)")
    lab.hook("loud.py", "answer(facts={'a': [1, None]}, files={'log.txt': 'x' * 1_000_000}, undo=None)")
    quiet, loud = lab.hooks({"collect": ["./quiet.py", "./loud.py"]}).call("collect", CELL)
    assert (quiet.answer.facts, quiet.answer.files, quiet.answer.undo) == ({}, {}, None)
    assert loud.answer.facts == {"a": [1, None]}
    assert len(loud.answer.files["log.txt"]) == 1_000_000
    assert loud.to_json()["files"] == ["hooks/collect-2/log.txt"]


def test_what_is_no_program_fails_with_its_name(lab: Lab) -> None:
    (lab.folder / "text").write_text("no program\n")
    (lab.folder / "text").chmod(0o755)
    assert "text: Exec format error" in failure(lambda: lab.hooks({"deploy": "./text"}).call("deploy"))
    assert "No such file or directory" in failure(lambda: lab.hooks({"deploy": "./gone"}).call("deploy"))


def test_a_hook_that_hangs_is_ended_with_all_that_it_has_started(lab: Lab) -> None:
    marker = f"weir-test-{os.getpid()}-{time.monotonic_ns()}"
    lab.hook(
        "hang.py",
        "if told['stage'] == 'clean': sys.exit(0)\n"
        f"child = [sys.executable, '-c', 'import time; time.sleep(600)', {marker!r}]\n"
        "subprocess.Popen(child)\nsubprocess.Popen(child, start_new_session=True)\n"
        "sys.stderr.write('waiting for the router\\n'); sys.stderr.flush()\n"
        f"open({str(lab.folder / 'ready')!r}, 'w').close()\ntime.sleep(600)",
    )
    hooks = lab.hooks({"deploy": {"run": "./hang.py", "limit": "4s"}})
    begun = time.monotonic()
    text = failure(lambda: hooks.call("deploy"))
    assert "did not end in 4 s, and was ended; its last words: waiting for the router" in text
    assert time.monotonic() - begun < 60, "not ten minutes"
    assert (lab.folder / "ready").exists(), "it had started them"
    assert processes(marker) == []
    hooks.clean()
    assert lab.told()[-1] == ("hang.py", "clean", None)


def test_what_a_hook_leaves_behind_ends_with_it(lab: Lab) -> None:
    marker = f"weir-test-{os.getpid()}-{time.monotonic_ns()}"
    command = f"[sys.executable, '-c', 'import time; time.sleep(600)', {marker!r}]"
    lab.hook("leaves.py", f"subprocess.Popen({command}, start_new_session=True)\nanswer(facts={{'ok': 1}})")
    (done,) = lab.hooks({"deploy": "./leaves.py"}).call("deploy")
    assert done.answer.facts == {"ok": 1}
    assert processes(marker) == []


ALONE = """
import sys, time
from weir.inventory import load
from weir.stages import Hooks
hooks = Hooks(load(sys.argv[1]))
hooks.call("deploy")
hooks.call("configure", {"id": "0000-r0", "repeat": 0, "factors": {}})
"""


def test_a_killed_controller_leaves_no_hook_and_weir_clean_undoes_it(lab: Lab, weir: Weir) -> None:
    marker = f"weir-test-{os.getpid()}-{time.monotonic_ns()}"
    ready = lab.folder / "ready"
    lab.hook("one.py", "if told['stage'] != 'clean': answer(undo={'image': 'before'})")
    lab.hook(
        "hang.py",
        "if told['stage'] == 'clean': sys.exit(0)\n"
        f"open({str(ready)!r}, 'w').close()\n"
        f"subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)', {marker!r}])",
    )
    lab.inventory({"deploy": "./one.py", "configure": "./hang.py", "clean": "./one.py"})
    run = subprocess.Popen([sys.executable, "-c", ALONE, str(lab.file)], env=environment())
    deadline = time.monotonic() + 60
    while not (ready.exists() and processes(marker)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert [left.alive for left in lab.left()] == [True]
    run.send_signal(signal.SIGKILL)
    run.wait()
    deadline = time.monotonic() + 10
    while processes(marker):
        assert time.monotonic() < deadline, "the hook outlives its controller"
        time.sleep(0.05)
    (left,) = lab.left()
    assert not left.alive
    done = weir("clean", "--on", lab.file, "--dry-run", "--json")
    (planned,) = done.json["hooks"]
    assert [call.rpartition("/")[2] for call in planned["calls"]] == [
        "hang.py (undoes stage configure)",
        "one.py (undoes stage deploy)",
        "one.py (stage clean)",
    ]
    assert len(lab.told()) == 2, "nothing is called for a list"
    weir("clean", "--on", lab.file)  # its nodes are not there; what hooks did is undone all the same
    assert lab.told()[2:] == [
        ("hang.py", "clean", None),
        ("one.py", "clean", {"image": "before"}),
        ("one.py", "clean", None),
    ]
    assert lab.left() == []


def test_stages_alone_are_undone_when_the_user_says_so(lab: Lab, weir: Weir, tmp_path: Path) -> None:
    lab.hook("one.py", "if told['stage'] != 'clean': answer(undo={'at': told['stage']}, facts={'n': 1})")
    lab.inventory({"configure": "./one.py", "collect": "./one.py", "clean": "./one.py"})
    done = weir("hosts", "configure", lab.file, "--json")
    assert done.code == 0, done.err
    assert [one["facts"] for one in done.json["hooks"]] == [{"n": 1}]
    run = tmp_path / "run"
    run.mkdir()
    weir("hosts", "collect", lab.file, run)
    assert [one["stage"] for one in json.loads((run / "hooks" / "collect.json").read_text())] == ["collect"]
    assert [left.kept for left in lab.left()] == [True]
    weir("hosts", "clean", lab.file)
    assert lab.told()[2:] == [
        ("one.py", "clean", {"at": "collect"}),
        ("one.py", "clean", {"at": "configure"}),
        ("one.py", "clean", None),
    ]
    assert lab.left() == []
    lab.inventory({})
    assert "names no hook for this stage" in weir("hosts", "configure", lab.file).out


def test_the_example_of_the_page_limits_a_router(lab: Lab) -> None:
    space = f"wt{os.getpid():x}h"
    if os.geteuid() != 0 or subprocess.run(["ip", "netns", "add", space], capture_output=True, check=False).returncode:
        pytest.skip("network namespaces need root, and iproute2")
    inside = ["ip", "netns", "exec", space]
    try:
        subprocess.run([*inside, "ip", "link", "add", "eth1", "type", "veth", "peer", "name", "p1"], check=True)
        page = (ROOT / "docs" / "hosts.md").read_text(encoding="utf-8")
        (script,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        (lab.folder / "router.py").write_text(script)
        (lab.folder / "router.py").chmod(0o755)
        run = {"run": ["./router.py", *inside]}
        hooks = lab.hooks({"configure": [run], "collect": [run]})
        before = rules(inside)
        (set_,) = hooks.call("configure", CELL)
        assert set_.answer.facts == {"rate": "20Mbit"}
        assert "tbf" in rules(inside)
        assert "rate 20Mbit" in rules(inside)
        (read,) = hooks.call("collect", CELL)
        assert "Sent 0 bytes" in read.answer.files["counters.txt"]
        hooks.clean()
        assert rules(inside) == before
        assert "tbf" not in before
        assert lab.left() == []
    finally:
        subprocess.run(["ip", "netns", "del", space], check=True)


def rules(inside: list[str]) -> str:
    """The queueing disciplines of the router's device."""
    command = [*inside, "tc", "qdisc", "show", "dev", "eth1"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_an_inventory_whose_hook_is_missing_is_refused_before_a_run(lab: Lab, tmp_path: Path) -> None:
    from nodes_support import text

    lab.inventory({"deploy": "./missing.sh"})
    scenario = tmp_path / "test.yaml"
    scenario.write_text(text())
    command = argv("check", str(scenario), "--on", str(lab.file))
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode != 0
    assert "missing.sh is no executable file" in done.stdout + done.stderr


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"tasks": 5}', '{"tasks": [{"stage": "dance", "state": "done", "since": "now", "nodes": []}]}'],
)
def test_the_tasks_of_a_run_may_be_damaged(weir: Weir, tmp_path: Path, content: str) -> None:
    (tmp_path / "tasks.json").write_text(content)
    done = weir("hosts", "status", tmp_path)
    assert done.code == 2
    assert "tasks.json is damaged: expected tasks with stage, state and since" in done.err


def test_a_task_is_shown_as_what_became_of_it(weir: Weir, tmp_path: Path) -> None:
    assert "has no tasks" in weir("hosts", "status", tmp_path).out
    with pytest.raises(RuntimeError), Tasks(tmp_path).task("deploy", nodes=["a1", "a2"]):
        raise RuntimeError("no \x1b[31mpower")
    (line,) = [line for line in weir("hosts", "status", tmp_path).out.splitlines() if line.startswith("deploy")]
    assert "failed" in line
    assert "a1 ... a2" in line
    assert "\x1b" not in line
    context = Tasks(tmp_path, fresh=False).task("execute", cell="0000-r0")
    context.__enter__()
    shown = {task["stage"]: task["state"] for task in weir("hosts", "status", tmp_path, "--json").json["tasks"]}
    assert shown == {"deploy": "failed", "execute": "interrupted"}, "nobody writes to this folder"


def test_a_run_that_ended_without_the_stage_clean_says_who_restores_its_nodes(weir: Weir, tmp_path: Path) -> None:
    words = "the nodes restore themselves, at the latest 20 s later"
    tasks = Tasks(tmp_path)
    with tasks.task("execute", cell="0000-r0"):
        pass
    assert words in weir("hosts", "status", tmp_path).out
    assert list(Hosts().undo(tmp_path)) == []
    shown = weir("hosts", "status", tmp_path, "--json").json["tasks"]
    assert {task["stage"]: task["state"] for task in shown} == {"execute": "done", "clean": "interrupted"}
    assert words in weir("hosts", "status", tmp_path).out
    with tasks.task("clean"):
        pass
    assert list(Hosts().undo(tmp_path)) == []
    assert words not in weir("hosts", "status", tmp_path).out


def test_a_run_that_changed_no_node_has_nothing_to_clean(tmp_path: Path) -> None:
    with Tasks(tmp_path).task("reserve"):
        pass
    assert list(Hosts().undo(tmp_path)) == []
    assert [task.stage for task in read(tmp_path)] == ["reserve"]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_the_state_of_nothing_is_refused(
    weir: Weir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    done = weir("hosts", "status", tmp_path / "nothing", *options)
    assert done.code == 2
    assert f"no such run or inventory: {tmp_path / 'nothing'}" in done.err
    (tmp_path / "nodes.yaml").write_text("sets: {A: {nodes: [a1]}}")
    there = weir("hosts", "status", tmp_path / "nodes.yaml", *options)
    assert there.code == 0, there.err
