"""YAML to nodes: positions, and inputs made to break parsers."""

from __future__ import annotations

import pytest
from scenario_support import tree

from weir.language import tree as reader
from weir.language.problem import Invalid, Log, Mark
from weir.language.tree import MAX_BYTES, MAX_DEPTH, Map, Node, Scalar, Seq, flow_text, read
from weir.scenario import ScenarioError, parse


def problem_of(text: str | bytes) -> str:
    """The one problem of a text that is no scenario, with its place."""
    with pytest.raises(ScenarioError) as caught:
        parse(text, "f")
    return str(caught.value.problems[0])


def _map(node: Node | None) -> Map:
    assert isinstance(node, Map)
    return node


def test_every_node_knows_its_line_and_column() -> None:
    root = _map(tree("a: 1\nb:\n  - x\n  - {c: 'é y', d: z}\n"))
    assert [(e.key.text, e.key.mark) for e in root.entries] == [("a", Mark(1, 1)), ("b", Mark(2, 1))]
    items = root.get("b")
    assert isinstance(items, Seq)
    inner = _map(items.items[1])
    assert inner.mark == Mark(4, 5)
    # Columns count characters, not bytes.
    assert [e.key.mark for e in inner.entries] == [Mark(4, 6), Mark(4, 16)]


def test_scalars_stay_text() -> None:
    root = _map(tree("a: 010\nb: yes\nc: 1e3\nd: 2001-01-01\ne: ''\nf:\n"))
    assert [e.value.text for e in root.entries if isinstance(e.value, Scalar)] == [
        "010",
        "yes",
        "1e3",
        "2001-01-01",
        "",
        "",
    ]
    assert [e.value.null for e in root.entries if isinstance(e.value, Scalar)] == [False] * 5 + [True]


def test_a_byte_order_mark_and_windows_line_ends_are_harmless() -> None:
    root = _map(read(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n", Log("f")))
    assert [e.key.mark for e in root.entries] == [Mark(1, 1), Mark(2, 1)]


def test_an_alias_is_the_node_it_names() -> None:
    root = _map(tree("a: &x {b: 1}\nc: *x\n"))
    assert root.get("c") is root.get("a")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "f:1:1: there is nothing here"),
        ("# only\n# comments\n", "f:1:1: there is nothing here"),
        ("--- \n...\n", "f:2:1: expected a mapping"),
        ("just words", "f:1:1: expected a mapping"),
        ("a: [1, 2", "f:1:9: not YAML"),
        ("a: b: c", "f:1:5: not YAML"),
        ("a: 'x", "f:1:6: not YAML"),
        ('a: "\\q"', "f:1:6: not YAML"),
        ("a: \x07", "f:1:4: character U+0007 is not allowed"),
        ("a:\n  b: x\u2028", "f:2:7: character U+2028 is not allowed"),
        ("a: \ud800", "f:1:4: character U+D800 is not allowed"),
        ("%TAG ! tag:x,2000:\n--- !foo\na: 1", "f:2:5: tags such as"),
        ("a: !!int 1", "f:1:4: tags such as `!!int`"),
        ("a: ! x", "f:1:4: tags such as"),
        ("&a a: *a", "f:1:1: "),
        ("a: &a [*a]", "f:1:8: alias `*a` contains itself"),
        ("a: *b", "f:1:4: alias `*b` has no anchor before it"),
        ("{a: 1, a: 2}", "f:1:8: key `a` is given twice; the first is at line 1"),
        ("a: 1\n---\nb: 1", "f:2:1: a second YAML document"),
        ("%YAML 3.0\n---\na: 1", "f:"),
        ("@a: 1", "f:1:1: not YAML"),
        ("a: |\n x\n  y\n z: \n\tq", "f:"),
    ],
)
def test_what_is_wrong_with_a_text_is_said_and_where(text: str, problem: str) -> None:
    assert problem_of(text).startswith(problem)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"a: \xff", "f:1:4: byte 0xFF is not UTF-8"),
        (b"a: 1\nb: \xc3\xa9\xe9", "f:2:5: byte 0xE9 is not UTF-8"),
        (b"\xff\xfea\x00:\x00", "f:1:1: byte 0xFF is not UTF-8"),
        (b"\x00" * 100, "f:1:1: character U+0000"),
        (bytes(range(256)), "f:"),
    ],
)
def test_bytes_that_are_no_text(data: bytes, problem: str) -> None:
    assert problem_of(data).startswith(problem)


HOSTILE = {
    "nested lists": ("[" * 100_000, "nested more than"),
    "nested mappings": ("{a: " * 100_000, "nested more than"),
    "nested blocks": ("- " * 100_000 + "x", "nested more than"),
    "nested keys": ("".join(f"{' ' * i}a:\n" for i in range(1000)), "nested more than"),
    "a long line": ("a: " + "x" * 900_000, "topology"),
    "a long key": ("x" * 900_000 + ": 1", "not YAML|unknown key"),
    "many keys": ("".join(f"k{i}: {i}\n" for i in range(5_000)), "more than 200 errors"),
    "many items": ("a: [" + "1," * 20_000 + "1]", "more than"),
    "many anchors": ("".join(f"k{i}: &a{i} {i}\n" for i in range(5_000)), "more than 200 errors"),
    "many documents": ("---\n" * 100_000, "second YAML document"),
    "many comments": ("# x\n" * 200_000, "nothing here"),
    "many escapes": ('a: "' + "\\x41" * 200_000 + '"', "topology"),
    "a long quoted text": ("a: '" + "''" * 400_000 + "'", "topology"),
    "a bomb of aliases": (
        "a0: &a0 [" + "x," * 50 + "]\n" + "".join(f"a{i}: &a{i} [{f'*a{i - 1},' * 50}]\n" for i in range(1, 20)),
        "aliases count as",
    ),
    "a bomb of texts": (
        f"a0: &a0 {'x' * 100_000}\n" + "".join(f"a{i}: &a{i} [{f'*a{i - 1},' * 50}]\n" for i in range(1, 5)),
        "aliases count as",
    ),
    "depth by aliases": (
        "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [[[[[*a{i - 1}]]]]]\n" for i in range(1, 50)),
        "nested more than",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_inputs_made_to_exhaust_the_parser_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_NODES", 15_000)  # the real limit takes seconds to reach
    text, expected = HOSTILE[name]
    assert len(text) <= MAX_BYTES
    with pytest.raises(ScenarioError) as caught:
        parse(text)
    messages = " ".join(p.message for p in caught.value.problems)
    assert any(word in messages for word in expected.split("|"))


def test_the_limits_themselves_are_allowed() -> None:
    deep = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert isinstance(tree(deep), Seq)
    with pytest.raises(Invalid):
        tree(f"[{deep}]")


@pytest.mark.parametrize("text", ["reno", "{droptail: {size: 100ms}}", "[1, 2]", '"a b: c"'])
def test_flow_text_is_yaml_of_the_same_value(text: str) -> None:
    assert flow_text(tree(text)) == text
    assert flow_text(tree(flow_text(tree(text)))) == text
