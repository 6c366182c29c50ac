"""Programs in the lab are root there and forge weir's input from it. The run fails with the reason; weir does not."""

from __future__ import annotations

import os
import resource
import tempfile
from pathlib import Path
from typing import Any

import pytest

from shared import execute, plan_of
from weir import _memory
from weir._remove import remove_tree
from weir.lab import HungError, Kernel, Lab, LabError, Script, Settings, _lab
from weir.lab._results import written
from weir.methods import MethodError

_TO_AGENT = (
    "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null | grep -q weir-agent && A=$p; done; "
    "printf '%b' '{}' > $A/fd/1; sleep 1"
)


_SCENARIO = """
title: forged
topology:
  dumbbell: {{pairs: 2, access: {{rate: 100Mbps}}, bottleneck: {{rate: 20Mbps, queue: 1bdp}}, rtt: 40ms}}
transport: {{cc: reno}}
workload:
  - {{name: bulk, kind: bulk, between: "pairs[0]", transport: {{cc: cubic}}, until: 1s}}
  - name: x
    kind: command
    between: "pairs[1]"
    start: 300ms
    command: [sh, {script}]
    peer: [sleep, "100"]
    ready: {{after: 500ms}}
duration: 1s
"""


def plan(folder: Path, command: str) -> dict[str, Any]:
    """A plan of a flow of weir's, and a program that runs ``command``."""
    script = folder / "attack.sh"
    script.write_text(command, encoding="utf-8")
    return plan_of(_SCENARIO.format(script=script))


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("truncate -s 1T /run/weir/agent.out; sleep 1", "a file of it grew beyond [0-9]+ bytes"),
        (
            "truncate -s 1G /run/weir/agent.out; sleep 1",
            "agent wrote what cannot be read: (a line of more than|not a message)",
        ),
        (_TO_AGENT.format(r'{"message":"file","name":"x","bytes":-1}\n'), "agent wrote .*'bytes' of 'file' is -1"),
        (_TO_AGENT.format(r'{"message":"progress","now_ns":"x"}\n'), "agent wrote .*'now_ns' of 'progress' is 'x'"),
        (
            _TO_AGENT.format(r'{"message":"file","name":"manifest.json","bytes":3}\nabc'),
            "agent wrote .*'manifest.json', which no program of the plan leaves",
        ),
        ("rm /run/weir/rows.out; sleep 1", "the lab left no rows.out"),
        (
            "mkdir /run/weir/n; cd /run/weir/n; seq 11000 | xargs touch; while :; do :; done",
            "it made more than 10000 files",
        ),
    ],
    ids=["huge", "sparse", "negative", "text", "manifest", "gone", "many"],
)
def test_what_is_forged_is_told(kernel: Kernel, tmp_path: Path, command: str, message: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(MethodError, match=message):
        execute("lab", plan(tmp_path, command))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes


@pytest.mark.parametrize(
    "loop",
    [
        "while :; do echo 5 > /run/weir/clock; echo 6 > /run/weir/clock; done",
        "while :; do head -c 9000 /dev/zero | tr '\\0' 9 > /run/weir/clock; done",
        "while :; do echo ² > /run/weir/clock; done",
    ],
)
def test_a_forged_clock_is_no_progress(kernel: Kernel, loop: str) -> None:
    script = Script()
    script.add("exec", "sh", "-c", loop)
    with (
        Lab(kernel, script, Settings(limit_ns=10**9, patience_s=4.0)) as lab,
        pytest.raises(HungError, match=r"its clock stood at|past the"),
    ):
        lab.wait()


def test_a_clock_that_is_forged_forward_ends_with_the_wall_time(kernel: Kernel) -> None:
    script = Script()
    script.add("exec", "sh", "-c", "i=0; while :; do i=$((i+60000000)); echo $i > /run/weir/clock; done")
    with (
        Lab(kernel, script, Settings(patience_s=60.0, wall_s=4.0)) as lab,
        pytest.raises(HungError, match="after 4 s of wall time"),
    ):
        lab.wait()


@pytest.mark.parametrize("told", ["exit ²", f"exit {'9' * 9000}", "exit 99999", "exit -1", "exit"])
def test_an_exit_code_that_is_none_is_told(kernel: Kernel, told: str) -> None:
    script = Script()
    script.add("exec", "true")
    with Lab(kernel, script) as lab:
        lab.wait()
        assert lab.exit_code() == 0
        (lab.folder / "status").write_text(told, encoding="utf-8")
        with pytest.raises(LabError, match="ended by itself"):
            lab.exit_code()


def test_a_guest_does_not_say_that_it_has_ended(kernel: Kernel) -> None:
    script = Script()
    script.add("exec", "sh", "-c", "echo 0 > /run/weir/ended; mkdir /run/weir/end; sleep 1; echo all; exit 7")
    with Lab(kernel, script) as lab:
        lab.wait()
        assert lab.exit_code() == 7
        assert lab.output("stdout").read() == b"all\n"


def test_a_lab_that_fills_the_disk_is_ended(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lab, "_LOOK_S", 0.1)
    script = Script()
    script.add("exec", "sh", "-c", "head -c 60000000 /dev/zero > /run/weir/big; sync; while :; do :; done")
    with (
        Lab(kernel, script, Settings(disk_bytes=50_000_000)) as lab,
        pytest.raises(LabError, match="it wrote more than 50000000 bytes"),
    ):
        lab.wait()


_HOST = "mkdir /run/m; mount -t hostfs none /run/m -o {}; cd /run/m; "


def test_a_lab_that_fills_the_folder_of_its_memory_is_ended(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lab, "_LOOK_S", 0.1)
    script = Script()
    script.add(
        "exec",
        "sh",
        "-c",
        _HOST.format("/dev/shm")
        + "for d in weir-lab-*; do head -c 60000000 /dev/zero > $d/b; done; while :; do :; done",
    )
    with Lab(kernel, script, Settings(disk_bytes=50_000_000)) as lab:
        if lab._memory == lab.folder:
            pytest.skip("the memory of labs is no folder of its own here")
        with pytest.raises(LabError, match="it wrote more than 50000000 bytes"):
            lab.wait()


def test_what_is_written_in_folders_that_are_too_deep_or_closed_counts(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / "file").write_bytes(bytes(1 << 20))
    (tmp_path / "closed").chmod(0o300)
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(2000):  # more characters of path than a system call takes
        os.mkdir("nnn", dir_fd=here)
        deeper = os.open("nnn", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    file = os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here)
    os.write(file, bytes(1 << 20))
    os.close(file)
    os.close(here)
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert written((tmp_path, tmp_path), 2 << 20) == "it wrote more than 2097152 bytes"  # folders take room, too
    assert written((tmp_path, tmp_path, tmp_path / "gone"), 20 << 20) is None
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    remove_tree(tmp_path / "nnn")  # pytest would not get to its bottom
    assert written((tmp_path,), 1 << 20) == "it wrote more than 1048576 bytes"


def test_folders_that_would_take_all_descriptors_are_too_many(tmp_path: Path) -> None:
    here = tmp_path
    for level in range(600):
        for name in (f"a{level}", f"b{level}"):  # whichever is met first, about every other time the other waits
            (here / name).mkdir()
        here = here / f"b{level}"
    told = written((tmp_path,), 1 << 30)
    remove_tree(tmp_path / "b0")  # pytest would not get to its bottom
    assert told == "it made more than 10000 files, or folders within folders"


def test_what_a_lab_may_write_to_a_folder_in_memory_is_no_use_of_too_much(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path("/dev/shm").is_dir() or not _memory.is_in_memory(Path("/dev/shm")):
        pytest.skip("there is no file system in memory here")
    monkeypatch.setattr(tempfile, "tempdir", "/dev/shm")
    script = Script()
    script.add("exec", "true")
    with Lab(kernel, script, Settings(memory_mb=192, disk_bytes=1 << 30)) as lab:
        assert lab._host_bytes == (2 * 192 << 20) + (2 << 30)
        lab.wait()
        assert lab.exit_code() == 0


def test_a_lab_that_takes_too_much_memory_is_ended(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lab, "_MEMORY_TIMES", 1)
    monkeypatch.setattr(_lab, "_HOST_BYTES", 64 << 20)
    script = Script()
    script.add(
        "exec",
        "sh",
        "-c",
        _HOST.format("/dev/shm") + "for d in weir-lab-*; do head -c 300000000 /dev/zero > $d/b; done; sleep 1d",
    )
    with Lab(kernel, script, Settings(memory_mb=192)) as lab:
        assert _memory.is_in_memory(lab._memory) or lab._memory == lab.folder
        if lab._memory == lab.folder or (len(lab._groups) < 2 and "memory" not in str(lab._groups)):
            pytest.skip("there is no control group for memory here, or no file system in memory")
        lab.wait()
        with pytest.raises(LabError, match="the usual reason is memory: it may take 256 MiB"):
            lab.exit_code()
