"""Parses YAML text into a tree of nodes with positions.

The tree is built from parser events: nothing is constructed, no tag is honoured, and every resource that an input could
exhaust (size, depth, nodes, aliases) has a limit with its own error. Scalars stay text. This module assigns no meaning;
readers of a value know its type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from weir.language.problem import Invalid, Log, Mark

__all__ = ["MAX_BYTES", "Entry", "Map", "Node", "Scalar", "Seq", "describe", "flow_text", "read"]

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
MAX_NODES = 50_000
_CHARACTERS_A_NODE = 100  # a longer scalar counts as several nodes

# Line breaks of YAML 1.1 that are none in 1.2 (positions would be wrong), and characters that YAML text must not have.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
_NULLS = {"", "~", "null", "Null", "NULL"}
_PLAIN = re.compile(r"[A-Za-z0-9_./%+-]+\Z")


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """A single value, as written; ``plain`` is false if it was quoted or a block."""

    mark: Mark
    text: str
    plain: bool = True

    @property
    def null(self) -> bool:
        """Whether this is a null value: ``~``, ``null`` or an empty one."""
        return self.plain and self.text in _NULLS


@dataclass(frozen=True, slots=True, eq=False)
class Seq:
    """A list."""

    mark: Mark
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A key of a mapping and its value."""

    key: Scalar
    value: Node


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """A mapping, in the order written, without duplicate keys."""

    mark: Mark
    entries: tuple[Entry, ...]

    def get(self, name: str) -> Node | None:
        """The value of key ``name``."""
        return next((e.value for e in self.entries if e.key.text == name), None)

    def with_entry(self, key: Scalar, value: Node) -> Map:
        """A copy in which ``key`` has ``value``."""
        if self.get(key.text) is None:
            return replace(self, entries=(*self.entries, Entry(key, value)))
        return replace(self, entries=tuple(Entry(e.key, value) if e.key.text == key.text else e for e in self.entries))

    def without(self, name: str) -> Map:
        """A copy without key ``name``."""
        return replace(self, entries=tuple(e for e in self.entries if e.key.text != name))


Node = Scalar | Seq | Map


def read(text: str | bytes, log: Log, source: str = "") -> Node:
    """The root node of a text with one YAML document; ``source`` names a text other than the file itself.

    Raises:
        Invalid: the text is no such document; the reason is in ``log``.
    """
    start = Mark(1, 1, source)
    decoded = _decode(text, log, start)
    found = _FORBIDDEN.search(decoded)
    if found:
        raise log.error(_position(decoded, found.start(), start), f"character {_refused(found, log)}")
    parser = YAML(typ="safe", pure=True)
    parser.version = (1, 2)
    try:
        return _Builder(log, source).build(parser.parse(decoded))
    except MarkedYAMLError as e:
        mark = _mark_of(e.problem_mark or e.context_mark, start)
        raise log.error(mark, _syntax_message(e, decoded.split("\n")[mark.line - 1 : mark.line])) from None
    except YAMLError as e:
        raise log.error(start, f"not YAML: {_one_line(str(e))}") from None
    except (ValueError, AttributeError, TypeError, IndexError, OverflowError, AssertionError) as e:
        # ruamel.yaml fails with other exceptions on a few malformed directives and escapes; for a user these are syntax
        # errors too.
        raise log.error(start, f"not YAML: {_one_line(str(e)) or type(e).__name__}") from None


def _refused(found: re.Match[str], log: Log) -> str:
    return f"U+{ord(found.group()):04X} is not allowed in {log.about.a}"


def _decode(text: str | bytes, log: Log, start: Mark) -> str:
    if len(text) > MAX_BYTES:
        raise log.error(start, f"{len(text)} bytes is too much for {log.about.a}; the limit is {MAX_BYTES}")
    if isinstance(text, bytes):
        try:
            return text.decode("utf-8").removeprefix("\ufeff")
        except UnicodeDecodeError as e:
            mark = _position(e.object[: e.start].decode("utf-8"), e.start, start)
            raise log.error(mark, f"byte 0x{e.object[e.start]:02X} is not UTF-8") from None
    return text.removeprefix("\ufeff")


