"""A test bed with real servers of OpenSSH, and runs of ``weir`` on it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from nodes_support import text

from shared import argv, called, environment
from weir import testbed

__all__ = ["SAVE", "Bed", "made_bed", "running", "scenario", "until"]

NODES = ("a1", "a2", "b1", "b2")
SAVE = "/proc/sys/net/ipv4/tcp_no_metrics_save"
_COUNT = itertools.count()
LEFT = f"cat {SAVE}; ls ~/.local/state/weir /tmp 2>/dev/null | grep -E 'journal|weir-'; pgrep 'weir|python'"


class Bed:
    """A test bed of four nodes."""

    def __init__(self, state: Path, name: str, inventory: str) -> None:
        self.state = state
        self.name = name
        self.inventory = Path(inventory)

    def weir(self, *arguments: str) -> str:
        """The output of a command of weir, which succeeds."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(self.state))
            done = called(*arguments)
        assert done.code == 0, done.err
        return done.out

    @property
    def environment(self) -> dict[str, str]:
        return environment(XDG_STATE_HOME=str(self.state))

    def exec(self, node: str, line: str) -> str:
        """The output of a shell in a node."""
        done = subprocess.run(self._shell(node, line), capture_output=True, text=True, check=False)
        return done.stdout.strip()

    def _shell(self, node: str, line: str) -> list[str]:
        """What ``weir testbed exec`` executes; a process of weir less."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(self.state))
            found = testbed.find(self.name)
        assert found is not None
        return found.command(node, ("sh", "-c", line))

    @contextlib.contextmanager
    def about_to(self, node: str, line: str) -> Iterator[Callable[[], object]]:
        """A shell in a node that waits, and executes ``line`` at once when the result is called."""
        command = self._shell(node, f"echo ready; read x; {line}")
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as shell:
            assert shell.stdout is not None
            assert shell.stdout.readline() == "ready\n"
            yield lambda: shell.communicate("\n")

    def start(self, scenario: Path, run: Path) -> subprocess.Popen[str]:
        """Starts ``weir run``."""
        command = argv("run", str(scenario), "--on", str(self.inventory), "--out", str(run), "--no-report")
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=self.environment)

    def is_clean(self) -> bool:
        """Whether nothing is left on any node."""
        return all(self.exec(node, LEFT) == "0" for node in NODES)


@contextlib.contextmanager
def made_bed(tmp_path_factory: pytest.TempPathFactory, *options: str) -> Iterator[Bed]:
    """A test bed, with options of ``weir testbed up``; skips the test if there can be none."""
    state = tmp_path_factory.mktemp("state")
    name = f"t{os.getpid():x}{next(_COUNT)}"
    tried = subprocess.run(
        argv("testbed", "up", "--name", name, "--json", *options),
        capture_output=True,
        text=True,
        env=environment(XDG_STATE_HOME=str(state)),
        check=False,
    )
    if tried.returncode == 2:
        pytest.skip(f"no test bed: {tried.stderr.strip()}")
    assert tried.returncode == 0, tried.stderr
    made = Bed(state, name, json.loads(tried.stdout)["inventory"])
    try:
        yield made
    finally:
        made.weir("testbed", "down", "--name", name)


def until(true: Callable[[], bool], seconds: float = 30.0) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.3)
    return True


def scenario(folder: Path, until_s: str = "8s") -> Path:
    path = folder / "test.yaml"
    path.write_text(text(until=until_s, rtt="18ms", rate="1Gbps") + "sweep: {transport.buffers: [1MB, 2MB]}\n")
    return path


def running(run: subprocess.Popen[str], folder: Path, number: int = 0) -> None:
    """Waits until the cell with that number is executed, and its agents run."""
    name = f"{number:04}-r0"
    assert until(lambda: any(folder.glob(f".partial/{name}-*/job-b2.json")), 120), run.poll()
    time.sleep(3)
