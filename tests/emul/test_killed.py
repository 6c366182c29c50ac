"""However a run ends, nothing of it stays on the machine."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
import uuid
from pathlib import Path

import pytest
from emul_support import needs_emul, remains_of, text, weir

from weir._owner import Tag, find, new, parse, processes

pytestmark = needs_emul()

_GONE_S = 30.0
"""Removal takes tenths of a second, but longer on a busy machine."""
_MARK = "WEIR_TEST_MARK"


def marked(mark: str) -> dict[int, str]:
    """Every process that a test started, and its descendants, with their command lines."""
    found = {}
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and f"{_MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
    return found


def wait_for_nothing(mark: str, seen: set[int]) -> list[str]:
    """The remains, after a wait, of the processes ``seen`` and of those with ``mark``."""
    deadline = time.monotonic() + _GONE_S
    while True:
        left = [f"{pid}: {command}" for pid, command in marked(mark).items()] + remains_of(seen)
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)


def points() -> list[tuple[str, str, str, float]]:
    """Victim, signal, and time after which event: random, with a fixed seed."""
    draws = random.Random(6874)
    cases = [
        ("weir", "SIGKILL", "worker", 0.5),
        ("worker", "SIGKILL", "worker", 0.5),
        ("weir", "SIGKILL", "namespace", 0.2),  # while the hosts are made
        ("worker", "SIGKILL", "namespace", 0.2),
        ("weir", "SIGINT", "namespace", 2.0),
        ("weir", "SIGTERM", "namespace", 2.0),
        ("weir", "SIGKILL", "namespace", 2.0),
        ("worker", "SIGKILL", "namespace", 2.0),
    ]
    return [(whom, how, after, round(draws.uniform(0.0, most), 2)) for whom, how, after, most in cases]


def start(folder: Path, mark: str) -> subprocess.Popen[str]:
    """Starts a run that takes 20 s."""
    scenario = folder / "s.yaml"
    scenario.write_text(text(pairs=2, rate="10Mbps", until="20s", cc="linux:reno"))
    arguments = ("run", str(scenario), "--method", "emul", "--quiet", "--out", str(folder / "r"))
    return weir(*arguments, WEIR_TEST_MARK=mark)


@pytest.mark.parametrize(("whom", "how", "after", "delay_s"), points())
def test_nothing_is_left_of_a_killed_run(whom: str, how: str, after: str, delay_s: float, tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    links = interfaces()
    run = start(tmp_path, mark)
    try:
        workers = {await_process(mark, "weir.engine.worker")}
        if after == "namespace":
            await_namespace(workers)
        time.sleep(delay_s)
        seen = set(marked(mark)) | workers
        for pid in workers if whom == "worker" else {run.pid}:
            os.kill(pid, getattr(signal, how))
        run.communicate(timeout=60)
    finally:
        run.kill()
    assert wait_for_nothing(mark, seen) == []
    assert interfaces() == links
    again = weir("clean", str(tmp_path / "r"))
    assert again.communicate(timeout=60)[1] == ""
    assert not (tmp_path / "r" / ".partial").exists()


def test_clean_does_what_a_killed_guardian_could_not(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    run = start(tmp_path, mark)
    try:
        worker = await_process(mark, "weir.engine.worker")
        await_namespace({worker})
        guardian = next(pid for pid, command in marked(mark).items() if "_guardian.py" in command)
        seen = set(marked(mark))
        for pid in (guardian, run.pid, worker):
            os.kill(pid, signal.SIGKILL)
        run.communicate(timeout=60)
        assert remains_of(seen) != []
        weir("clean", str(tmp_path / "r")).communicate(timeout=60)
    finally:
        run.kill()
    assert wait_for_nothing(mark, seen) == []


def await_process(mark: str, name: str) -> int:
    """Waits for the process whose command line has ``name``."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found = [pid for pid, command in marked(mark).items() if name in command]
        if found:
            return found[0]
        time.sleep(0.01)
    pytest.fail(f"no process {name} was started")


def await_namespace(workers: set[int]) -> None:
    """Waits until a host exists."""
    deadline = time.monotonic() + 30
    while not any(left.startswith("namespace") for left in remains_of(workers)):
        assert time.monotonic() < deadline, "no namespace was made"
        time.sleep(0.005)


def interfaces() -> list[str]:
    """Names of this machine's own interfaces that could be a run's; those of test beds come and go by themselves."""
    listed = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout.splitlines()
    names = [line.split(": ")[1] for line in listed]
    return [name for name in names if name.startswith("weir") and not name.startswith("weirbed")]


def dead() -> Tag:
    """The tag of a process that has ended."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    return Tag(ended.pid, 1, 0)


def namespaces() -> set[str]:
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return {line.split()[0] for line in listed.stdout.splitlines()}


def test_clean_removes_what_is_nobodys_and_leaves_what_is_somebodys(tmp_path: Path) -> None:
    orphan, live = f"weir-{dead()}-h0", f"weir-{new()}-h0"
    tag = str(dead())
    unsealed = tag.rpartition("-")[0]
    strangers = {
        *("weir-mine", "weir-1f-3c2a-0-h2", "weir-2026-11-22-h0", f"other-{tag}", f"weir-{tag}", f"weir-{tag}-h0-mine"),
        *(f"weir-{unsealed}-{'0' * 24}-h0", f"weir-{tag[:-1]}-h0", f"weir-{tag}0-h0", f"weir-0{tag}-h0"),
    }
    for name in (orphan, live, *strangers):
        subprocess.run(["ip", "netns", "add", name], check=True)
    sleepers = {
        value: subprocess.Popen(["sleep", "600"], env={**os.environ, "WEIR_RUN": value})
        for value in (tag, str(new()), "2026-11-22", "", unsealed, f"{tag}x", f"{tag}\n", f"run-{tag}")
    }
    try:
        told = weir("clean", "--dry-run", str(tmp_path)).communicate(timeout=60)[0]
        assert f"would remove namespace {orphan}" in told
        assert live not in told
        assert orphan in namespaces()
        told = weir("clean", str(tmp_path)).communicate(timeout=60)[0]
        assert f"removed namespace {orphan}" in told
        assert "kept for active runs" in told
        assert {live, *strangers} <= namespaces()
        assert orphan not in namespaces()
        assert sleepers.pop(tag).wait(timeout=10) == -signal.SIGTERM
        assert {value: sleeper.poll() for value, sleeper in sleepers.items()} == dict.fromkeys(sleepers)
    finally:
        for sleeper in sleepers.values():
            sleeper.kill()
            sleeper.wait()
        for name in (orphan, live, *strangers):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def test_a_tag_tells_its_process_from_a_later_one_of_the_same_number() -> None:
    mine = new()
    assert mine.alive
    assert find(f"weir-{mine}-h12") == mine
    assert not Tag(mine.pid, mine.start + 1, 0).alive
    assert not dead().alive
    assert parse(str(mine)) == mine
    assert find("weir-emulate-x") is None
    child = subprocess.Popen(["sleep", "60"], env={**os.environ, "WEIR_RUN": str(mine)})
    try:
        deadline = time.monotonic() + 10
        while child.pid not in processes() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert processes()[child.pid] == mine
    finally:
        child.kill()
        child.wait()