def _position(text: str, offset: int, start: Mark) -> Mark:
    before = text[:offset].replace("\r\n", "\n").replace("\r", "\n")
    return replace(start, line=before.count("\n") + 1, column=len(before) - before.rfind("\n"))


def _mark_of(mark: Any, start: Mark) -> Mark:
    return start if mark is None else replace(start, line=mark.line + 1, column=mark.column + 1)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]


# An unquoted check whose metric has factors in braces.
_BARE_CHECK = re.compile(r"""\bcheck: *[^"'|>\s].*[\w)\]]\{""")


def _syntax_message(e: MarkedYAMLError, lines: list[str]) -> str:
    problem = _one_line(e.problem or e.context or "syntax error")
    if any(_BARE_CHECK.search(line) for line in lines):
        return 'not YAML: a check with braces needs quotes: check: "goodput.mean{cc: reno} > 1Mbps"'
    if problem == "mapping values are not allowed here":
        return "not YAML: a second `: ` in this line; a text that contains `: ` needs quotes"
    if "\\t" in problem:
        return "not YAML: a tab cannot indent; use spaces"
    if "'['" in problem and "flow" in (e.context or ""):
        return 'not YAML: between braces a text with `[` needs quotes, such as "elephants[4]"'
    context = f" ({_one_line(e.context)})" if e.context and e.problem else ""
    return f"not YAML: {problem}{context}"


