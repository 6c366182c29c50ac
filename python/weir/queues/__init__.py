"""Queues: what each says of itself, and what the kernel calls it.

A queue declares itself in its file of ``crates/weir-elements``: what a scenario writes and where it stands in a plan.
What Linux has of it is its module here, a line of :data:`QUEUES`. A queue without one is executed by the methods whose
links are weir's own.
"""

from __future__ import annotations

import importlib
from functools import cache

from weir.plan import Queue, kind_of
from weir.queues._declared import Element, Form, Key, elements
from weir.queues._discipline import Discipline, Written

__all__ = [
    "DEFAULT",
    "QUEUES",
    "Discipline",
    "Element",
    "Form",
    "Key",
    "Written",
    "discipline",
    "elements",
    "is_plain",
    "of",
]

QUEUES: dict[str, str] = {
    "droptail": "weir.queues.droptail:Droptail",
    "red": "weir.queues.red:Red",
    "codel": "weir.queues.codel:Codel",
    "fq_codel": "weir.queues.fq_codel:FqCodel",
    "pie": "weir.queues.pie:Pie",
}
"""Name of each queue that Linux has, and where the class is that knows it."""

DEFAULT = "droptail"
"""The queue where only a size is given."""


@cache
def discipline(kind: str) -> Discipline:
    """What weir knows of the queues of ``kind``."""
    module, _, name = QUEUES.get(kind, "weir.queues._discipline:Discipline").partition(":")
    made: Discipline = getattr(importlib.import_module(module), name)(kind)
    return made


def of(queue: Queue) -> Discipline:
    """What weir knows of the kind of ``queue``."""
    return discipline(kind_of(queue))


def is_plain(kind: str) -> bool:
    """Whether queues of ``kind`` are first in, first out, and drop only packets that exceed their limit."""
    return discipline(kind).plain
