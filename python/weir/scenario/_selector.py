"""Selectors of the language: the name of a workload entry or of a group of pairs, with or without indices."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from weir.language.problem import NOWHERE, Log, Mark
from weir.language.scalars import Definitions
from weir.language.tree import Node, Scalar, describe

__all__ = ["Selector", "SelectorType"]


@dataclass(frozen=True)
class Selector:
    """``name``, ``name[3]``, ``name[0..4]`` or ``name[0,2,5]``; no ranges of indices: all of that name."""

    name: str
    ranges: tuple[range, ...] | None
    mark: Mark = NOWHERE

    @property
    def indices(self) -> tuple[int, ...] | None:
        """The indices, written out."""
        return None if self.ranges is None else tuple(i for r in self.ranges for i in r)

    def __len__(self) -> int:
        """The number of indices; 1 without any."""
        return 1 if self.ranges is None else sum(map(len, self.ranges))


_SELECTOR = re.compile(r"([A-Za-z][A-Za-z0-9_.-]*)(?:\[([0-9 ,.]{1,200})\])?\Z")
_RANGE = re.compile(r" *([0-9]{1,12}) *(?:\.\. *([0-9]{1,12}) *)?\Z")


class SelectorType:
    """A name, with or without indices."""

    def __init__(self, what: str) -> None:
        self.what = what

    def parse(self, node: Node, log: Log) -> Selector:
        match = _SELECTOR.match(node.text) if isinstance(node, Scalar) and not node.null else None
        if match is None:
            raise log.error(node.mark, f"expected {self.what}, found {describe(node)}")
        if match[2] is None:
            return Selector(match[1], None, node.mark)
        ranges: list[range] = []
        for part in match[2].split(","):
            found = _RANGE.match(part)
            if found is None or (found[2] is not None and int(found[2]) < int(found[1])):
                raise log.error(node.mark, f"`[{match[2]}]` is not a list of indices such as `3`, `0..4` or `0,2,5`")
            ranges.append(range(int(found[1]), int(found[2] or found[1]) + 1))
        if sum(map(len, ranges)) > 100_000:
            raise log.error(node.mark, "more than 100000 indices")
        ordered = sorted(ranges, key=lambda r: r.start)
        if any(a.stop > b.start for a, b in pairwise(ordered)):
            raise log.error(node.mark, f"`[{match[2]}]` has an index twice")
        return Selector(match[1], tuple(ranges), node.mark)

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {"type": "string", "pattern": r"^[A-Za-z][A-Za-z0-9_.-]*(\[[0-9 ,.]{1,200}\])?$"}
