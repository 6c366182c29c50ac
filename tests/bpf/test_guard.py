"""The guard of ``weir-bpf hold``, for kernels before 6.4, which keep the controls of a killed process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from bpf_support import available, gone, until

from weir._programs import find
from weir.bpf import Status


@pytest.fixture
def guard(kernel: Status) -> Iterator[subprocess.Popen[str]]:
    """A guarded holder with one loaded control."""
    command = [str(find("weir-bpf")), "hold", "--guarded"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert ask(process, {"load": [{"cc": "reno", "as": name(process)}]}) == {
                "loaded": name(process),
                "cc": "reno",
            }
            assert name(process) in available()
            yield process
        finally:
            process.kill()
    assert gone({name(process)})


def name(process: subprocess.Popen[str]) -> str:
    return f"wg{process.pid:x}"


def ask(process: subprocess.Popen[str], request: dict[str, object]) -> object:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def holder(process: subprocess.Popen[str]) -> int:
    """The process that the guard started."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split()
    assert len(children) == 1
    return int(children[0])


def ended(process: int) -> bool:
    """Whether a process is gone, or dead and not yet reaped."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_what_is_said_passes_through(guard: subprocess.Popen[str]) -> None:
    assert ask(guard, {"unload": [name(guard)]}) == {"unloaded": name(guard)}
    assert gone({name(guard)})
    answer = ask(guard, {"load": [{"cc": "cubci"}]})
    assert isinstance(answer, dict)
    assert answer["code"] == "bad-input"


def test_the_end_of_the_input_ends_both(guard: subprocess.Popen[str]) -> None:
    child = holder(guard)
    assert guard.stdin is not None
    guard.stdin.close()
    assert guard.wait(10) == 0
    assert gone({name(guard)})
    assert ended(child)


def test_the_holder_killed_ends_the_guard(guard: subprocess.Popen[str]) -> None:
    os.kill(holder(guard), signal.SIGKILL)
    guard.wait(10)
    assert gone({name(guard)})


def test_the_guard_killed_ends_the_holder(guard: subprocess.Popen[str]) -> None:
    child = holder(guard)
    guard.kill()
    guard.wait(10)
    assert gone({name(guard)})
    assert until(lambda: ended(child), 10)