class _Builder:
    """Builds the tree from events without recursion: weir's limit bounds the depth, not Python's stack."""

    def __init__(self, log: Log, source: str) -> None:
        self._log = log
        self._source = source
        self._nodes = 0
        self._anchors: dict[str, tuple[Node, _Extent]] = {}
        self._stack: list[_Open] = []
        self._root: Node | None = None

    def build(self, events: Iterator[Any]) -> Node:
        documents = 0
        for event in events:
            match event:
                case DocumentStartEvent():
                    documents += 1
                    self._start_document(event, documents)
                case ScalarEvent():
                    self._refuse_tag(event)
                    self._refuse_escaped(event)
                    plain = event.style is None
                    size = 1 + len(event.value) // _CHARACTERS_A_NODE
                    self._add(Scalar(self._mark(event), event.value, plain), event.anchor, _Extent(size, 0))
                case AliasEvent():
                    self._alias(event)
                case SequenceStartEvent() | MappingStartEvent():
                    self._open(event)
                case SequenceEndEvent() | MappingEndEvent():
                    self._close()
                case _:
                    pass
        if self._root is None:
            expected = "a value" if self._source else self._log.about.keys
            raise self._log.error(Mark(1, 1, self._source), f"there is nothing here; expected {expected}")
        if self._log.failed:
            raise Invalid
        return self._root

    def _mark(self, event: Any) -> Mark:
        return Mark(event.start_mark.line + 1, event.start_mark.column + 1, self._source)

    def _start_document(self, event: Any, documents: int) -> None:
        mark = self._mark(event)
        if documents > 1:
            raise self._log.error(mark, f"a second YAML document begins here; {self._log.about.a} is one")
        if event.version is not None and tuple(event.version) != (1, 2):
            raise self._log.error(mark, f"{self._log.about.all} are YAML 1.2")

    def _refuse_tag(self, event: Any) -> None:
        if event.tag is not None:
            tag = str(event.tag).replace("tag:yaml.org,2002:", "!!")[:60]
            raise self._log.error(self._mark(event), f"tags such as `{tag}` are not allowed in {self._log.about.a}")

    def _refuse_escaped(self, event: Any) -> None:
        """Refuses an escape in quoted text for a character that no text may contain."""
        found = _FORBIDDEN.search(event.value)
        if found:
            refused = _refused(found, self._log)
            raise self._log.error(self._mark(event), f"this text has an escape for a character: {refused}")

    def _open(self, event: Any) -> None:
        mark = self._mark(event)
        self._refuse_tag(event)
        if len(self._stack) >= MAX_DEPTH:
            raise self._log.error(mark, f"nested more than {MAX_DEPTH} levels deep")
        self._stack.append(_Open(mark, isinstance(event, MappingStartEvent), event.anchor, self._nodes))

    def _close(self) -> None:
        top = self._stack.pop()
        node: Node = Map(top.mark, self._entries(top.items)) if top.mapping else Seq(top.mark, tuple(top.items))
        inside = self._nodes - top.nodes_before
        self._nodes = top.nodes_before
        self._add(node, top.anchor, _Extent(inside + 1, top.height))

    def _entries(self, items: list[Node]) -> tuple[Entry, ...]:
        entries: dict[str, Entry] = {}
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, Scalar):
                self._log.error(key.mark, f"a key must be a single word, found {describe(key)}")
            elif key.plain and key.text == "<<":
                self._log.error(key.mark, "merge keys (`<<`) are not part of YAML 1.2; write the keys out")
            elif key.text in entries:
                first = entries[key.text].key.mark
                self._log.error(key.mark, f"key `{key.text[:60]}` is given twice; the first is at line {first.line}")
            else:
                entries[key.text] = Entry(key, value)
        return tuple(entries.values())

    def _alias(self, event: Any) -> None:
        mark = self._mark(event)
        if event.anchor not in self._anchors:
            inside = any(o.anchor == event.anchor for o in self._stack)
            why = "contains itself" if inside else "has no anchor before it"
            raise self._log.error(mark, f"alias `*{event.anchor[:60]}` {why}")
        node, extent = self._anchors[event.anchor]
        if len(self._stack) + extent.height > MAX_DEPTH:
            raise self._log.error(mark, f"nested more than {MAX_DEPTH} levels deep")
        self._add(node, None, extent)

    def _add(self, node: Node, anchor: str | None, extent: _Extent) -> None:
        # An alias counts as all it stands for: a bomb of aliases is as large as what it expands to.
        self._nodes += extent.nodes
        if self._nodes > MAX_NODES:
            raise self._log.error(node.mark, f"more than {MAX_NODES} values (aliases count as what they stand for)")
        if anchor is not None:
            self._anchors[anchor] = (node, extent)
        if self._stack:
            top = self._stack[-1]
            top.items.append(node)
            top.height = max(top.height, extent.height + 1)
        else:
            self._root = node


@dataclass(frozen=True, slots=True)
class _Extent:
    """How large a node is with its aliases expanded: nodes in it, and levels below it."""

    nodes: int
    height: int


class _Open:
    """A list or mapping whose end was not read yet."""

    def __init__(self, mark: Mark, mapping: bool, anchor: str | None, nodes_before: int) -> None:
        self.mark = mark
        self.mapping = mapping
        self.anchor = anchor
        self.nodes_before = nodes_before
        self.items: list[Node] = []
        self.height = 0


def describe(node: Node) -> str:
    """What a node is, for the end of an error message."""
    match node:
        case Scalar() if node.null:
            return "nothing"
        case Scalar():
            text = _one_line(node.text)
            return f"`{text[:40]}{'...' if len(text) > 40 else ''}`"
        case Seq():
            return "a list"
        case Map():
            return "a mapping"


def flow_text(node: Node) -> str:
    """A node as compact flow-style YAML: the name of a swept value that is not a single word."""
    match node:
        case Scalar():
            return node.text if node.plain or _PLAIN.match(node.text) else json.dumps(node.text, ensure_ascii=False)
        case Seq():
            return "[" + ", ".join(flow_text(i) for i in node.items) + "]"
        case Map():
            return "{" + ", ".join(f"{e.key.text}: {flow_text(e.value)}" for e in node.entries) + "}"
