"""Whatever an inventory says: it is read or refused with places, in bounded time, and nothing is executed."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from weir import _ssh
from weir.inventory import Inventory, InventoryError, Node, parse
from weir.report.machines import draw

KEYS = (
    *("sets", "connections", "roles", "network", "A", "B", "nodes", "reserve", "user", "port", "key", "jump"),
    *("known_hosts", "interface", "experiment_address", "rate", "python", "address", "name", "between", "rtt", "by"),
    *("time", "sources", "password"),
)
WORDS = st.sampled_from(
    [
        *("a[1..3].org", "a[3..1]", "a[1..999999][1..999999]", "A[1..2]", "A[0]", "-oProxyCommand=id", "x y", "é", ""),
        *(
            "10.0.0.1",
            "::1",
            "1Gbps",
            "1e99Gbps",
            "18ms",
            "slurm",
            "static",
            "emulated",
            "me@g:22",
            "~/k",
            "$(id)",
            "a\nb",
        ),
        *("$(id)", "true", "0x10", "null", "[", "{", "*a", "&a x", "!!x y"),
    ]
)
TREES = st.recursive(
    WORDS | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


def read(text: str | bytes) -> Inventory | None:
    try:
        return parse(text, "it.yaml")
    except InventoryError as error:
        found = error.problems
    assert found
    assert {problem.file for problem in found} == {"it.yaml"}
    assert min(min(problem.line, problem.column) for problem in found) >= 1
    return None


def flow(tree: object) -> str:
    """A tree as YAML in flow style; texts are not quoted, so that they may be more than texts."""
    match tree:
        case dict():
            return "{" + ", ".join(f"{key}: {flow(value)}" for key, value in tree.items()) + "}"
        case list():
            return "[" + ", ".join(map(flow, tree)) + "]"
        case _:
            return str(tree)


@given(st.text() | st.binary())
def test_any_bytes(text: str | bytes) -> None:
    read(text)


@given(st.dictionaries(st.sampled_from(KEYS[:4]), TREES), st.dictionaries(st.sampled_from(KEYS[6:]), TREES))
@example({}, {"nodes": "a[1..3].org"})
def test_any_tree(tree: dict[str, object], one: dict[str, object]) -> None:
    for each in (tree, {**tree, "sets": {"A": one, "B": {"nodes": ["b1"]}}}):
        found = read(flow(each))
        if found is not None:
            draw(found)
            for node in found.nodes:
                assert not node.address.startswith("-")


@given(st.text(min_size=1, max_size=20))
def test_an_address_is_never_an_option_or_more_than_a_word(address: str) -> None:
    found = read('sets:\n  A: {nodes: ["' + address.replace("\\", "\\\\").replace('"', '\\"') + '"]}\n')
    for node in () if found is None else found.nodes:
        assert node.address[0].isalnum() or node.address[0] == "_"
        assert node.address.isascii()
        assert not set(node.address) & set(" \t\n'\"$`;&|<>(){}\\%*?!#~")


@pytest.mark.parametrize(
    "text",
    [
        "sets: {A: {nodes: ['a[1..999999]b[1..999999]c[1..999999]']}}",
        "sets: {A: {nodes: [" + ", ".join(f"'a{n}[1..9999]'" for n in range(500)) + "]}}",
        "sets: {A: {nodes: ['" + "[1..2]" * 40 + "']}}",
        "sets: {A: {nodes: x, jump: [" + "a, " * 30_000 + "a]}}",
        "roles: {" + ", ".join(f"r{n}: A" for n in range(20_000)) + "}\nsets: {A: {nodes: x}}",
        "[" * 100_000,
        "{a: " * 100_000,
        "x: " + "y" * (1 << 20),
    ],
)
def test_large_ones_are_refused_soon(text: str) -> None:
    begin = time.process_time()
    found = read(text)
    assert found is None or len(found.nodes) < 10_000
    assert time.process_time() - begin < 20


def test_what_a_node_says_stays_one_word_of_a_command() -> None:
    """The quoting of what a remote shell sees, with every value that an inventory lets through."""
    node = Node(name="n", set="A", address="a1", python="python3", user="me", jump=("me@g:22", "[::1]:23"))
    said = _ssh.command(node.address, ["echo", "$(id)", "`id`", "a;b"], user=node.user or "", jump=",".join(node.jump))
    assert said[-1] == "echo '$(id)' '`id`' 'a;b'"
    assert said[-3] == "--"
