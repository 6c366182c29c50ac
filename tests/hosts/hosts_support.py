"""The places that there are, and one that stands for a machine behind SSH."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from weir.hosts.guest import Guest
from weir.hosts.local import Local
from weir.hosts.place import Place
from weir.hosts.relay import far_end, reach
from weir.lab import find, unavailable

AHEAD_S = 100_000
"""How far the clock of the machine elsewhere is ahead of ours."""

NAMES = ("machine", "namespace", "guest", "elsewhere")
"""Places by what they are; each passes the same tests."""

Make = Callable[[str], Place]


def namespace(stack: ExitStack) -> Place:
    if os.geteuid() != 0:
        pytest.skip("a network namespace needs root")
    holder = stack.enter_context(
        subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && read x"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
    )
    assert holder.stdin is not None
    stack.callback(holder.stdin.close)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"up\n"
    return Local(network=f"/proc/{holder.pid}/ns/net", name="a namespace")


def guest() -> Place:
    if (why := unavailable()) is not None:
        pytest.skip(f"no lab: {why}")
    kernel = find()
    assert kernel is not None
    return Guest(kernel)


def elsewhere(root: Path) -> Place:
    """As through ``ssh HOST``: a line for a shell, no file or variable of ours, a folder and a clock of its own."""
    clock = f"unshare --time --monotonic {AHEAD_S} " if os.geteuid() == 0 else ""
    line = f"echo Welcome; cd {shlex.quote(str(root))} && exec {clock}{shlex.join(far_end(str(root), carried=True))}"
    return reach("elsewhere", ["env", "-i", f"PATH={os.environ['PATH']}", "sh", "-c", line])
