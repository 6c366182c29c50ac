"""Makes the hosts of a run on this machine, and has a guardian remove them however the run ends."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

from weir._owner import ENVIRONMENT, Tag
from weir.methods import MethodError
from weir.methods.emul._wiring import Command, Wiring

__all__ = ["DISCIPLINES", "EMULATED", "Network", "environment", "execute", "script"]

_GUARDIAN = Path(__file__).with_name("_guardian.py")
_COMMAND_S = 60.0
_TEARDOWN_S = 120.0


class Network:
    """The hosts of a run: namespaces, devices, routes, settings. A context manager.

    Entering makes them, leaving removes them. If this process is killed, the guardian notices and removes them.
    """

    def __init__(self, wiring: Wiring, tag: Tag) -> None:
        """Nothing is made before the context is entered."""
        self.wiring = wiring
        self.tag = tag
        self._guardian: subprocess.Popen[str] | None = None

    def __enter__(self) -> Network:
        """Makes the hosts.

        Raises:
            MethodError: a command failed; what was made is removed.
        """
        self._guardian = _start_guardian(self.wiring, self.tag)
        try:
            execute(self.wiring.up)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Removes them, with the processes of the run that still run."""
        self._remove()

    def _remove(self) -> None:
        guardian, self._guardian = self._guardian, None
        if guardian is None:
            return
        assert guardian.stdin is not None
        guardian.stdin.close()
        guardian.wait(_TEARDOWN_S)


def environment(tag: Tag) -> dict[str, str]:
    """The environment of a process of the run ``tag``: by it the guardian and ``weir clean`` know it."""
    return {**os.environ, ENVIRONMENT: str(tag)}


def _start_guardian(wiring: Wiring, tag: Tag) -> subprocess.Popen[str]:
    guardian = subprocess.Popen(
        [sys.executable, "-I", "-S", str(_GUARDIAN), str(tag)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert guardian.stdin is not None
    guardian.stdin.write(json.dumps({"undo": wiring.down}) + "\n")
    guardian.stdin.flush()
    return guardian


def execute(commands: Sequence[Command]) -> None:
    """Executes ``commands``, several with one call where a program can do that.

    Raises:
        MethodError: one failed.
    """
    for batch in _batches(commands):
        _execute(batch)


Batch = tuple[Command, str]
"""A command, and what it reads from standard input."""


def _batches(commands: Sequence[Command]) -> Iterator[Batch]:
    """``commands`` with neighbours that one call can execute in one: a call costs milliseconds, and hosts are many."""
    for start, group in itertools.groupby(commands, _batchable):
        if start is None:
            yield from ((command, "") for command in group)
        else:
            lines = (" ".join(command[len(start) :]) for command in group)
            yield (*start, "-batch", "-"), "\n".join(lines) + "\n"


def _batchable(command: Command) -> Command | None:
    """The words before the line of a batch that ``command`` would be; ``None`` for a program without batches."""
    if command[0] not in {"ip", "tc"}:
        return None
    return command[:3] if command[1] == "-n" else command[:1]


def _execute(batch: Batch) -> None:
    command, lines = batch
    try:
        done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=_COMMAND_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MethodError(f"`{shlex.join(command)}` could not be executed: {error}") from error
    if done.returncode != 0:
        what = done.stderr.strip() or f"status {done.returncode}"
        given = f" (given {lines.strip()!r})" if lines else ""
        raise MethodError(f"`{shlex.join(command)}`{given} failed: {what}")


EMULATED = """# The network between them is the program weir-emu, which attaches to their devices:
#   weir-emu < job-emulator.json
"""
DISCIPLINES = "# The network between them is made of the kernel's queueing disciplines: all of it is here.\n"

_HEAD = """#!/bin/sh
# The hosts of this cell. Run as root; `{name} down` removes them again.
{network}set -eu
"""


def script(wiring: Wiring, network: str = EMULATED) -> str:
    """A shell script that makes the same hosts by hand, and removes them; ``network``: what is between them."""
    down = "\n".join(f"    {shlex.join(command)} || true" for command in wiring.down)
    up = "\n".join(shlex.join(command) for command in wiring.up)
    head = _HEAD.format(name="commands.sh", network=network)
    return f'{head}if [ "${{1:-up}}" = down ]; then\n{down}\n    exit 0\nfi\n{up}\n'
