"""The definitions of the language: types that parse a node and describe themselves as JSON schema.

One definition serves both, so that the published schema cannot say something else than the parser does. A mapping of
the language is a frozen dataclass whose fields are made with :func:`key`; the rest are small types to compose. Parsing
goes on after a mistake as long as it makes sense: a type reports to the log and raises ``Invalid``, a mapping or list
catches that for each part and raises once at its end.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, cast

from . import _units
from ._problem import NOWHERE, Invalid, Log, Mark, choose, gather, listing
from ._yaml import Entry, Map, Node, Scalar, Seq, describe

__all__ = [
    "BOOLEAN",
    "DURATION",
    "NAME",
    "NUMBER",
    "PROBABILITY",
    "RATE",
    "SIZE",
    "TEXT",
    "AmountType",
    "Choice",
    "Definitions",
    "Integer",
    "Kind",
    "ListOf",
    "MapOf",
    "Number",
    "OneOf",
    "ShapeOf",
    "Spec",
    "Struct",
    "Text",
    "Type",
    "key",
]

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")
Definitions = dict[str, dict[str, Any]]


class Type(Protocol[T_co]):
    """What a value may be."""

    @property
    def what(self) -> str:
        """A noun phrase for "expected ..."."""

    def parse(self, node: Node, log: Log) -> T_co:
        """The value of ``node``; raises ``Invalid`` after reporting to ``log``."""

    def schema(self, defs: Definitions) -> dict[str, Any]:
        """The JSON schema; named parts go to ``defs``."""


def _expected(node: Node, what: str, log: Log) -> Invalid:
    return log.error(node.mark, f"expected {what}, found {describe(node)}")


class _ScalarType(Generic[T]):
    """A type of single values, by a function from text that raises ``ValueError``."""

    def __init__(self, what: str, convert: Callable[[str], T], schema: dict[str, Any]) -> None:
        self.what = what
        self._convert = convert
        self._schema = schema

    def parse(self, node: Node, log: Log) -> T:
        if not isinstance(node, Scalar) or node.null:
            raise _expected(node, self.what, log)
        try:
            return self._convert(node.text)
        except ValueError as e:
            raise log.error(node.mark, str(e)) from None

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return dict(self._schema)


def _quantity(q: _units.Quantity) -> _ScalarType[int]:
    return _ScalarType(q.hint(), q.parse, {"anyOf": [{"type": "string", "pattern": q.pattern()}, {"const": 0}]})


RATE = _quantity(_units.RATE)
DURATION = _quantity(_units.DURATION)
SIZE = _quantity(_units.SIZE)
PROBABILITY: _ScalarType[float] = _ScalarType(
    _units.PROBABILITY.hint(),
    _units.PROBABILITY.parse,
    {
        "anyOf": [
            {"type": "string", "pattern": _units.PROBABILITY.pattern()},
            {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
        ]
    },
)


class AmountType:
    """The size of a queue or buffer in one of several units."""

    def __init__(self, *units: str) -> None:
        self._units = units
        self.what = _units.amount_hint(units)

    def parse(self, node: Node, log: Log) -> _units.Amount:
        if not isinstance(node, Scalar) or node.null:
            raise _expected(node, self.what, log)
        try:
            return _units.parse_amount(node.text, self._units)
        except ValueError as e:
            raise log.error(node.mark, str(e)) from None

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "pattern": _units.amount_pattern(self._units)}, {"const": 0}]}


class Text:
    """Free text, or text that matches a pattern."""

    def __init__(self, what: str = "text", pattern: str | None = None, most: int = 10_000) -> None:
        self.what = what
        self._pattern = pattern
        self._most = most

    def parse(self, node: Node, log: Log) -> str:
        if not isinstance(node, Scalar) or node.null:
            raise _expected(node, self.what, log)
        if node.plain and _typed(node.text):
            raise log.error(node.mark, f'`{node.text[:40]}` is not {self.what}; put it in quotes: "{node.text[:40]}"')
        if len(node.text) > self._most:
            raise log.error(node.mark, f"{len(node.text)} characters are too many; the limit is {self._most}")
        if self._pattern is not None and not re.fullmatch(self._pattern, node.text):
            raise _expected(node, self.what, log)
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
        raise _expected(node, self.what, log)

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {"type": "boolean"}


BOOLEAN = _Boolean()


class Integer:
    """A whole number in a range, both ends included."""

    def __init__(self, least: int, most: int, what: str = "a whole number") -> None:
        self._least, self._most = least, most
        self.what = f"{what} from {least} to {most}"

    def parse(self, node: Node, log: Log) -> int:
        if not isinstance(node, Scalar) or not node.plain or not re.fullmatch(r"[+-]?[0-9]{1,25}", node.text):
            raise _expected(node, self.what, log)
        value = int(node.text)
        if not self._least <= value <= self._most:
            raise _expected(node, self.what, log)
        return value

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {"type": "integer", "minimum": self._least, "maximum": self._most}


class Number:
    """A number without unit in a range, both ends included unless ``positive`` (then zero is not)."""

    def __init__(self, least: float, most: float, *, positive: bool = False) -> None:
        self._least, self._most, self._positive = least, most, positive
        self.what = f"a number {'above' if positive else 'from'} {least:g} {'and up to' if positive else 'to'} {most:g}"

    def parse(self, node: Node, log: Log) -> float:
        if not isinstance(node, Scalar) or not node.plain or len(node.text) > 40 or not _NUMERIC.match(node.text):
            raise _expected(node, self.what, log)
        try:
            value = float(node.text)
        except ValueError:
            raise _expected(node, self.what, log) from None
        if not self._least <= value <= self._most or (self._positive and value == self._least):
            raise _expected(node, self.what, log)
        return value

    def schema(self, defs: Definitions) -> dict[str, Any]:
        low = "exclusiveMinimum" if self._positive else "minimum"
        return {"type": "number", low: self._least, "maximum": self._most}


NUMBER = Number(0, 1e12)


class Choice:
    """One of a few words."""

    def __init__(self, what: str, words: Mapping[str, str]) -> None:
        self._words = dict(words)
        self._what = what
        self.what = f"{what}: {listing(words)}"

    def parse(self, node: Node, log: Log) -> str:
        if not isinstance(node, Scalar) or node.null:
            raise _expected(node, self.what, log)
        if node.text not in self._words:
            raise log.error(node.mark, f"{describe(node)} is not {self._what}{choose(node.text, self._words)}")
        return node.text

    def schema(self, defs: Definitions) -> dict[str, Any]:
        explained = "; ".join(f"{word}: {doc}" for word, doc in self._words.items() if doc)
        return {"enum": list(self._words), **({"description": explained} if explained else {})}


class ListOf(Generic[T]):
    """A list of one type."""

    def __init__(self, item: Type[T], least: int = 1, most: int = 100_000) -> None:
        self._item, self._least, self._most = item, least, most
        self.what = "a list"

    def parse(self, node: Node, log: Log) -> tuple[T, ...]:
        if not isinstance(node, Seq):
            raise log.error(node.mark, f"expected a list, each {self._item.what}; found {describe(node)}")
        if not self._least <= len(node.items) <= self._most:
            limits = f"{self._least} to {self._most}"
            raise log.error(node.mark, f"expected a list of {limits} values, found {len(node.items)}")
        return gather([partial(self._item.parse, item, log) for item in node.items])

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {"type": "array", "items": self._item.schema(defs), "minItems": self._least, "maxItems": self._most}


class MapOf(Generic[T]):
    """A mapping from free names to one type; the values keep the marks of their names."""

    def __init__(self, value: Type[T], name: str, pattern: str = "[A-Za-z][A-Za-z0-9_-]*") -> None:
        self._value, self._name, self._pattern = value, name, pattern
        self.what = f"a mapping from {name} to {value.what}"

    def parse(self, node: Node, log: Log) -> dict[str, T]:
        if not isinstance(node, Map):
            raise _expected(node, self.what, log)
        return dict(gather([partial(self._parse_entry, e, log) for e in node.entries]))

    def _parse_entry(self, entry: Entry, log: Log) -> tuple[str, T]:
        return self._parse_key(entry.key, log), self._value.parse(entry.value, log)

    def _parse_key(self, name: Scalar, log: Log) -> str:
        if not re.fullmatch(self._pattern, name.text):
            raise log.error(name.mark, f"{describe(name)} is not {self._name} (letters, digits, `_`, `-`)")
        return name.text

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {
            "type": "object",
            "patternProperties": {f"^(?:{self._pattern})$": self._value.schema(defs)},
            "additionalProperties": False,
        }


class ShapeOf(Generic[T]):
    """A value whose type depends on whether it is single, a list, or a mapping; a missing type is not allowed."""

    def __init__(
        self,
        what: str,
        scalar: Type[T] | None = None,
        seq: Type[T] | None = None,
        mapping: Type[T] | None = None,
    ) -> None:
        self.what = what
        self._scalar, self._seq, self._mapping = scalar, seq, mapping

    def parse(self, node: Node, log: Log) -> T:
        shape = self._scalar if isinstance(node, Scalar) else self._seq if isinstance(node, Seq) else self._mapping
        if shape is None or (isinstance(node, Scalar) and node.null):
            raise _expected(node, self.what, log)
        return shape.parse(node, log)

    def schema(self, defs: Definitions) -> dict[str, Any]:
        shapes = [s for s in (self._scalar, self._seq, self._mapping) if s is not None]
        return {"anyOf": [s.schema(defs) for s in shapes]}


@dataclass(frozen=True)
class Key:
    """A key of a mapping: its type and what it means."""

    name: str
    type: Type[Any]
    doc: str
    required: bool


def key(type: Type[Any], doc: str, *, default: Any = dataclasses.MISSING) -> Any:  # noqa: A002 - the natural word here
    """A field of a dataclass of the language. A trailing ``_`` of the field's name is not part of the key."""
    metadata = {"weir": (type, doc)}
    if isinstance(default, dict | list):
        raise TypeError("a default must be immutable")
    return field(metadata=metadata, default=default, kw_only=True)


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A mapping of the language; knows where it and its values are in the text."""

    mark: Mark = field(default=NOWHERE, compare=False, repr=False)
    marks: Mapping[str, Mark] = field(default_factory=dict, compare=False, repr=False)

    def at(self, name: str) -> Mark:
        """Where the value of key ``name`` is; where the mapping is, if it has no such key."""
        return self.marks.get(name, self.mark)

    def has(self, name: str) -> bool:
        """Whether key ``name`` was written."""
        return name in self.marks


S = TypeVar("S", bound=Spec)


class Struct(Generic[S]):
    """A mapping with the keys of a dataclass."""

    def __init__(self, cls: type[S]) -> None:
        self._cls = cls
        self.name = cls.__name__
        self.what = f"a mapping ({(cls.__doc__ or cls.__name__).splitlines()[0].rstrip('.')})"
        self.keys = {k.name: k for k in _keys(cls)}

    def parse(self, node: Node, log: Log, ignore: frozenset[str] = frozenset()) -> S:
        if not isinstance(node, Map):
            raise log.error(node.mark, f"expected a mapping with {listing(self.keys)}, found {describe(node)}")
        return self.parse_map(node, log, ignore)

    def parse_map(self, node: Map, log: Log, ignore: frozenset[str] = frozenset()) -> S:
        """Like :meth:`parse`; keys in ``ignore`` are someone else's business."""
        parts: list[Callable[[], tuple[str, Any]]] = []
        free = [k for k in self.keys if node.get(k) is None]
        for entry in node.entries:
            name = entry.key.text
            if name in self.keys:
                parts.append(partial(self._parse_value, name, entry.value, log))
            elif name not in ignore:
                message = f"unknown key `{name[:60]}`{choose(name, self.keys, free)}"
                parts.append(partial(_fail, entry.key.mark, message, log))
        parts += [
            partial(_fail, node.mark, f"`{k.name}` is missing; expected {k.type.what}", log)
            for k in self.keys.values()
            if k.required and node.get(k.name) is None
        ]
        values = {_field_name(self._cls, name): value for name, value in gather(parts)}
        marks = {e.key.text: e.value.mark for e in node.entries}
        return self._cls(mark=node.mark, marks=marks, **values)

    def _parse_value(self, name: str, node: Node, log: Log) -> tuple[str, Any]:
        return name, self.keys[name].type.parse(node, log)

    def schema(self, defs: Definitions) -> dict[str, Any]:
        if self.name not in defs:
            defs[self.name] = {}  # a placeholder: a type may contain itself
            defs[self.name] = self.body(defs)
        return {"$ref": f"#/$defs/{self.name}"}

    def body(self, defs: Definitions) -> dict[str, Any]:
        """The schema of the mapping itself."""
        body: dict[str, Any] = {
            "type": "object",
            "description": " ".join((self._cls.__doc__ or "").split()),
            "properties": {k.name: _described(k, defs) for k in self.keys.values()},
            "additionalProperties": False,
        }
        required = [k.name for k in self.keys.values() if k.required]
        return body | ({"required": required} if required else {})


