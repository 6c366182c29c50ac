"""The language's words for queues: mappings made of what the elements declare.

`_queue_plan.py` writes them into plans.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from weir import queues
from weir.language.problem import Log, Mark
from weir.language.scalars import Definitions
from weir.language.spec import OneOf, Spec, Struct
from weir.language.tree import Node
from weir.language.units import Amount
from weir.queues import Form

from ._declared import QUEUE_SIZE, mappings

__all__ = ["FORMS", "QUEUE", "QUEUE_SIZE", "packets", "sized"]


def packets(n: int) -> Amount:
    """A size of so many packets."""
    return Amount(Fraction(n), "packets")


_MAPPINGS = mappings("queue")
FORMS: dict[type[Spec], tuple[str, Form]] = {made: (kind, form) for made, kind, form in _MAPPINGS.values()}
"""Of each mapping: the kind of its queue in plans, and its keys."""


def sized(size: Amount, mark: Mark) -> Spec:
    """The queue where only a size is given, at ``mark``."""
    made, _, _ = _MAPPINGS[queues.DEFAULT]
    values: dict[str, Any] = {"size": size}
    return made(mark=mark, marks={"size": mark}, **values)


class _Sized:
    """``queue: 100ms`` for ``queue: {droptail: {size: 100ms}}``."""

    what = QUEUE_SIZE.what

    def parse(self, node: Node, log: Log) -> Spec:
        return sized(QUEUE_SIZE.parse(node, log), node.mark)

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return QUEUE_SIZE.schema(defs)


QUEUE: OneOf[Spec] = OneOf(
    "a queue",
    {name: Struct(made) for name, (made, _, _) in _MAPPINGS.items()},
    _Sized(),
    "the size of a drop-tail queue such as `100ms`",
)
