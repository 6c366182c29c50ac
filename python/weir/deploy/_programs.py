"""Programs of weir on a node: once by their hash, in the user's cache there, verified before each use."""

from __future__ import annotations

import functools
import hashlib
import zlib
from pathlib import Path

from weir._programs import find
from weir.deploy._keeper import DeployError, Keeper

__all__ = ["deploy"]

_MARGIN = 2
_MACHINES = {"x86_64": 62, "aarch64": 183, "riscv64": 243}
"""Processors as ``uname -m`` calls them, and in the header of a program (elf(5))."""


@functools.lru_cache(maxsize=8)
def _content(path: Path, changed_ns: int) -> tuple[str, bytes, int]:
    """The hash of a program, what travels of it, and its size; ``changed_ns`` makes a rebuilt one another."""
    content = path.read_bytes()
    return hashlib.sha256(content).hexdigest(), zlib.compress(content, 6), len(content)


def deploy(keeper: Keeper, name: str) -> str:
    """The path of weir's program ``name`` on the node, which gets it if it has it not.

    Raises:
        weir._programs.ProgramError: it is missing here.
        DeployError: it does not run there.
    """
    path = find(name)
    digest, packed, size = _content(path, path.stat().st_mtime_ns)
    answer = keeper.ask("have", name=name, sha256=digest)
    if answer["path"] is None:
        if answer["free_bytes"] < _MARGIN * size:
            raise DeployError(f"{keeper.name}: the disk is full: {name} needs {_MARGIN * size} bytes in ~/.cache/weir")
        _require_machine(keeper, path)
        carried = keeper.place.put(f"{name}.z", packed)
        answer = keeper.ask("install", name=name, sha256=digest, source=carried)
        keeper.place.require((answer["path"], "--help"))
    return str(answer["path"])


def _require_machine(keeper: Keeper, path: Path) -> None:
    """Raises DeployError if the node's processors are others than the program's."""
    machine = keeper.place.require(("uname", "-m")).decode().strip()
    with path.open("rb") as file:
        head = file.read(20)
    ours = int.from_bytes(head[18:20], "little")
    if machine in _MACHINES and _MACHINES[machine] != ours and head[:4] == b"\x7fELF":
        raise DeployError(f"{keeper.name} has {machine} processors, and {path.name} was built for others")
