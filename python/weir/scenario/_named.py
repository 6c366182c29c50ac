"""Verifies that the flows and links that checks name exist in a cell, and that a cell measures the delays they need.

Checks are read before plans exist, so ``goodput.mean(flows[7])`` with only three flows is detected here.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from weir.language.problem import Log, Mark

__all__ = ["Named"]

_MAX_LOOKS = 3_000_000
"""Maximum number of comparisons with names of flows and links: a second or two."""


@dataclass
class _Part:
    """The text in parentheses after one metric of a check."""

    text: str
    links: bool
    where: Mapping[str, str]
    marks: tuple[Mark, ...]
    reason: str = ""  # why no cell has it so far; empty before the first cell


@dataclass
class Named:
    """The names in some expressions; each must exist in one of the cells that its expression is about."""

    expressions: Iterable[tuple[Any, Mapping[str, str], Mark]]
    """Each parsed (`read_check`), with the factors that are fixed for it, and its place."""
    _open: list[_Part] = field(default_factory=list)
    _delays: dict[Mark, str] = field(default_factory=dict)  # metrics of delays, while no cell measures any
    _seen: bool = False
    _looks: int = 0  # comparisons with names of flows and links

    def __post_init__(self) -> None:
        """Reads the checks; malformed ones were reported already."""
        syntax = importlib.import_module("weir.metrics.expect.syntax")
        asked_before: dict[tuple[str, bool, tuple[tuple[str, str], ...]], list[Mark]] = {}
        for read, fixed, mark in self.expressions:
            found = [] if isinstance(read, Exception) else syntax.references(read.node)
            parts = [(r.selector, r.metric.scope == "link", {**fixed, **dict(r.factors)}) for r in found]
            asked = [r.text for r in found if "delays" in r.metric.tables]
            if asked:
                self._delays[mark] = asked[0]
            for text, links, where in parts:
                if text is not None:
                    same = asked_before.setdefault((text, links, tuple(sorted(where.items()))), [])
                    same.append(mark)
        self._open = [_Part(text, links, dict(where), tuple(m)) for (text, links, where), m in asked_before.items()]

    def see(self, factors: Mapping[str, str], plan: Mapping[str, Any]) -> None:
        """Examines the plan of a cell with these factors."""
        self._seen = True
        if plan["measure"].get("delay_ns"):
            self._delays = {}
        about = [part for part in self._open if all(factors.get(n) == value for n, value in part.where.items())]
        if not about:
            return
        view = _view(plan)
        for part in about:
            self._looks += (1 + part.text.count(",")) * (len(view.flows) + len(view.links))
            if self._looks > _MAX_LOOKS:
                self._open = []  # a name not found so far may exist in a later cell
            elif _has(part, view):
                self._open.remove(part)

    def report(self, log: Log) -> None:
        """Reports names that no cell has."""
        for mark, text in self._delays.items() if self._seen else ():
            log.error(mark, f"`{text[:60]}` needs `measure: {{delay: ...}}`, the interval in which delays are recorded")
        for part in self._open:
            if part.reason:
                for mark in part.marks:
                    log.error(mark, f"`({part.text[:60]})` of this check: {part.reason}")


def _has(part: _Part, view: Any) -> bool:
    selection = importlib.import_module("weir.metrics.selection")
    errors = importlib.import_module("weir.metrics.errors")
    try:
        (selection.select_links if part.links else selection.select_flows)(view, part.text)
    except errors.MetricError as error:
        part.reason = str(error)
        return False
    return True


def _view(plan: Mapping[str, Any]) -> Any:
    """The part of a plan that a selection needs."""
    flows = [
        SimpleNamespace(id=i, name=f["name"], group=f["group"], index=f["index"], role=f["role"])
        for i, f in enumerate(plan["flows"])
    ]
    links = [SimpleNamespace(id=i, name=link["name"]) for i, link in enumerate(plan["links"])]
    return SimpleNamespace(flows=flows, links=links)
