"""Builds modules from users' sources: ``make`` under ``weir-confine``, with limits and a clean environment."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from weir import confine
from weir.lab._errors import LabError

__all__ = ["foreign", "make_confined"]

_CPU_S = 120
_MEMORY_BYTES = 2 << 30
_FILE_BYTES = 64 << 20
_PATIENCE_S = 600.0
"""Time for all modules: a compiler may also block, on a pipe that is included."""
_MAX_MESSAGES = 1 << 18
_MAX_RULE = 4 << 20
_READ = re.compile(rb"^  (/.*?)(?: \\)?$", re.MULTILINE)
_ABSENT = 127
_KEPT = ("PATH", "HOME", "LD_LIBRARY_PATH")
"""Environment variables for a compiler: the places of programs and libraries, and Nix's variables."""


def make_confined(command: Sequence[str], folder: Path, read: Sequence[Path], problem: str) -> None:
    """Executes ``command``, a make, which writes plain files to ``folder`` only and reads public files and ``read``.

    Raises:
        LabError: this host cannot confine, there is no make, or it fails: ``problem``, with its messages.
    """
    policy = confine.Policy(files=[folder], read=read, memory_bytes=_MEMORY_BYTES, cpu_s=_CPU_S, file_bytes=_FILE_BYTES)
    said = folder / "messages"
    try:
        code = _ended(confine.command(command, policy), said, _environment(folder))
    except confine.ConfineError as error:
        raise LabError(f"no module is compiled for the lab: {error}") from None
    except FileNotFoundError:
        code = _ABSENT
    if code == _ABSENT:
        raise LabError(f"{command[0]} is missing, which the lab is built with; install gcc and make")
    if code:
        raise LabError(f"{problem}:\n{said.read_bytes()[:_MAX_MESSAGES].decode(errors='replace').strip()}")


def foreign(rule: Path, folders: Sequence[Path]) -> Path | None:
    """The first file in Kbuild's ``.NAME.o.cmd`` that lies in none of ``folders``.

    Relative names are the kernel's own headers.
    """
    with rule.open("rb") as file:
        text = file.read(_MAX_RULE)
    roots = [folder.resolve() for folder in folders]
    for name in _READ.findall(text):
        path = Path(os.fsdecode(name))
        if not any(path.resolve().is_relative_to(root) for root in roots):
            return path
    return None


def _ended(command: Sequence[str], said: Path, environment: Mapping[str, str]) -> int:
    """Runs ``command`` and returns its exit code; all of its processes end with this function."""
    with said.open("wb") as messages:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=messages,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        try:
            return process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            return 1
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("NIX_")}
    return {**kept, "LC_ALL": "C", "TMPDIR": str(folder), "CCACHE_DISABLE": "1"}
