"""Finds the programs that come with weir: ``weir-agent``, ``weir-emu``, ``weir-bpf``, ``weir-confine``.

They are in ``weir/bin``; ``make setup`` builds them, a wheel contains them. The environment variable ``WEIR_BIN`` names
another folder.
"""

from __future__ import annotations

import os
from pathlib import Path

import weir
from weir._errors import UnavailableError

__all__ = ["ProgramError", "find", "folder"]

_REMEDY = "`make setup` builds it (WEIR_BIN names another folder)"
_ELF = b"\x7fELF"
_HEAD_BYTES = 20
_MACHINES = {3: "x86", 40: "Arm", 62: "x86-64", 183: "AArch64", 243: "RISC-V"}
"""Processors by their number in the header of a program (``e_machine`` in elf(5))."""


class ProgramError(UnavailableError):
    """A program that comes with weir is missing, or cannot run here."""


def folder() -> Path:
    """The folder of the programs; it need not exist."""
    named = os.environ.get("WEIR_BIN")
    return Path(named) if named else Path(weir.__file__).parent / "bin"


def find(name: str) -> Path:
    """The program ``name``, such as ``weir-agent``.

    Raises:
        ProgramError: it is missing, cannot be executed, or is built for another kind of machine.
    """
    path = (folder() / name).absolute()
    if not path.is_file():
        raise ProgramError(f"{path} is missing: {_REMEDY}")
    if not os.access(path, os.X_OK):
        raise ProgramError(f"{path} is not executable: `chmod +x` it, or {_REMEDY}")
    if (why := _foreign(path)) is not None:
        raise ProgramError(f"{path} cannot run here: {why}; {_REMEDY}")
    return path


def _foreign(path: Path) -> str | None:
    """Why the file is not a program for this machine; ``None`` if it is."""
    head = _head(path)
    if head.startswith(b"#!"):
        return None
    if not head.startswith(_ELF) or len(head) < _HEAD_BYTES:
        return "it is not a program"
    here = _head(Path("/proc/self/exe"))
    if not here.startswith(_ELF) or _kind(head) == _kind(here):
        return None
    return f"it is built for {_described(head)}, this machine runs {_described(here)}"


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError:
        return b""


def _kind(head: bytes) -> tuple[int, int, bytes]:
    """Word size, byte order and processor."""
    return head[4], head[5], head[18:20]


def _described(head: bytes) -> str:
    machine = int.from_bytes(head[18:20], "big" if head[5] == 2 else "little")
    return _MACHINES.get(machine, f"machine {machine} of elf(5)")
