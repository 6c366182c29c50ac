"""Confines untrusted programs: they run under ``weir-confine`` (``crates/weir-confine``).

    command = confine.command([sys.executable, "-m", "their.program"], confine.Policy(write=(folder,)))
    subprocess.run(command)

The program can read the host's files except devices, secrets and the dot files of the home. It writes to named places
only, opens no socket, and reaches no process outside. Its children are equally confined. ``docs/security.md`` has the
list.

A host that cannot confine refuses (:class:`ConfineError`), unless the environment variable ``WEIR_UNCONFINED=1``
permits unconfined execution; a run then records :attr:`State.warning`.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weir import _programs, _seal

__all__ = ["FAILED", "UNCONFINED", "ConfineError", "Policy", "State", "by", "command", "environment", "state"]

UNCONFINED = "WEIR_UNCONFINED"
"""The environment variable that, set to 1, permits programs to run unconfined."""

FAILED = 125
"""Exit code of a program that was not started because it could not be confined."""


class ConfineError(Exception):
    """This host cannot confine programs; the message says why and what to do."""


@dataclass(frozen=True)
class Policy:
    """The rights of a confined program beyond reading public files; see ``weir-confine --help``."""

    write: Sequence[Path] = ()
    """Folders and files that it may write, in any way except making devices."""
    files: Sequence[Path] = ()
    """Folders in which it may write and make files and folders, but no links, pipes or sockets, so that nothing leads
    readers of the results elsewhere.
    """
    read: Sequence[Path] = ()
    """Paths that it may read even if they are hidden otherwise."""
    hide: Sequence[Path] = ()
    """Paths that it may not read, except those of ``read`` inside."""
    work: Path | None = None
    """Its working directory: it ends with :data:`FAILED` if that is hidden from it."""
    trace: bool = False
    """Whether it may trace its own children, as User-Mode Linux does."""
    alone: bool = False
    """Whether it may start no process; then nothing of it is left when it is killed."""
    keep: Sequence[int] = ()
    """File descriptors that it inherits besides 0, 1 and 2."""
    memory_bytes: int | None = None
    """Address space of each process."""
    cpu_s: int | None = None
    """Processor time of each process."""
    file_bytes: int | None = None
    """Size of each file."""
    open_files: int | None = None
    """Open files of each process: pipes and sockets hold memory of the kernel's."""
    processes: int | None = None
    """Processes and threads beside those that the user has already; for root, groups bound them."""
    groups: Sequence[Path] = ()
    """Control groups that it joins (:mod:`weir._group`)."""


@dataclass(frozen=True)
class State:
    """How this host confines programs."""

    kind: str
    """The mechanism that guards files: ``landlock`` or ``namespaces``; ``none`` without one, ``off`` if switched off.
    """
    gaps: tuple[str, ...] = ()
    """Rights of a confined program here that a newer kernel would deny."""
    why: str | None = None
    """Why programs cannot be confined, if they cannot."""

    @property
    def warning(self) -> str | None:
        """The warning for runs that execute untrusted programs; ``None`` if all is well."""
        if self.kind == "off":
            return f"programs of the scenario were not confined: {UNCONFINED}=1 was set"
        if self.gaps:
            return f"programs of the scenario were confined in part; this kernel does not keep them from: {self._open}"
        return None

    @property
    def _open(self) -> str:
        return ", ".join(self.gaps)


def state() -> State:
    """How this host confines programs."""
    if os.environ.get(UNCONFINED) == "1":
        return State("off")
    try:
        program = _programs.find("weir-confine")
    except _programs.ProgramError as error:
        return State("none", why=str(error))
    return _state(program)


@functools.cache
def _state(program: Path) -> State:
    try:
        done = subprocess.run([program, "--status"], capture_output=True, text=True, timeout=60, check=False)
        told = json.loads(done.stdout)
        return State(told["kind"], tuple(told["gaps"]), told.get("why"))
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
        return State("none", why=f"{program} does not work: {error}")


def command(arguments: Sequence[str], policy: Policy | None = None) -> list[str]:
    """The argument list that executes ``arguments`` confined; ``arguments`` itself if confinement was switched off.

    ``arguments[0]`` is looked up in PATH at execution. The program ends with :data:`FAILED` if confinement fails.

    Raises:
        ConfineError: this host cannot confine.
    """
    program = by()
    return list(arguments) if program is None else [str(program), *_options(policy or Policy()), "--", *arguments]


def by() -> Path | None:
    """The path of the confining program; ``None`` if confinement was switched off.

    Raises:
        ConfineError: this host cannot confine.
    """
    here = state()
    if here.kind == "none":
        raise ConfineError(
            f"untrusted programs cannot be confined here: {here.why}. {UNCONFINED}=1 runs them all the same, with "
            "all your rights"
        )
    return None if here.kind == "off" else _programs.find("weir-confine")


_PASSED = frozenset(
    {
        *("HOME", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "SHELL", "TEMP", "TERM", "TMP", "TMPDIR"),
        *("TZ", "USER", "VIRTUAL_ENV", "XDG_CACHE_HOME", "XDG_STATE_HOME"),
    }
)
_PASSED_BEGINS = ("LC_", "MALLOC_", "OMP_", "PYTHON", "RUST_", "WEIR_")


def environment(**more: str) -> dict[str, str]:
    """This process' variables that weir, Python and libraries need, plus ``more``; no token, no password.

    Untrusted code inside a process of weir can read that process' environment.
    """
    needed = {name: value for name, value in os.environ.items() if name in _PASSED or name.startswith(_PASSED_BEGINS)}
    return {**needed, **more}


def _options(policy: Policy) -> list[str]:
    hidden = [
        place for place in (_seal.folder(),) if place.is_dir()
    ]  # the key with which weir recognises its own objects
    named = (
        *(("write", policy.write), ("files", policy.files), ("read", policy.read), ("hide", (*policy.hide, *hidden))),
        ("group", policy.groups),
        ("work", () if policy.work is None else (policy.work,)),
    )
    limits = (
        *(("memory", policy.memory_bytes), ("cpu", policy.cpu_s), ("file", policy.file_bytes)),
        *(("files", policy.open_files), ("processes", policy.processes)),
    )
    return [
        *(f"--{name}={value}" for name, values in named for value in values),
        *(f"--keep={descriptor}" for descriptor in policy.keep),
        *(f"--limit-{name}={value}" for name, value in limits if value is not None),
        *(["--trace"] if policy.trace else []),
        *(["--alone"] if policy.alone else []),
    ]
