"""Verifies that the flows, links and classes that checks name exist in a cell, and that a cell measures what they need.

Checks are read before plans exist, so ``goodput.mean(flows[7])`` with only three flows is detected here.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any, Literal, TypeAlias

import msgspec

from weir.language.problem import Log, Mark, choose
from weir.plan import Queue, class_groups, queue_classes

__all__ = ["Named"]

_MAX_LOOKS = 3_000_000
"""Maximum number of comparisons with names of flows and links: a second or two."""


_Of: TypeAlias = Literal["flow", "link", "class"]


@dataclass
class _Part:
    """The flows or links in parentheses after one metric of a check, or the class that it names."""

    text: str
    of: _Of
    where: Mapping[str, str]
    marks: tuple[Mark, ...]
    links: str | None = None
    """The links in parentheses whose class it is; ``None``: the class may be any link's."""
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
        asked_before: dict[tuple[str, _Of, str | None, tuple[tuple[str, str], ...]], list[Mark]] = {}
        for read, fixed, mark in self.expressions:
            found = [] if isinstance(read, Exception) else syntax.references(read.node)
            asked = [r.text for r in found if "delays" in r.metric.tables]
            if asked:
                self._delays[mark] = asked[0]
            for reference in found:
                where = tuple(sorted({**fixed, **dict(reference.factors)}.items()))
                for text, of, links in _names(reference):
                    asked_before.setdefault((text, of, links, where), []).append(mark)
        self._open = [
            _Part(text, of, dict(where), tuple(marks), links)
            for (text, of, links, where), marks in asked_before.items()
        ]

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
                    name = part.text[:60] if part.of == "class" else f"({part.text[:60]})"
                    log.error(mark, f"`{name}` of this check: {part.reason}")


def _names(reference: Any) -> Iterable[tuple[str, _Of, str | None]]:
    """Each name of a reference, its meaning, and the links whose class it is, if any are named."""
    of_links = reference.metric.scope == "link"
    if reference.selector is not None:
        yield reference.selector, "link" if of_links else "flow", None
    for name, value in reference.arguments:
        if name == "class":
            yield value, "class", reference.selector if of_links else None


def _has(part: _Part, view: Any) -> bool:
    if part.of == "class":
        return _has_class(part, view)
    selection = importlib.import_module("weir.metrics.selection")
    errors = importlib.import_module("weir.metrics.errors")
    try:
        (selection.select_links if part.of == "link" else selection.select_flows)(view, part.text)
    except errors.MetricError as error:
        part.reason = str(error)
        return False
    return True


def _has_class(part: _Part, view: Any) -> bool:
    """Whether a link has the class; each link of a selection, if the check names some."""
    known = view.classes(None)
    if part.text not in known:
        part.reason = f"no link has such a class{choose(part.text, known) if known else ': no queue has classes'}"
        return False
    if part.links is None:
        return True
    selection = importlib.import_module("weir.metrics.selection")
    errors = importlib.import_module("weir.metrics.errors")
    try:
        chosen = selection.select_links(view, part.links)
    except errors.MetricError:
        return True  # reported as a link
    for link in chosen:
        if part.text not in (own := view.classes(link.id)):
            have = choose(part.text, own) if own else ": its queue has no classes"
            part.reason = f"link {link.name} has no such class{have}"
            return False
    return True


def _view(plan: Mapping[str, Any]) -> Any:
    """The part of a plan that a selection needs."""
    flows = [
        SimpleNamespace(id=i, name=f["name"], group=f["group"], index=f["index"], role=f["role"])
        for i, f in enumerate(plan["flows"])
    ]
    links = [SimpleNamespace(id=i, name=link["name"]) for i, link in enumerate(plan["links"])]

    def classes(link: int | None) -> list[str]:
        """The classes of a link, or of all links."""
        asked = plan["links"] if link is None else plan["links"][link : link + 1]
        queues = [msgspec.convert(one["queue"], Queue) for one in asked]
        own = {name for queue in queues for name, _ in queue_classes(queue)}
        return sorted(own | {group.name for queue in queues for group in class_groups(queue)})

    return SimpleNamespace(flows=flows, links=links, classes=cache(classes))
