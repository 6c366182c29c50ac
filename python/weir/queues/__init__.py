"""Queues: their declarations, and their equivalents in the kernel.

A queue declares itself in its file of ``crates/weir-elements``: its keys in a scenario and its fields in a plan. Its
equivalent in Linux is its module here, a line of :data:`QUEUES`. Queues without a module run with methods that have
weir's own links.
"""

from __future__ import annotations

import importlib
from functools import cache

from weir.plan import Queue, kind_of
from weir.queues._classes import children, inner
from weir.queues._declared import Element, Form, Key, elements
from weir.queues._discipline import Below, Discipline, Written

__all__ = [
    "DEFAULT",
    "QUEUES",
    "Below",
    "Discipline",
    "Element",
    "Form",
    "Key",
    "Written",
    "children",
    "discipline",
    "elements",
    "inner",
    "is_plain",
    "of",
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
