"""A far end that is killed leaves nothing, whichever step it was about to take.

An audit hook (PEP 578) in the far end and its copies counts what they are about to do to processes and files, and kills
the far end at a given number. So each step has its test, also those that are too short for a random fault.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import sys
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from weir.deploy import DeployError, Keeper
from weir.hosts import _relay
from weir.hosts.place import PlaceError
from weir.hosts.relay import reach

_PROGRAM = b"a program"
_WAIT_S = 15.0
_MOST = 200
_KILLED = """
import mmap, os, runpy, signal, struct, sys, time
at, kept = int(sys.argv.pop(1)), sys.argv.pop(1)
file = os.open(kept, os.O_RDWR)
shared = mmap.mmap(file, 4096)
os.close(file)
far_end = os.getpid()
steps = {"os.fork", "subprocess.Popen", "os.mkdir", "os.chmod", "os.truncate", "os.rename", "os.remove", "os.rmdir",
         "fcntl.flock"}

def look(event, arguments):
    if event == "open":
        path, _, flags = arguments
        event = f"open {path}"
        if not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) or not isinstance(path, str) or path[:5] in (
            "/dev/", "/proc"):
            return
    elif event not in steps:
        return
    (count,) = struct.unpack_from("q", shared)
    struct.pack_into("q", shared, 0, count + 1)
    if count == at:
        shared[8 : 8 + len(event)] = event.encode()
        os.kill(far_end, signal.SIGKILL)
        time.sleep(60)  # a copy: it is killed with the far end

sys.addaudithook(look)
runpy.run_path(PROGRAM, run_name="__main__")
"""
_SCRIPT = _KILLED.replace("PROGRAM", repr(_relay.__file__))


@dataclass(frozen=True)
class Node:
    """A machine with a home, a folder for files, and a file that is to be changed."""

    folder: Path

    def make(self) -> None:
        for name in ("home", "tmp"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "changed").write_text("before")
        (self.folder / "step").write_bytes(bytes(4096))

    def use(self, at: int) -> str | None:
        """Claims, changes and restores it; the step at which the far end was killed, ``None`` if it was not."""
        words = (str(at), str(self.folder / "step"), str(self.folder / "tmp"))
        environment = {"HOME": str(self.folder / "home"), "PATH": os.environ["PATH"]}
        with contextlib.suppress(PlaceError, DeployError, BrokenPipeError):
            way = reach("node", [sys.executable, "-I", "-S", "-c", _SCRIPT, *words], environment)
            try:
                keeper = Keeper(way, sys.executable)
                keeper.claim(20)
                source = way.put("program.z", zlib.compress(_PROGRAM))
                digest = hashlib.sha256(_PROGRAM).hexdigest()
                keeper.ask("install", name="weir-program", sha256=digest, source=source)
                value = base64.b64encode(b"during").decode()
                keeper.apply([{"kind": "file", "path": str(self.folder / "changed"), "value": value}])
                keeper.restore()
            finally:
                way.close()
        said = (self.folder / "step").read_bytes()[8:].rstrip(b"\0").decode()
        return said or None

    def left(self) -> list[str]:
        """What is not as before."""
        found = [str(path) for path in (self.folder / "home").rglob("*") if path.is_file()]
        found = [path for path in found if "/weir-program-" not in path]  # it stays, and is whole or not there
        found += map(str, [*(self.folder / "tmp").iterdir(), *self.folder.glob(".*")])
        if (changed := (self.folder / "changed").read_text()) != "before":
            found.append(f"the file has {changed!r}")
        return found + list(self._processes())

    def _processes(self) -> Iterator[str]:
        mark = f"HOME={self.folder / 'home'}\0".encode()
        for about in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (about / "environ").read_bytes():
                    yield f"process {(about / 'comm').read_text().strip()}"


def _attempt(folder: Path, at: int) -> tuple[str | None, list[str]]:
    node = Node(folder / str(at))
    node.make()
    step = node.use(at)
    deadline = time.monotonic() + _WAIT_S
    while (left := node.left()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return step, left


def test_nothing_is_left_of_a_far_end_that_was_killed_at_any_step(tmp_path: Path) -> None:
    steps: list[str] = []
    with ThreadPoolExecutor(4) as pool:
        for numbers in (range(first, first + 4) for first in range(0, _MOST, 4)):
            for at, (step, left) in zip(numbers, pool.map(lambda at: _attempt(tmp_path, at), numbers), strict=True):
                assert not left, f"killed at step {at}, {step}, after {steps}"
                steps += [] if step is None else [step]
            if len(steps) <= numbers[-1]:
                break
    words = [step.replace(str(tmp_path), "").rpartition("/")[2].partition("-")[0] for step in steps]
    assert len(words) < _MOST, "the last attempts were not killed"
    assert words[0] == "os.fork", "who removes the folder is there before it"
    assert words[1] == "os.mkdir"
    assert words.count("os.fork") == 6, f"watcher, watchdog; claim, install, apply, restore: {words}"
    claimed = words.index("fcntl.flock", words.index("fcntl.flock") + 1)
    assert words[:claimed].count("os.fork") == 3, f"the watchdog is there before the claim: {words}"
    assert "journal" in words
    assert ".fresh" in words
    assert ".changed.weir" in words
