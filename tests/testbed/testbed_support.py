"""What tests of test beds ask: SSH by the system's client, and what is left of a test bed."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from weir import _owner
from weir.testbed import Bed

PATIENCE_S = 20.0


def ssh(bed: Bed, node: str, *command: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Runs ``command`` in ``node`` by the system's client."""
    words = ["ssh", "-F", str(bed.config), "-o", "BatchMode=yes", *options, node, *command]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)


@dataclass(frozen=True)
class Traces:
    """What test beds of this state folder leave on a machine if they do not clean up; those of others do not count."""

    processes: frozenset[int]
    interfaces: frozenset[str]
    mounts: tuple[str, ...]
    namespaces: frozenset[str]

    @classmethod
    def now(cls) -> Traces:
        """What there is."""
        pids = {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()}
        ours = frozenset(pid for pid in pids if _belongs(pid))
        # Process-id namespaces of nodes: ``sshd`` writes its title over its environment. Numbers are used again: those
        # of nodes that have ended say nothing. The kernel ends all processes of a namespace with its first.
        nodes = {_space(pid) for pid in ours} - {0, _space(os.getpid())}
        names = Path("/run/netns")
        return cls(
            ours | {pid for pid in pids if _space(pid) in nodes},
            frozenset(path.parent.name for path in Path("/sys/class/net").glob("*/ifalias") if _is_ours(path)),
            tuple(line for line in Path("/proc/self/mounts").read_text().splitlines() if "testbed" in line),
            frozenset(path.name for path in names.iterdir() if _owner.find(path.name))
            if names.is_dir()
            else frozenset(),
        )


def _belongs(pid: int) -> bool:
    return _owner.of_process(pid) is not None


def _space(pid: int) -> int:
    try:
        return Path(f"/proc/{pid}/ns/pid").stat().st_ino
    except OSError:
        return 0


def _is_ours(alias: Path) -> bool:
    try:
        return _owner.find(alias.read_text().strip()) is not None
    except OSError:
        return False


def new_since(before: Traces) -> Traces:
    """What there is now and was not before."""
    now = Traces.now()
    return Traces(
        now.processes - before.processes,
        now.interfaces - before.interfaces,
        tuple(line for line in now.mounts if line not in before.mounts),
        now.namespaces - before.namespaces,
    )


NOTHING = Traces(frozenset(), frozenset(), (), frozenset())


def eventually(condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> bool:
    """Whether ``condition`` holds before the patience is over."""
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
