"""Queues: their declarations, and their equivalents in the kernel.

A queue declares itself in its file of ``crates/weir-elements``: its keys in a scenario and its fields in a plan. Its
equivalent in Linux is its module here, a line of :data:`QUEUES`. Queues without a module run with methods that have
weir's own links.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from weir.plan import Queue, kind_of
from weir.queues._classes import children, inner
from weir.queues._code_points import DSCP_NAMES, named_point
from weir.queues._declared import Element, Form, Key, elements
from weir.queues._discipline import Below, Discipline, Written
from weir.queues._tokens import Inside, Tokens

__all__ = [
    "DEFAULT",
    "DSCP_NAMES",
    "QUEUES",
    "Below",
    "Discipline",
    "Element",
    "Form",
    "Key",
    "Tokens",
    "Written",
    "approves_first_rates",
    "children",
    "discipline",
    "elements",
    "inner",
    "is_plain",
    "limits_rate",
    "named_point",
    "of",
    "token_buckets",
    "token_obstacle",
]

QUEUES: dict[str, str] = {
    "droptail": "weir.queues.droptail:Droptail",
    "red": "weir.queues.red:Red",
    "codel": "weir.queues.codel:Codel",
    "fq": "weir.queues.fq:Fq",
    "fq_codel": "weir.queues.fq_codel:FqCodel",
    "sfq": "weir.queues.sfq:Sfq",
    "pie": "weir.queues.pie:Pie",
    "step": "weir.queues.step:Step",
    "wrr": "weir.queues.wrr:Wrr",
    "prio": "weir.queues.prio:Prio",
    "drr": "weir.queues.drr:Drr",
    "ets": "weir.queues.ets:Ets",
    "wfq": "weir.queues.wfq:Wfq",
    "htb": "weir.queues.htb:Htb",
    "tbf": "weir.queues.tbf:Tbf",
    "police": "weir.queues.police:Police",
}
"""Name of each queue that has a module, and the import path of its class."""

DEFAULT = "droptail"
"""The queue if only a size is given."""


@cache
def discipline(kind: str) -> Discipline:
    """The discipline for queues of ``kind``."""
    module, _, name = QUEUES.get(kind, "weir.queues._discipline:Discipline").partition(":")
    made: Discipline = getattr(importlib.import_module(module), name)(kind)
    return made


def of(queue: Queue) -> Discipline:
    """The discipline for the kind of ``queue``."""
    return discipline(kind_of(queue))


def is_plain(kind: str) -> bool:
    """Whether queues of ``kind`` are first in, first out, and drop only packets that exceed their limit."""
    return discipline(kind).plain


def approves_first_rates(queue: Queue) -> bool:
    """Whether ``queue`` answers the requests of Quick-Start."""
    return kind_of(queue) == "quickstart"


def limits_rate(queue: Queue) -> bool:
    """Whether a queue, or one inside it, may pass less than the link transmits."""
    insides = [one.queue for one in children(queue)]
    if (inside := getattr(queue, "queue", None)) is not None:
        insides.append(inside)
    return of(queue).limits_rate or any(map(limits_rate, insides))


def token_buckets(queue: dict[str, Any]) -> tuple[Tokens, ...]:
    """The token buckets of a queue of a plan and of those inside, in the order of ``set_token_rates`` in
    ``weir-elements``.

    Where a class has buckets and its queue has some, too, the latter are called ``CLASS.queue``.
    """
    found: dict[str, Tokens] = {}
    for part in _token_parts(queue, ""):
        if isinstance(part, Tokens):
            name = part.name
            while name in found:
                name = f"{name}.queue" if name else "queue"
            found[name] = replace(part, name=name)
    return tuple(found.values())


def token_obstacle(queue: dict[str, Any], rate_bps: int) -> str | None:
    """The mistake in rates of token buckets together, before a link of ``rate_bps``; ``None``: none."""
    insides = [one.queue for one in _token_parts(queue, "") if isinstance(one, Inside)]
    problems = (discipline(one["kind"]).token_obstacle(one, rate_bps) for one in (queue, *insides))
    return next((problem for problem in problems if problem is not None), None)


def _token_parts(queue: dict[str, Any], name: str) -> Iterator[Tokens | Inside]:
    for part in discipline(queue["kind"]).token_parts(queue, name):
        yield part
        if isinstance(part, Inside):
            yield from _token_parts(part.queue, part.name)
