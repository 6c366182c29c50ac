"""Confines programs that somebody else wrote: they run under ``weir-confine`` (``crates/weir-confine``).

    command = confine.command([sys.executable, "-m", "their.program"], confine.Policy(write=(folder,)))
    subprocess.run(command)

The program reads the files of the host without devices, secrets and the dot files of the home, writes to named places
only, opens no socket, and reaches no process outside; what it starts is as confined. ``docs/security.md`` has the list.

A host that cannot confine refuses (:class:`ConfineError`), unless the environment variable ``WEIR_UNCONFINED=1`` says
that nobody minds; :attr:`State.warning` is then what a run has to record.
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
"""The environment variable that, set to 1, lets programs run unconfined where they would be confined."""

FAILED = 125
"""Exit code of a program that was not started because it could not be confined."""


class ConfineError(Exception):
    """This host cannot confine programs; the message says why and what to do."""


@dataclass(frozen=True)
class Policy:
    """What a confined program may do beyond reading what is public; see ``weir-confine --help``."""

    write: Sequence[Path] = ()
    """Folders and files that it may write, in any way but making devices."""
    files: Sequence[Path] = ()
    """Folders in which it may write and make files and folders, but no links, pipes or sockets: whoever reads the
    results meets nothing that leads elsewhere."""
    read: Sequence[Path] = ()
    """What it may read even where that is hidden otherwise."""
    hide: Sequence[Path] = ()
    """What it may not read, but for what ``read`` names in it."""
    work: Path | None = None
    """Where it is to work: it ends with :data:`FAILED` if that is hidden from it."""
    trace: bool = False
    """Whether it may trace its own children, as User-Mode Linux does."""
    alone: bool = False
    """Whether it may start no process: then nothing of it is left when it is killed."""
    keep: Sequence[int] = ()
    """Descriptors that it gets beside 0, 1 and 2."""
    memory_bytes: int | None = None
    """Address space of each process."""
    cpu_s: int | None = None
    """Processor time of each process."""
    file_bytes: int | None = None
    """Size of each file."""


@dataclass(frozen=True)
class State:
    """How programs are confined on this host."""

    kind: str
    """What guards files: ``landlock`` or ``namespaces``; ``none`` if there is neither, ``off`` if that is wanted."""
    gaps: tuple[str, ...] = ()
    """What a confined program may do here that it may not do on a newer kernel."""
    why: str | None = None
    """Why it cannot be done, if it cannot."""

    @property
    def warning(self) -> str | None:
        """What a run that executes programs of others has to record; ``None`` if all is well."""
        if self.kind == "off":
            return f"programs of the scenario were not confined: {UNCONFINED}=1 was set"
        if self.gaps:
            return f"programs of the scenario were confined in part, this kernel does not keep them from: {self._open}"
        return None

    @property
    def _open(self) -> str:
        return ", ".join(self.gaps)


def state() -> State:
    """How programs are confined on this host."""
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

    ``arguments[0]`` is looked up in PATH when it is executed. Ends with :data:`FAILED` if the confinement fails.

    Raises:
        ConfineError: this host cannot confine.
    """
    program = by()
    return list(arguments) if program is None else [str(program), *_options(policy or Policy()), "--", *arguments]


def by() -> Path | None:
    """The program that confines others; ``None`` if confinement was switched off.

    Raises:
        ConfineError: this host cannot confine.
    """
    here = state()
    if here.kind == "none":
        raise ConfineError(
            f"programs of others cannot be confined here: {here.why}. {UNCONFINED}=1 runs them all the same, with "
            "everything that you may do"
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
    """The variables that weir, Python and libraries need of this process', with ``more``; no token, no password.

    Programs of others that run within a process of weir's read what it was given.
    """
    needed = {name: value for name, value in os.environ.items() if name in _PASSED or name.startswith(_PASSED_BEGINS)}
    return {**needed, **more}


def _options(policy: Policy) -> list[str]:
    hidden = [place for place in (_seal.folder(),) if place.is_dir()]  # the key, by which weir knows what is its own
    named = (
        *(("write", policy.write), ("files", policy.files), ("read", policy.read), ("hide", (*policy.hide, *hidden))),
        ("work", () if policy.work is None else (policy.work,)),
    )
    limits = (("memory", policy.memory_bytes), ("cpu", policy.cpu_s), ("file", policy.file_bytes))
    return [
        *(f"--{name}={value}" for name, values in named for value in values),
        *(f"--keep={descriptor}" for descriptor in policy.keep),
        *(f"--limit-{name}={value}" for name, value in limits if value is not None),
        *(["--trace"] if policy.trace else []),
        *(["--alone"] if policy.alone else []),
    ]
