"""Logs of nodes: what agents write, and the messages of the kernels."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
from nodes_support import Nodes, text

from shared import Memory, plan_of
from weir.archive import pack, unpack
from weir.deploy import KernelLog
from weir.deploy.node import kernel_log
from weir.hosts.local import Local
from weir.hosts.log import Log
from weir.methods import About
from weir.methods.hosts import Hosts
from weir.methods.hosts._work import Work


def say_to_kernel(message: str) -> None:
    try:
        Path("/dev/kmsg").write_text(f"{message}\n")
    except OSError as error:
        pytest.skip(f"the kernel's log cannot be written: {error}")


def test_the_kernels_messages_of_a_run_are_in_its_folder_and_in_its_archive(nodes: Nodes, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    say_to_kernel("weir test: before the run")
    method = Hosts(nodes.connect).on(str(nodes.inventory()))
    method.prepare(About(run=run, cell="c0"))
    method.execute(json.dumps(plan_of(text(until="1s"))), Memory(), lambda *_: None)
    say_to_kernel("weir test: during the run")
    method.close()
    about = json.loads((run / "logs" / "kernel.json").read_text())
    assert {name: one["why"] for name, one in about.items()} == dict.fromkeys(nodes.names)
    for name in nodes.names:
        log = (run / "logs" / f"{name}.kernel.txt").read_text()
        assert "weir test: during the run" in log
        assert "before the run" not in log
        assert about[name]["bytes"] == len(log.encode())
    (run / "scenario.yaml").write_text("title: t\n")
    cell = run / "cells" / "c0"
    cell.mkdir(parents=True)
    (cell / "manifest.json").write_text("{}")
    pack(run, tmp_path / "run.tar.gz")
    assert (unpack(tmp_path / "run.tar.gz", tmp_path / "back") / "logs" / "a1.kernel.txt").is_file()


def test_what_a_node_may_not_read_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> bytes:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(kernel_log, "_ring", refused)
    assert kernel_log.kernel_log_mark() == ""
    assert kernel_log.kernel_log_since("") == {
        "text": "",
        "left_out": 0,
        "why": "cannot be read: Operation not permitted",
    }


def test_the_messages_after_a_mark_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_log, "_ring", lambda: b"a\nmark\nb\nc\n")
    assert kernel_log.kernel_log_since("mark")["text"] == "b\nc\n"
    assert kernel_log.kernel_log_since("fell out of the ring")["text"] == "a\nmark\nb\nc\n"
    monkeypatch.setattr(kernel_log, "_MOST_LOG_BYTES", 3)
    assert kernel_log.kernel_log_since("mark") == {"text": "\nc\n", "left_out": 1, "why": None}


@pytest.mark.parametrize("said", [None, [], {"text": 5, "left_out": "x", "why": []}])
def test_a_node_may_say_anything(said: object) -> None:
    assert KernelLog.of(said) == KernelLog("", 0, None)
    assert len(KernelLog.of({"text": "x" * 10_000_000}).text) == 1 << 18


def test_a_continued_run_adds_to_its_logs(tmp_path: Path) -> None:
    for number in range(3):
        Work(tmp_path).keep_logs({"a1": KernelLog(f"line {number}\n", 0, None), "b1": KernelLog("", 0, "no right")})
    assert (tmp_path / "logs" / "a1.kernel.txt").read_text() == "line 0\nline 1\nline 2\n"
    assert not (tmp_path / "logs" / "b1.kernel.txt").exists()
    assert json.loads((tmp_path / "logs" / "kernel.json").read_text())["b1"]["why"] == "no right"


def test_a_log_keeps_its_beginning_and_its_end() -> None:
    log = Log(half_bytes=4)
    for part in (b"abc", b"def", b"ghijkl", b"m"):
        log.add(part)
    assert log.content() == b"abcd\n[5 bytes left out]\njklm"
    small = Log(half_bytes=4)
    small.add(b"abcdefgh")
    assert small.content() == b"abcdefgh"


def test_the_standard_error_of_an_agent_is_kept() -> None:
    import queue

    from weir.hosts.processes import Process

    place = Local()
    command = [sys.executable, "-c", "import sys; sys.stderr.write('weir-agent: oops\\n' + 'x' * 1000000)"]
    process = Process("a1", place.start(command), place, queue.SimpleQueue())
    deadline = time.monotonic() + 20
    while b"left out" not in process.log.content() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.close()
    assert process.log.content().startswith(b"weir-agent: oops\nxxx")
    assert len(process.log.content()) < 300_000
    place.close()
