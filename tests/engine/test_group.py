"""Control groups end with those who made them: killed processes are waited for, groups of killed owners swept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from weir import _group

_MAKE = """
import os, signal
from weir import _group
print(*_group.make(16), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def group() -> Path:
    made = _group.make(16)
    if not made:
        pytest.skip("no control group can be made here")
    return made[0]


def test_a_process_that_is_about_to_end_is_waited_for(group: Path) -> None:
    with subprocess.Popen(["sleep", "0.3"]) as process:
        (group / "cgroup.procs").write_text(str(process.pid))
        _group.remove([group])
    assert not group.exists()


def test_the_group_of_a_killed_process_goes_with_the_next(group: Path) -> None:
    left = Path(subprocess.run([sys.executable, "-c", _MAKE], stdout=subprocess.PIPE, text=True).stdout.split()[0])
    assert left.is_dir()
    _group.remove(_group.make(16))
    assert not left.exists()
    assert group.is_dir(), "its owner lives"
    _group.remove([group])