def _fail(mark: Mark, message: str, log: Log) -> tuple[str, Any]:
    raise log.error(mark, message)


def _described(k: Key, defs: Definitions) -> dict[str, Any]:
    schema = k.type.schema(defs)
    more = f" ({schema['description']})" if "description" in schema else ""
    return {**schema, "description": k.doc + more}


def _keys(cls: type[Any]) -> list[Key]:
    found = []
    for f in dataclasses.fields(cls):
        if "weir" in f.metadata:
            kind, doc = f.metadata["weir"]
            required = f.default is dataclasses.MISSING
            found.append(Key(f.name.rstrip("_"), kind, doc, required))
    return found


def _field_name(cls: type[Any], name: str) -> str:
    return name if name in cls.__dataclass_fields__ else f"{name}_"


class OneOf(Generic[S]):
    """A mapping with exactly one of several keys, each with its own mapping: ``{droptail: {size: 100ms}}``.

    The name alone stands for a mapping without keys (``codel``); other single values are read by ``shorthand``.
    """

    def __init__(
        self, what: str, kinds: Mapping[str, Type[S]], shorthand: Type[S] | None = None, example: str = ""
    ) -> None:
        self._kinds = dict(kinds)
        self._what = what
        self._shorthand = shorthand
        self.what = f"{what}: {listing(kinds)}" + (f", or {example}" if example else "")

    def parse(self, node: Node, log: Log) -> S:
        if isinstance(node, Scalar) and not node.null:
            return self._parse_scalar(node, log)
        if not isinstance(node, Map) or not node.entries:
            raise _expected(node, self.what, log)
        unknown = [e.key for e in node.entries if e.key.text not in self._kinds]
        for name in unknown:
            free = [k for k in self._kinds if node.get(k) is None]
            log.error(name.mark, f"{describe(name)} is not {self._what}{choose(name.text, self._kinds, free)}")
        if unknown:
            raise Invalid
        if len(node.entries) > 1:
            second = node.entries[1].key
            first = node.entries[0].key.text
            raise log.error(second.mark, f"`{second.text}` besides `{first}`: only one can be given")
        return self._kinds[node.entries[0].key.text].parse(node.entries[0].value, log)

    def _parse_scalar(self, node: Scalar, log: Log) -> S:
        if node.text in self._kinds:
            kind = self._kinds[node.text]
            if not isinstance(kind, Struct):
                raise log.error(node.mark, f"`{node.text}` needs {kind.what}")
            missing = [k.name for k in kind.keys.values() if k.required]
            if missing:
                raise log.error(node.mark, f"`{node.text}` needs {listing(missing, 'and')}: `{{{node.text}: {{...}}}}`")
            return cast(S, kind.parse_map(Map(node.mark, ()), log))
        if self._shorthand is not None and not re.fullmatch("[A-Za-z_]+", node.text):
            return self._shorthand.parse(node, log)
        raise log.error(node.mark, f"{describe(node)} is not {self._what}{choose(node.text, self._kinds)}")

    def schema(self, defs: Definitions) -> dict[str, Any]:
        mapping = {
            "type": "object",
            "properties": {name: kind.schema(defs) for name, kind in self._kinds.items()},
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 1,
        }
        alone = [
            name
            for name, kind in self._kinds.items()
            if isinstance(kind, Struct) and not any(k.required for k in kind.keys.values())
        ]
        shapes: list[dict[str, Any]] = [mapping]
        if alone:
            shapes.append({"enum": alone})
        if self._shorthand is not None:
            shapes.append(self._shorthand.schema(defs))
        return {"anyOf": shapes} if len(shapes) > 1 else mapping


