"""Ranges in names: ``a[1..12].example.org`` for nodes, ``ClusterA[1..5]`` for parts of sets."""

from __future__ import annotations

import itertools
import re

__all__ = ["MAX_NODES", "RANGE", "count", "expand"]

MAX_NODES = 10_000
"""Nodes of an inventory."""
RANGE = r"\[[0-9]{1,6}\.\.[0-9]{1,6}\]"
_RANGE = re.compile(r"\[([0-9]{1,6})\.\.([0-9]{1,6})\]")


def count(text: str) -> int:
    """How many names ``text`` stands for.

    Raises:
        ValueError: a range of it ends before it begins.
    """
    number = 1
    for found in _RANGE.finditer(text):
        first, last = int(found[1]), int(found[2])
        if last < first:
            raise ValueError(f"`{found[0]}` ends before it begins")
        number *= last - first + 1
    return number


def expand(text: str) -> list[str]:
    """The names that ``text`` stands for, the last range varying fastest; ``[01..12]`` keeps its zeros.

    Raises:
        ValueError: a range ends before it begins, or there are more than :data:`MAX_NODES`.
    """
    if count(text) > MAX_NODES:
        raise ValueError(f"`{text[:60]}` stands for {count(text)} nodes; the limit is {MAX_NODES}")
    pieces = _RANGE.split(text)  # text, first, last, text, first, last, text
    choices = [[pieces[0]]]
    for first, last, after in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        width = len(first) if first.startswith("0") else 0
        choices += [[f"{number:0{width}d}" for number in range(int(first), int(last) + 1)], [after]]
    return ["".join(parts) for parts in itertools.product(*choices)]
