"""Users' congestion controls that have the same name in two runs but different sources."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from weir.compare._align import Group

__all__ = ["controls_apart"]

_SHOWN = 19
"""Characters of a hash that suffice to distinguish two."""


def controls_apart(groups: Iterable[Group]) -> list[str]:
    """A remark on each control that was edited between two runs, or differs at the same path."""
    found: dict[str, None] = {}
    for group in groups:
        for a, b in combinations(group.cells, 2):
            ours, theirs = (group.cells[label][0].manifest.get("controls") or {} for label in (a, b))
            for name in sorted(ours.keys() & theirs.keys()):
                if ours[name] != theirs[name]:
                    hashes = f"{str(ours[name])[:_SHOWN]} in {a}, {str(theirs[name])[:_SHOWN]} in {b}"
                    text = f"{name} is not the same congestion control in both runs: its source is {hashes}"
                    found[text] = None
    return list(found)
