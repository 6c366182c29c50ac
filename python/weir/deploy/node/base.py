"""What the parts of a node's program have in common: refusals, folders, processes, commands."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

__all__ = ["Change", "Refused", "boot_id", "execute", "own_folder", "start_of"]

_COMMAND_S = 20.0

Change = Any
"""A mapping: ``kind`` and what else its kind needs."""


class Refused(Exception):  # noqa: N818 - never seen outside
    """A change is impossible; ``needs`` names the missing privilege, if that is why."""

    def __init__(self, text: str, needs: str | None = None) -> None:
        super().__init__(text)
        self.needs = needs


def own_folder(name: str, default: str) -> Path:
    """A folder of this user's: that of the XDG variable ``name``, or ``default`` in the home."""
    base = os.environ.get(name) or str(Path.home() / default)
    folder = Path(base) / "weir"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = folder.stat()
    if about.st_uid != os.geteuid() or about.st_mode & 0o022:
        raise Refused(f"{folder} is writable by others, or another user's")
    return folder


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def start_of(pid: int) -> int | None:
    """When a process began, in clock ticks since boot; ``None`` if it is no more."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def execute(*command: str) -> str:
    try:
        done = subprocess.run(list(command), capture_output=True, text=True, timeout=_COMMAND_S, check=False)
    except OSError as error:
        raise Refused(f"{command[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise Refused(f"{command[0]} did not end in {_COMMAND_S:g} s") from error
    if done.returncode:
        needs = shlex.join(command) if os.geteuid() else None
        raise Refused(f"`{shlex.join(command)}`: {done.stderr.strip() or done.returncode}", needs)
    return done.stdout