class Kind(Generic[S]):
    """A mapping whose key ``kind`` says which other keys it has."""

    def __init__(self, what: str, kinds: Mapping[str, Struct[Any]]) -> None:
        self._kinds = dict(kinds)
        self._what = what
        self.what = f"a mapping with `kind` ({listing(kinds)})"

    def parse(self, node: Node, log: Log) -> S:
        if not isinstance(node, Map):
            raise _expected(node, self.what, log)
        kind = node.get("kind")
        if kind is None:
            raise log.error(node.mark, f"`kind` is missing: {self._what}, {listing(self._kinds)}")
        name = Choice(self._what, dict.fromkeys(self._kinds, "")).parse(kind, log)
        return cast(S, self._kinds[name].parse_map(node, log, frozenset({"kind"})))

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {"oneOf": [self._schema_of(name, struct, defs) for name, struct in self._kinds.items()]}

    def _schema_of(self, name: str, struct: Struct[Any], defs: Definitions) -> dict[str, Any]:
        if struct.name not in defs:
            body = struct.body(defs)
            body["properties"] = {"kind": {"const": name, "description": body["description"]}, **body["properties"]}
            body["required"] = ["kind", *body.get("required", [])]
            defs[struct.name] = body
        return {"$ref": f"#/$defs/{struct.name}"}
