"""A command that leaves its process group does not outlive its run; a run whose guardian is killed cleans up itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from emul_support import manifest_of, needs_emul, weir
from test_killed import await_process, marked, namespaces

from weir import _group, _owner
from weir.hosts import _cgroup, _guardian, remains

pytestmark = needs_emul()

_HANG_S = 60.0

_DAEMON = """
import os, sys, time
if os.fork():
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
for file in range(3):
    os.close(file)
open(sys.argv[1] + ".new", "w").write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
"""
"""Becomes a daemon in the classic way; its empty environment hides its owner."""

_SCENARIO = """\
title: A command that leaves its group
seed: 1
topology: {{dumbbell: {{pairs: 1, access: {{rate: 100Mbps}}, bottleneck: {{rate: 10Mbps}}, rtt: 10ms}}}}
transport: {{cc: "linux:reno"}}
workload:
  - name: program
    between: pairs
    kind: command
    command: [env, -i, {python}, -c, {code}, {file}]
    until: {until}
"""


def scenario(folder: Path, until: str) -> Path:
    import json

    path = folder / "s.yaml"
    text = _SCENARIO.format(
        python=json.dumps(sys.executable), code=json.dumps(_DAEMON), file=json.dumps(str(folder / "pid")), until=until
    )
    path.write_text(text)
    return path


def await_daemon(file: Path) -> int:
    deadline = time.monotonic() + _HANG_S
    while not file.exists():
        assert time.monotonic() < deadline, "the command never ran"
        time.sleep(0.01)
    return int(file.read_text())


@pytest.fixture
def before() -> set[str]:
    """What was on this machine before: another test may have killed a run, whose empty control group stays."""
    return namespaces() | {remain.name for remain in remains._cgroups()}


def await_nothing(pid: int, before: set[str]) -> list[str]:
    """The remains, after a wait, of the daemon ``pid``, namespaces and control groups; but those of ``before``."""
    deadline = time.monotonic() + _HANG_S
    while True:
        left = [f"process {pid}"] if Path(f"/proc/{pid}").exists() else []
        left += [f"namespace {name}" for name in _of_dead(namespaces() - before)]
        left += [str(remain) for remain in remains._cgroups() if not remain.alive and remain.name not in before]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)


def _of_dead(names: set[str]) -> set[str]:
    """Other runs may use this machine."""
    return {name for name in names if (tag := _owner.find(name)) is not None and not tag.alive}


@pytest.mark.parametrize("how", ["ends", "SIGKILL", "SIGTERM"])
def test_a_daemon_does_not_outlive_its_run(tmp_path: Path, before: set[str], how: str) -> None:
    out = tmp_path / "r"
    arguments = ("run", str(scenario(tmp_path, "4s" if how == "ends" else "60s")), "--method", "emul", "--quiet")
    run = weir(*arguments, "--no-report", "--out", str(out))
    try:
        daemon = await_daemon(tmp_path / "pid")
        if how != "ends":
            run.send_signal(getattr(signal, how))
        run.communicate(timeout=_HANG_S)
    finally:
        run.kill()
    assert await_nothing(daemon, before) == []


def test_a_daemon_does_not_outlive_an_emulated_link(tmp_path: Path, before: set[str]) -> None:
    command = ("env", "-i", sys.executable, "-c", _DAEMON, str(tmp_path / "pid"))
    done = weir("emulate", "--delay", "1ms", "--", *command)
    _, errors = done.communicate(timeout=_HANG_S)
    assert done.returncode == 0, errors
    assert await_nothing(await_daemon(tmp_path / "pid"), before) == []


def test_a_killed_guardian_is_replaced_and_told(tmp_path: Path, before: set[str]) -> None:
    mark = os.urandom(8).hex()
    arguments = ("run", str(scenario(tmp_path, "8s")), "--method", "emul", "--quiet", "--no-report")
    run = weir(*arguments, "--out", str(tmp_path / "r"), WEIR_TEST_MARK=mark)
    try:
        daemon = await_daemon(tmp_path / "pid")
        first = await_process(mark, "_guardian.py")
        os.kill(first, signal.SIGKILL)
        deadline = time.monotonic() + _HANG_S
        while not _guardians(mark) - {first}:
            assert time.monotonic() < deadline, "nobody took its place"
            time.sleep(0.05)
        _, errors = run.communicate(timeout=_HANG_S)
    finally:
        run.kill()
    assert run.returncode == 0, errors
    assert (
        "host: the process that cleans up after this run was killed; another took its place"
        in manifest_of(tmp_path / "r")["warnings"]
    )
    assert await_nothing(daemon, before) == []


def _guardians(mark: str) -> set[int]:
    return {pid for pid, command in marked(mark).items() if "_guardian.py" in command}


def test_an_emulated_link_cleans_up_itself_when_its_guardian_is_killed(tmp_path: Path, before: set[str]) -> None:
    mark = os.urandom(8).hex()
    command = (sys.executable, "-c", "import sys; open(sys.argv[1], 'w').write('x'); sys.stdin.read()", "started")
    process = subprocess.Popen(
        [sys.executable, "-m", "weir.cli", "emulate", "--delay", "1ms", "--", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "WEIR_TEST_MARK": mark},
    )
    try:
        deadline = time.monotonic() + _HANG_S
        while not (tmp_path / "started").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(await_process(mark, "_guardian.py"), signal.SIGKILL)
        out, errors = process.communicate("", timeout=_HANG_S)
    finally:
        process.kill()
    assert "was killed; the run did it itself" in out + errors
    assert await_nothing(0, before) == [] or not _of_dead(namespaces() - before)
    assert marked(mark) == {}


_BOMB = """
import os, signal, sys, time
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
    signal.signal(number, signal.SIG_IGN)
