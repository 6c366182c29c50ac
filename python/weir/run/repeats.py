"""The repeats of a run: which are missing, and whether they are identical, as those of a plan without randomness."""

from __future__ import annotations

import filecmp
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from weir.run.checksums import Checksum, Checksums
from weir.run.reader import Cell, Run

__all__ = ["Counted", "counted_repeats", "identical_repeats", "missing_cells"]


@dataclass(frozen=True)
class Counted:
    """The number of repeats of a combination of factors."""

    least: int
    """Of the combinations that have a cell."""
    most: int
    planned: int

    @property
    def have(self) -> str:
        """The repeats that there are: ``6 repeats``, ``5 to 6 repeats``."""
        number = f"{self.least}" if self.least == self.most else f"{self.least} to {self.most}"
        return f"{number} {'repeat' if self.most == 1 else 'repeats'}"

    def __str__(self) -> str:
        if self.least == self.planned:
            return self.have
        number, _, noun = self.have.rpartition(" ")
        return f"{number} of {self.planned} {noun if self.planned == 1 else 'repeats'}"


def counted_repeats(run: Run) -> Counted:
    """The repeats of the cells that there are, and those that the complete run has."""
    have = Counter(tuple(sorted(cell.factors.items())) for cell in run.cells).values()
    listed = [one for one in run.intended.get("cells", ()) if isinstance(one, Mapping)]
    wanted = Counter(tuple(sorted((one.get("factors") or {}).items())) for one in listed).values()
    most = max(have, default=0)
    return Counted(min(have, default=0), most, max([most, *wanted]))


def missing_cells(run: Run) -> str:
    """A sentence that says how many cells of how many there are; empty if all are, or if nothing says how many."""
    listed = len(run.intended.get("cells", ()))
    if len(run.cells) >= listed:
        return ""
    counted = counted_repeats(run)
    each = f", {counted} of each" if counted.planned > 1 and counted.least < counted.planned else ""
    more = "" if run.complete else "; `weir run` continues it"
    return f"Incomplete: {len(run.cells)} of {listed} cells have results{each}{more}."


def identical_repeats(run: Run) -> bool:
    """Whether all repeats of every cell have the same tables, byte by byte, although their seeds differ.

    They then are a single observation, and say nothing about chance. Files are compared up to the first difference. A
    real clock never gives two such repeats; a simulation does if no delay, loss, start or size is random.
    """
    groups: dict[tuple[tuple[str, str], ...], list[Cell]] = {}
    for cell in run.cells:
        groups.setdefault(tuple(cell.factors.items()), []).append(cell)
    return max(map(len, groups.values()), default=0) > 1 and all(
        _same(one, other) for cells in groups.values() for one, other in pairwise(cells)
    )


def _same(one: Cell, other: Cell) -> bool:
    if one.checksums is not None and other.checksums is not None:
        return _sums(one.checksums) == _sums(other.checksums)
    names = [sorted(_tables(cell)) for cell in (one, other)]
    return names[0] == names[1] and all(
        filecmp.cmp(one.path / name, other.path / name, shallow=False) for name in names[0]
    )


def _sums(held: Checksums) -> dict[str, Checksum]:
    return {name: one for name, one in held.files.items() if name.endswith(".parquet")}


def _tables(cell: Cell) -> Iterator[str]:
    return (file.name for file in cell.path.glob("*.parquet"))
