"""Building blocks of the language: single values, which parse a node and give their JSON schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from weir.language import units
from weir.language.problem import Invalid, Log, choose, listing
from weir.language.tree import Node, Scalar, describe

__all__ = [
    "BOOLEAN",
    "DELAY",
    "DURATION",
    "MTU",
    "NAME",
    "OVERHEAD",
    "PACKET",
    "PROBABILITY",
    "RATE",
    "SIZE",
    "TEXT",
    "AmountType",
    "Choice",
    "Definitions",
    "Integer",
    "Number",
    "Text",
    "Type",
    "expected",
]

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")
Definitions = dict[str, dict[str, Any]]


class Type(Protocol[T_co]):
    """The type of a value."""

    @property
    def what(self) -> str:
        """A noun phrase for "expected ..."."""

    def parse(self, node: Node, log: Log) -> T_co:
        """Parses ``node``; raises ``Invalid`` after reporting to ``log``."""

    def schema(self, defs: Definitions) -> dict[str, Any]:
        """The JSON schema; named parts go to ``defs``."""


def expected(node: Node, what: str, log: Log) -> Invalid:
    """Reports that ``node`` is not ``what``."""
    return log.error(node.mark, f"expected {what}, found {describe(node)}")


class _ScalarType(Generic[T]):
    """A type of single values, defined by a function from text that raises ``ValueError``."""

    def __init__(self, what: str, convert: Callable[[str], T], schema: dict[str, Any], most: int = 0) -> None:
        self.what = what
        self.most = most
        self._convert = convert
        self._schema = schema

    def parse(self, node: Node, log: Log) -> T:
        if not isinstance(node, Scalar) or node.null:
            raise expected(node, self.what, log)
        try:
            return self._convert(node.text)
        except ValueError as e:
            raise log.error(node.mark, str(e)) from None

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return dict(self._schema)


def _quantity(q: units.Quantity) -> _ScalarType[int]:
    text = {"type": "string", "pattern": q.pattern()}
    return _ScalarType(q.hint(), q.parse, {"anyOf": [text, {"const": 0}]}, q.most)


RATE = _quantity(units.RATE)
DURATION = _quantity(units.DURATION)
DELAY = _quantity(units.DELAY)
SIZE = _quantity(units.SIZE)
MTU = _quantity(units.MTU)
PACKET = _quantity(units.PACKET)
OVERHEAD = _quantity(units.OVERHEAD)
PROBABILITY: _ScalarType[float] = _ScalarType(
    units.PROBABILITY.hint(),
    units.PROBABILITY.parse,
    {
        "anyOf": [
            {"type": "string", "pattern": units.PROBABILITY.pattern()},
            {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
        ]
    },
)


class AmountType:
    """The size of a queue or buffer in one of several units."""

    def __init__(self, *allowed: str) -> None:
        self._units = allowed
        self.what = units.amount_hint(allowed)

    def parse(self, node: Node, log: Log) -> units.Amount:
        if not isinstance(node, Scalar) or node.null:
            raise expected(node, self.what, log)
        try:
            return units.parse_amount(node.text, self._units)
        except ValueError as e:
            raise log.error(node.mark, str(e)) from None

    def schema(self, defs: Definitions) -> dict[str, Any]:
        words = [{"const": "default"}] if "default" in self._units else []
        return {"anyOf": [{"type": "string", "pattern": units.amount_pattern(self._units)}, {"const": 0}, *words]}


class Text:
    """Free text, or text that matches a pattern."""

    def __init__(self, what: str = "text", pattern: str | None = None, most: int = 10_000) -> None:
        self.what = what
        self._pattern = pattern
        self._most = most

    def parse(self, node: Node, log: Log) -> str:
        if not isinstance(node, Scalar) or node.null:
            raise expected(node, self.what, log)
        if node.plain and _typed(node.text):
            raise log.error(node.mark, f'`{node.text[:40]}` is not {self.what}; put it in quotes: "{node.text[:40]}"')
        if len(node.text) > self._most:
            raise log.error(node.mark, f"{len(node.text)} characters are too many; the limit is {self._most}")
        if self._pattern is not None and not re.fullmatch(self._pattern, node.text):
            raise expected(node, self.what, log)
        return node.text

    def schema(self, defs: Definitions) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "string", "maxLength": self._most}
        return schema if self._pattern is None else schema | {"pattern": f"^(?:{self._pattern})$"}


_NUMERIC = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z|[-+]?\.(inf|nan)\Z|0[xo][0-9a-fA-F]+\Z", re.I
)
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


def _typed(text: str) -> bool:
    """Whether YAML 1.2 reads plain ``text`` as a number or truth value instead of text."""
    return text in _BOOLEANS or _NUMERIC.match(text) is not None


TEXT = Text()
NAME = Text("a name (letters, digits, `_`, `-`, beginning with a letter)", "[A-Za-z][A-Za-z0-9_-]*", 64)


class _Boolean:
    what = "`true` or `false`"

    def parse(self, node: Node, log: Log) -> bool:
        if isinstance(node, Scalar) and node.plain and node.text in _BOOLEANS:
            return _BOOLEANS[node.text]
        raise expected(node, self.what, log)

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {"type": "boolean"}


BOOLEAN = _Boolean()


class Integer:
    """A whole number in a range, both ends included."""

    def __init__(self, least: int, most: int, what: str = "a whole number") -> None:
        self._least, self.most = least, most
        self.what = f"{what} from {least} to {most}"

    def parse(self, node: Node, log: Log) -> int:
        if not isinstance(node, Scalar) or not node.plain or not re.fullmatch(r"[+-]?[0-9]{1,25}", node.text):
            raise expected(node, self.what, log)
        value = int(node.text)
        if not self._least <= value <= self.most:
            raise expected(node, self.what, log)
        return value

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {"type": "integer", "minimum": self._least, "maximum": self.most}


class Number:
    """A number without unit in a range, both ends included unless ``positive`` (then zero is not)."""

    def __init__(self, least: float, most: float, *, positive: bool = False) -> None:
        self._least, self._most, self._positive = least, most, positive
        self.what = f"a number {'above' if positive else 'from'} {least:g} {'and up to' if positive else 'to'} {most:g}"

    def parse(self, node: Node, log: Log) -> float:
        if not isinstance(node, Scalar) or not node.plain or len(node.text) > 40 or not _NUMERIC.match(node.text):
            raise expected(node, self.what, log)
        try:
            value = float(node.text)
        except ValueError:
            raise expected(node, self.what, log) from None
        if not self._least <= value <= self._most or (self._positive and value == self._least):
            raise expected(node, self.what, log)
        return value

    def schema(self, defs: Definitions) -> dict[str, Any]:
        low = "exclusiveMinimum" if self._positive else "minimum"
        return {"type": "number", low: self._least, "maximum": self._most}


class Choice:
    """One of a few words."""

    def __init__(self, what: str, words: Mapping[str, str]) -> None:
        self._words = dict(words)
        self._what = what
        self.what = f"{what}: {listing(words)}"

    def parse(self, node: Node, log: Log) -> str:
        if not isinstance(node, Scalar) or node.null:
            raise expected(node, self.what, log)
        if node.text not in self._words:
            raise log.error(node.mark, f"{describe(node)} is not {self._what}{choose(node.text, self._words)}")
        return node.text

    def schema(self, defs: Definitions) -> dict[str, Any]:
        explained = "; ".join(f"{word}: {doc}" for word, doc in self._words.items() if doc)
        return {"enum": list(self._words), **({"description": explained} if explained else {})}
