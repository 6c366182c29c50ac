"""Building blocks of the language: lists and mappings.

One definition both parses and generates the JSON schema, so that the two cannot differ. A mapping of the language is a
frozen dataclass whose fields are made with :func:`key`; the rest are small types to compose. Parsing continues after a
mistake as long as that makes sense: a type reports to the log and raises ``Invalid``; a mapping or list catches that
for each part and raises once at its end.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar, cast

from weir.language.problem import NOWHERE, Invalid, Log, Mark, choose, gather, listing
from weir.language.scalars import Choice, Definitions, Type, expected
from weir.language.tree import Entry, Map, Node, Scalar, Seq, describe

__all__ = ["Kind", "ListOf", "MapOf", "OneOf", "OneOrEach", "ShapeOf", "Short", "Spec", "Struct", "key"]

T = TypeVar("T")


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
        log.work += len(node.items)
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
            raise expected(node, self.what, log)
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
            raise expected(node, self.what, log)
        return shape.parse(node, log)

    def schema(self, defs: Definitions) -> dict[str, Any]:
        shapes = [s for s in (self._scalar, self._seq, self._mapping) if s is not None]
        return {"anyOf": [s.schema(defs) for s in shapes]}


class OneOrEach:
    """One value for all, or a list with one for each; parses to a tuple of one or more."""

    def __init__(self, item: Type[Any], most: int = 100_000) -> None:
        self._item = item
        self._list = ListOf(item, 1, most)
        self.what = f"{item.what}, or a list of them"
        self._shape: ShapeOf[Any] = ShapeOf(self.what, scalar=item, seq=self._list, mapping=item)

    def parse(self, node: Node, log: Log) -> tuple[Any, ...]:
        value = self._shape.parse(node, log)
        return value if isinstance(value, tuple) else (value,)

    def schema(self, defs: Definitions) -> dict[str, Any]:
        item = self._item.schema(defs)
        return {"anyOf": [*item.get("anyOf", [item]), self._list.schema(defs)]}


@dataclass(frozen=True)
class Key:
    """A key of a mapping: its type and meaning."""

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
    """A mapping of the language, with the places of itself and its values in the text."""

    mark: Mark = field(default=NOWHERE, compare=False, repr=False)
    marks: Mapping[str, Mark] = field(default_factory=dict, compare=False, repr=False)

    def at(self, name: str) -> Mark:
        """The place of the value of key ``name``; the place of the mapping if it has no such key."""
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
        """As :meth:`parse`; keys in ``ignore`` are read elsewhere."""
        log.work += len(node.entries)
        parts: list[Callable[[], tuple[str, Any]]] = []
        free = [k for k in self.keys if node.get(k) is None]
        for entry in node.entries:
            name = entry.key.text
            if name in self.keys:
                parts.append(partial(self._parse_value, name, entry.value, log))
            elif name not in ignore:
                usable = self.keys if entry.key.mark.file else free  # --set also changes what is there
                message = f"unknown key `{name[:60]}`{choose(name, self.keys, usable)}"
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
            defs[self.name] = {}  # reserved before it is filled in: a type may contain itself
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


class Short(Generic[S]):
    """A single value in place of a mapping that gives only ``field``: ``512KiB`` for ``{size: 512KiB}``."""

    def __init__(self, spec: type[S], field: str, value: Type[Any]) -> None:
        self._spec = spec
        self._field = field
        self._value = value
        self.what = value.what

    def parse(self, node: Node, log: Log) -> S:
        return self._spec(mark=node.mark, marks={self._field: node.mark}, **{self._field: self._value.parse(node, log)})

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return self._value.schema(defs)


class OneOf(Generic[S]):
    """A mapping with exactly one of several keys, each with its own mapping: ``{droptail: {size: 100ms}}``.

    The name alone is short for a mapping without keys (``codel``); ``shorthand`` reads other single values.
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
            raise expected(node, self.what, log)
        unknown = [e.key for e in node.entries if e.key.text not in self._kinds]
        for name in unknown:
            free = [k for k in self._kinds if node.get(k) is None]
            log.error(name.mark, f"{describe(name)} is not {self._what}{choose(name.text, self._kinds, free)}")
        if unknown:
            raise Invalid
        if len(node.entries) > 1:
            second = node.entries[1].key
            first = node.entries[0].key.text
            raise log.error(second.mark, f"give only one of `{first}` and `{second.text}`")
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
        if self._shorthand is not None and not re.fullmatch("[A-Za-z_][A-Za-z0-9_ -]*", node.text):
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
    """A mapping whose key ``kind`` determines its other keys."""

    def __init__(self, what: str, kinds: Mapping[str, Struct[Any]]) -> None:
        self._kinds = dict(kinds)
        self._what = what
        self.what = f"a mapping with `kind` ({listing(kinds)})"

    def parse(self, node: Node, log: Log) -> S:
        if not isinstance(node, Map):
            raise expected(node, self.what, log)
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
