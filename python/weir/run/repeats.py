"""Detects identical repeats of a run: those of a plan without randomness."""

from __future__ import annotations

import filecmp
from collections.abc import Iterator
from itertools import pairwise

from weir.run.checksums import Checksum, Checksums
from weir.run.reader import Cell, Run

__all__ = ["identical_repeats"]


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