end = time.monotonic() + 8
first = os.fork()
while time.monotonic() < end:
    if first and os.path.exists(sys.argv[1]):
        os._exit(0)
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        open(sys.argv[1], "w").close()
        time.sleep(0.001)
"""
"""Forks for a while without end; its first process ends when there can be no more."""


def fenced(processes: int) -> tuple[Path, ...]:
    groups = _group.make(processes)
    if not groups:
        pytest.skip("no control group can be made here that bounds the number of processes")
    return groups


def test_a_command_that_forks_without_end_leaves_nothing(tmp_path: Path, before: set[str]) -> None:
    groups = fenced(200)
    join = f'echo 0 > {groups[0]}/cgroup.procs; exec "$@"'
    arguments = [sys.executable, "-m", "weir.cli", "emulate", "--delay", "1ms", "--", sys.executable, "-c", _BOMB]
    try:
        done = subprocess.run(
            ["sh", "-c", join, "sh", *arguments, str(tmp_path / "full")],
            capture_output=True,
            text=True,
            timeout=_HANG_S,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert (tmp_path / "full").exists(), done.stderr
        assert _of_dead(namespaces() - before) == set()
    finally:
        (groups[0] / "pids.max").write_text("max")
        for pid in (groups[0] / "cgroup.procs").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        deadline = time.monotonic() + _HANG_S
        while (groups[0] / "cgroup.procs").read_text() and time.monotonic() < deadline:
            time.sleep(0.05)
        _group.remove(groups)


def test_a_guardian_that_can_start_no_process_tries_again(tmp_path: Path) -> None:
    groups = fenced(1)
    work = {"undo": [["touch", str(tmp_path / "undone")]], "cgroup": None, "groups": []}
    process = subprocess.Popen(
        ["sh", "-c", f"echo 0 > {groups[0]}/cgroup.procs; exec {sys.executable} -I -S {_guardian.__file__} none"],
        stdin=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps(work) + "\n")
        process.stdin.close()
        time.sleep(1.0)
        assert process.poll() is None
        assert not (tmp_path / "undone").exists()
        (groups[0] / "pids.max").write_text("10")
        assert process.wait(_HANG_S) == 0
        assert (tmp_path / "undone").exists()
    finally:
        process.kill()
        process.wait()
        _group.remove(groups)


def test_a_run_has_a_bound_of_processes() -> None:
    group = _cgroup.Cgroup(f"weir-{_owner.new()}-run")
    try:
        if not _group.group_places():
            pytest.skip("no control group can be made here that bounds the number of processes")
        bounds = [Path(place) for place in group.bounds] or [group.path]
        assert [(bound / "pids.max").read_text().strip() for bound in bounds if bound] == ["4096"]
    finally:
        group.remove()
    assert not any(Path(place).exists() for place in (*group.bounds, *([group.path] if group.path else [])))


def test_clean_ends_what_is_left_in_a_group_and_in_a_namespace() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    tag = _owner.Tag(ended.pid, 1, 0)
    group, name = _cgroup.Cgroup(f"weir-{tag}-run"), f"weir-{tag}-h0"
    subprocess.run(["ip", "netns", "add", name], check=True)
    inside = subprocess.Popen(["ip", "netns", "exec", name, "sleep", "600"])
    grouped = subprocess.Popen(["sleep", "600"])
    outside = subprocess.Popen(["sleep", "600"])
    try:
        if group.path is None:
            pytest.skip("no control groups of version 2 here")
        group.take(grouped.pid)
        done = weir("clean")
        told, errors = done.communicate(timeout=_HANG_S)
        assert done.returncode == 0, errors
        assert f"removed control group {group.path}" in told
        assert f"removed namespace {name}" in told
        assert inside.wait(_HANG_S) == grouped.wait(_HANG_S) == -signal.SIGKILL
        assert outside.poll() is None
        assert not group.path.exists()
        assert name not in namespaces()
    finally:
        for process in (inside, grouped, outside):
            process.kill()
            process.wait()
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        group.remove()
