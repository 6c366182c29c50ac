"""Creates the hosts of a run on this machine; a guardian removes them however the run ends."""

from __future__ import annotations

import itertools
import json
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from weir._errors import MethodError
from weir._owner import ENVIRONMENT, Tag
from weir.hosts._cgroup import Cgroup
from weir.hosts._guardian import Work
from weir.hosts.guardian import Guardian
from weir.hosts.local import Local
from weir.hosts.place import Place
from weir.hosts.wiring import Command, Wiring

__all__ = ["DISCIPLINES", "EMULATED", "Network", "environment", "execute", "script"]

_COMMAND_S = 60.0
_TEARDOWN_S = 120.0


class Network:
    """The hosts of a run: namespaces, devices, routes, settings. A context manager.

    Entering creates them, leaving removes them. If this process is killed, the guardian notices and removes them; if
    the guardian is killed, this process does.
    """

    def __init__(self, wiring: Wiring, tag: Tag) -> None:
        """Creates nothing before the context is entered."""
        self.wiring = wiring
        self.tag = tag
        self.warnings: list[str] = []
        """Problems with the guardian."""
        self._cgroup: Cgroup | None = None
        self._guardian: Guardian | None = None
        self._networks: list[int] = []

    def __enter__(self) -> Network:
        """Creates the hosts.

        Raises:
            MethodError: a command failed; everything created is removed.
        """
        self._cgroup = Cgroup(f"weir-{self.tag}-run")
        self._guardian = self._start_guardian()
        try:
            execute(self.wiring.up)
            self._networks = [_number_of(name) for name in _namespaces(self.wiring)]
            self._guardian.tell({"networks": self._networks})
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Removes them, with the remaining processes of the run."""
        self._remove()

    def join(self) -> None:
        """Adds this process, a child that is about to execute a program, to the run."""
        if self._cgroup is not None:
            self._cgroup.join()

    def take(self, pid: int) -> None:
        """Adds the process ``pid`` and its future children to the run."""
        if self._cgroup is not None:
            self._cgroup.take(pid)

    def watch(self) -> None:
        """Replaces a killed guardian, and warns; to be called periodically."""
        if self._guardian is None or not self._guardian.killed():
            return
        self._guardian = self._start_guardian()
        self._guardian.tell({"networks": self._networks})
        self.warnings.append("host: the process that cleans up after this run was killed; another took its place")

    def _remove(self) -> None:
        guardian, self._guardian = self._guardian, None
        if guardian is None:
            return
        if not guardian.finish(_TEARDOWN_S):
            self.warnings.append("host: the process that cleans up after this run was killed; the run did it itself")
            work = Work(str(self.tag))
            work.take(json.dumps(self._undo()))
            work.take(json.dumps({"networks": self._networks}))
            work.undo()
        if self._cgroup is not None:
            self._cgroup.remove()

    def _undo(self) -> dict[str, Any]:
        path = None if self._cgroup is None else self._cgroup.path
        groups = () if self._cgroup is None else self._cgroup.bounds
        return {"undo": self.wiring.down, "cgroup": None if path is None else str(path), "groups": groups}

    def _start_guardian(self) -> Guardian:
        return Guardian(self.tag, self._undo())


def _namespaces(wiring: Wiring) -> list[str]:
    return [command[3] for command in wiring.down if command[:3] == ("ip", "netns", "del")]


def _number_of(namespace: str) -> int:
    return Path("/run/netns", namespace).stat().st_ino


def environment(tag: Tag) -> dict[str, str]:
    """The environment of a process of the run ``tag``, by which the guardian and ``weir clean`` recognise it."""
    return {**os.environ, ENVIRONMENT: str(tag)}


def execute(commands: Sequence[Command], place: Place | None = None) -> None:
    """Executes ``commands`` at ``place``, by default this machine; several with one call if a program supports that.

    Raises:
        MethodError: one failed.
    """
    place = place or Local()
    for batch in _batches(commands):
        _execute(batch, place)


Batch = tuple[Command, str]
"""A command, and its standard input."""


def _batches(commands: Sequence[Command]) -> Iterator[Batch]:
    """Merges neighbouring ``commands`` that one call can execute: a call costs milliseconds, and hosts are many."""
    for start, group in itertools.groupby(commands, _batchable):
        if start is None:
            yield from ((command, "") for command in group)
        else:
            lines = (" ".join(command[len(start) :]) for command in group)
            yield (*start, "-batch", "-"), "\n".join(lines) + "\n"


def _batchable(command: Command) -> Command | None:
    """The words of a batch call for ``command``; ``None`` for a program without batches."""
    if command[0] not in {"ip", "tc"}:
        return None
    return command[:3] if command[1] == "-n" else command[:1]


def _execute(batch: Batch, place: Place) -> None:
    command, lines = batch
    done = place.run(command, lines.encode(), _COMMAND_S)
    if done.code != 0:
        what = done.err.decode(errors="replace").strip() or f"status {done.code}"
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
    """A shell script that creates the same hosts by hand, and removes them; ``network``: what connects them."""
    down = "\n".join(f"    {shlex.join(command)} || true" for command in wiring.down)
    up = "\n".join(shlex.join(command) for command in wiring.up)
    head = _HEAD.format(name="commands.sh", network=network)
    return f'{head}if [ "${{1:-up}}" = down ]; then\n{down}\n    exit 0\nfi\n{up}\n'
