"""The language's words for queues: mappings made of what the elements declare.

`_queue_plan.py` writes them into plans.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

from weir import queues
from weir.queues import Form, Key

from ._dscp import DSCP
from ._problem import NOWHERE, Log, Mark
from ._scalars import BOOLEAN, DELAY, PACKET, PROBABILITY, AmountType, Definitions, Integer, Number, Type
from ._spec import ListOf, OneOf, OneOrEach, Spec, Struct, key
from ._units import Amount
from ._yaml import Node, Scalar

__all__ = ["FORMS", "QUEUE", "QUEUE_SIZE", "packets", "sized"]

QUEUE_SIZE = AmountType("bytes", "packets", "ns", "bdp")
_MAX_CLASSES = 64
_PLAIN: dict[str, Type[Any]] = {
    "limit": QUEUE_SIZE,
    "at_least": AmountType("packets"),
    "threshold": QUEUE_SIZE,
    "time": DELAY,
    "packet_bytes": PACKET,
    "probability": PROBABILITY,
    "flag": BOOLEAN,
    "ecn": BOOLEAN,
    "code_points": OneOrEach(DSCP, _MAX_CLASSES),
}
"""The types of keys that have nothing else to say."""


def packets(n: int) -> Amount:
    """A size of so many packets."""
    return Amount(Fraction(n), "packets")


def _type(declared: Key) -> Type[Any]:
    """The type of a key.

    Raises:
        KeyError: queues have no keys of its kind.
    """
    kind = declared.kind
    match declared.type:
        case "number":
            return Number(_whole(kind["min"]), _whole(kind["max"]), positive=kind["positive"])
        case "integer":
            return Integer(kind["min"], kind["max"])
        case "classes":
            each = Form(name=kind["name"], title=kind["title"], keys=_keys(kind["keys"]))
            return ListOf(Struct(_mapping(each.name, each)), 1, _MAX_CLASSES)
        case _:
            return _PLAIN[declared.type]


def _keys(declared: list[dict[str, Any]]) -> tuple[Key, ...]:
    return tuple(Key(**one) for one in declared)


def _whole(number: float) -> float:
    return int(number) if number == int(number) else number


def _mapping(name: str, form: Form) -> type[Spec]:
    """The mapping of a form, as a dataclass whose docstring is its title."""
    fields = []
    for declared in form.keys:
        kind = _type(declared)
        default = dataclasses.MISSING if not declared.optional else None
        if declared.default is not None:
            default = kind.parse(Scalar(NOWHERE, declared.default), Log("<default>"))
        fields.append((declared.name, Any, key(kind, declared.meaning, default=default)))
    made = dataclasses.make_dataclass(name, fields, bases=(Spec,), frozen=True, kw_only=True)
    made.__doc__, made.__module__ = form.title, __name__
    globals()[name] = made  # where pickle looks for it
    return made


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


_MAPPINGS = {
    form.name: (_mapping(_camel(form.name), form), one.name, form)
    for one in queues.elements("queue")
    for form in one.forms
}
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
