"""The modules in a lab's kernel and their addresses, to name functions.

The first process of a lab writes ``/proc/modules`` into the lab's folder after each load.
"""

from __future__ import annotations

import bisect
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from weir.lab._results import read_result

__all__ = ["FILE", "Loaded", "Place", "loaded"]

FILE = "modules"
"""Its name in the folder of a lab."""
_NM_S = 30.0
_SIZE = re.compile(r"[0-9]{1,12}")
_ADDRESS = re.compile(r"0x[0-9a-f]{1,16}")


@dataclass(frozen=True)
class Place:
    """A function of a module."""

    module: str
    function: str
    """Empty if unknown."""


@dataclass(frozen=True)
class Loaded:
    """A module in memory."""

    name: str
    start: int
    size: int
    file: Path | None
    """Its file on the host, with its symbols."""

    def holds(self, address: int) -> bool:
        """Whether it contains ``address``."""
        return self.start <= address < self.start + self.size

    def place(self, address: int) -> Place:
        """The function at ``address``, which must be inside."""
        symbols = () if self.file is None else _functions(self.file)
        at = bisect.bisect_right(symbols, address - self.start, key=lambda symbol: symbol[0]) - 1
        return Place(self.name, symbols[at][1] if at >= 0 else "")


def loaded(folder: Path, files: Iterable[Path]) -> list[Loaded]:
    """The modules of the lab in ``folder``; ``files`` are those that its script loads."""
    try:
        lines = read_result(folder / FILE).decode(errors="replace").splitlines()
    except OSError:
        return []
    by_name = {path.stem.replace("-", "_"): path for path in files}
    found = []
    for line in lines:
        words = line.split()  # name size users dependants state address; see lsmod(8)
        if len(words) >= 6 and _SIZE.fullmatch(words[1]) and _ADDRESS.fullmatch(words[5]):
            found.append(Loaded(words[0], int(words[5], 16), int(words[1]), by_name.get(words[0])))
    return found


@cache
def _functions(file: Path) -> tuple[tuple[int, str], ...]:
    """Offset and name of each function of a module; its code comes first in memory, as in the file."""
    try:
        done = subprocess.run(
            ["nm", "--numeric-sort", str(file)], capture_output=True, text=True, timeout=_NM_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    rows = (line.split() for line in done.stdout.splitlines())
    # Compiler-made variants of a function have its name, a dot and a suffix.
    return tuple((int(row[0], 16), row[2].partition(".")[0]) for row in rows if len(row) == 3 and row[1] in "tT")
