"""Mappings of the language made of what elements declare of themselves: keys, types, defaults, words."""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache
from typing import Any, TypeVar

from weir.language.problem import NOWHERE, Invalid, Log
from weir.language.scalars import (
    BOOLEAN,
    DELAY,
    PACKET,
    PROBABILITY,
    RATE,
    TEXT,
    AmountType,
    Choice,
    Definitions,
    Integer,
    Number,
    Type,
    expected,
)
from weir.language.spec import ListOf, MapOf, OneOrEach, Spec, Struct, key
from weir.language.tree import Node, Scalar
from weir.queues import Form, Key, elements

from ._dscp import DSCP
from ._selector import SelectorType

__all__ = ["QUEUE_SIZE", "SHARE", "declared", "mappings", "titled", "type_of"]

S = TypeVar("S", bound=Spec)

QUEUE_SIZE = AmountType("bytes", "packets", "ns", "bdp")
_MAX_CLASSES = 64
_MAX_NAMES = 1000


class _Queue:
    """A queue within a queue."""

    what = "a queue"

    def parse(self, node: Node, log: Log) -> Spec:
        made: Spec = self._type().parse(node, log)
        return made

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return self._type().schema(defs)

    @staticmethod
    def _type() -> Type[Any]:
        # The mappings of queues are made of these types, so they cannot be imported first.
        made: Type[Any] = importlib.import_module("weir.scenario._lang_queues").QUEUE
        return made


class _Share:
    """A share of a whole, in parts of a million."""

    what = "a share such as `90%` or `0.9`, in steps of 0.0001%"

    def parse(self, node: Node, log: Log) -> int:
        try:
            parts = PROBABILITY.parse(node, Log(log.file)) * _WHOLE_PPM
        except Invalid:
            raise self._expected(node, log) from None
        if abs(parts - round(parts)) > 1e-3:
            raise log.error(node.mark, f"expected {self.what}")
        return round(parts)

    def _expected(self, node: Node, log: Log) -> Invalid:
        """Reports what is no share; a bare number up to 100 is hardly anything but a percentage."""
        if isinstance(node, Scalar) and node.plain and re.fullmatch(r"[1-9][0-9]?(\.[0-9]{1,9})?|100", node.text):
            fraction = Decimal(node.text) / 100
            also = f" or `{fraction:f}`" if fraction < 1 else ""
            return log.error(node.mark, f"`{node.text}` is not a share; expected `{node.text}%`{also}")
        return expected(node, self.what, log)

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return PROBABILITY.schema(defs)


_WHOLE_PPM = 1_000_000
SHARE = _Share()
_PLAIN: dict[str, Type[Any]] = {
    "limit": QUEUE_SIZE,
    "at_least": AmountType("packets"),
    "threshold": QUEUE_SIZE,
    "time": DELAY,
    "packet_bytes": PACKET,
    "probability": PROBABILITY,
    "flag": BOOLEAN,
    "ecn": BOOLEAN,
    "distribution": Choice("a distribution of jitter", {"normal": "", "uniform": ""}),
    "packet_numbers": ListOf(Integer(1, 10**15, "a packet number"), 1, 100_000),
    "code_points": OneOrEach(DSCP, _MAX_CLASSES),
    "queue": _Queue(),
    "rate": RATE,
    "share": SHARE,
    "flows": OneOrEach(SelectorType("an entry of the workload, or flows of it such as `elephants[0..3]`"), _MAX_NAMES),
    "links": OneOrEach(TEXT, _MAX_NAMES),
}
"""The types of keys that have nothing else to say."""


def type_of(declared: Key) -> Type[Any]:
    """The type of a key.

    Raises:
        KeyError: the language has no mapping with keys of its kind.
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
        case "named_classes":
            each = Form(name=kind["name"], title=kind["title"], keys=_keys(kind["keys"]))
            return MapOf(Struct(_mapping(each.name, each)), "the name of a class")
        case "choice":
            return Choice(f"a value of `{declared.name}`", dict.fromkeys(kind["values"], ""))
        case _:
            return _PLAIN[declared.type]


def _keys(declared: list[dict[str, Any]]) -> tuple[Key, ...]:
    return tuple(Key(**one) for one in declared)


def _whole(number: float) -> float:
    return int(number) if number == int(number) else number


def _mapping(name: str, form: Form) -> type[Spec]:
    """The mapping of a form, as a dataclass whose docstring is its title."""
    fields = [(one.name, Any, _field(one)) for one in form.keys]
    made = dataclasses.make_dataclass(name, fields, bases=(Spec,), frozen=True, kw_only=True)
    made.__doc__, made.__module__ = form.title, __name__
    globals()[name] = made  # where pickle looks for it
    return made


def _field(declared: Key) -> Any:
    """The field of a mapping for a key."""
    kind = type_of(declared)
    default = None if declared.optional else dataclasses.MISSING
    if declared.default is not None:
        default = kind.parse(Scalar(NOWHERE, declared.default), Log("<default>"))
    return key(kind, declared.meaning, default=default)


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


@cache
def _forms(place: str) -> Mapping[str, tuple[str, Form]]:
    """The forms of a place by name, and the kind that each has in plans."""
    return {form.name: (one.name, form) for one in elements(place) for form in one.forms}


def mappings(place: str) -> dict[str, tuple[type[Spec], str, Form]]:
    """By the name of each form of a place: its mapping, its kind in plans, and its declaration."""
    return {name: (_mapping(_camel(name), form), kind, form) for name, (kind, form) in _forms(place).items()}


def declared(place: str, form: str, name: str) -> Any:
    """A field of a dataclass that is the key ``name`` of a declared form."""
    return _field(next(one for one in _forms(place)[form][1].keys if one.name == name))


def titled(place: str, form: str) -> Callable[[type[S]], type[S]]:
    """Gives the dataclass of a declared form its docstring."""

    def set_title(cls: type[S]) -> type[S]:
        cls.__doc__ = _forms(place)[form][1].title
        return cls

    return set_title
