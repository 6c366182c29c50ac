"""The published JSON schema: current, complete, and no stricter than the parser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from scenario_support import BAD, GOOD, ROOT, to_data, tree

from weir.scenario import ScenarioError, check, parse, schema

PUBLISHED = ROOT / "docs" / "schema" / "scenario.schema.json"
VALIDATOR = Draft202012Validator(schema())


def _data(path: Path) -> Any:
    return to_data(tree(path.read_text(encoding="utf-8")))


def test_the_published_schema_is_the_parsers() -> None:
    assert json.loads(PUBLISHED.read_text(encoding="utf-8")) == schema(), "run `make docs`"


def test_it_is_a_json_schema() -> None:
    Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("path", GOOD, ids=lambda p: p.stem)
def test_examples_and_the_catalogue_are_valid(path: Path) -> None:
    assert [e.message for e in VALIDATOR.iter_errors(_data(path))] == []


def _objects(node: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        if node.get("type") == "object" and "properties" in node:
            yield place, node
        for name, child in node.items():
            yield from _objects(child, f"{place}/{name}")
    elif isinstance(node, list):
        for i, child in enumerate(node):
            yield from _objects(child, f"{place}/{i}")


def test_every_mapping_and_key_of_the_language_is_described() -> None:
    definitions = schema()["$defs"]
    assert all(d.get("description") or "anyOf" in d for d in definitions.values())
    for name, definition in definitions.items():
        if name.startswith("Distribution"):
            continue
        bare = [k for k, v in definition["properties"].items() if not v.get("description")]
        assert not bare, f"{name}: {bare}"


def test_no_mapping_takes_unknown_keys_silently() -> None:
    # A congestion control defines its own options; all other mappings are closed.
    open_ones = [place for place, o in _objects(schema()) if o.get("additionalProperties") is not False]
    assert all("cc" in place.split("/") for place in open_ones), open_ones


# Problems beyond the schema: the text itself, other cells, physics, and the targets of names.
_BEYOND = {
    "bounds-compile",
    "bounds-packets",
    "claims-fitted-and-beyond",  # one of two keys
    "congestion-controls",
    "distributions",  # ranges and combinations
    "expect",
    "congestion-control-feedback",
    "congestion-control-files",
    "expect-cells",
    "expect-classes",
    "expect-delays",
    "expect-flows",
    "flows",
    "flows-compile",
    "graph-names",
    "graph-no-path",
    "levels",
    "memory",
    "network-names",
    "network-physics",
    "network-zero-rate",
    "no-end",
    "profile-compile",
    "programs-compile",
    "queue-physics",
    "quick",
    "quick-values",
    "selectors",
    "summary",
    "sweep-huge",
    "sweep-many-repeats",
    "sweep-paths",
    "sweep-shape",
    "sweep-twice",
    "sweep-values",
    "sweep-zip",
    "warnings",
    "web-compile",
    "web-streams",
}


@pytest.mark.parametrize("path", [p for p in BAD if not p.stem.startswith("yaml-")], ids=lambda p: p.stem)
def test_the_schema_sees_what_an_editor_can_see(path: Path) -> None:
    valid = VALIDATOR.is_valid(_data(path))
    assert not valid or path.stem in _BEYOND


SNIPPETS = [
    ("title: 1", False),
    ('title: "1"', True),
    ("seed: 1.5", False),
    ("duration: 10", False),
    ("duration: 0", True),
    ("transport: {cc: reno, ecn: yes}", False),
    ("transport: {cc: {name: cubic, hystart: false}}", True),
    ("transport: {cc: linux:cubic}", True),
    ("transport: {cc: ./mine.so}", True),
    ("measure: {tcp: 0}", True),
    ("phases: {a: {from: {flow: 'a[0]', plus: 1s}}}", True),
    ("changes: [{at: 1s, link: bottleneck, loss: none}]", True),
    ("changes: [{at: [1s, 2s], link: [a, b], loss: 1%, rate: 1Mbps}]", True),
    ("changes: [{at: 1s, link: bottleneck, loss: {bernoulli: 0.01}}]", True),
    ("changes: [{at: 1s, link: bottleneck, loss: 1.5}]", False),
]


@pytest.mark.parametrize(("text", "good"), SNIPPETS)
def test_schema_and_parser_agree_on_syntax(text: str, good: bool) -> None:
    rest = {
        "title": "title: t",
        "topology": "topology: {star: {hosts: 2, access: {rate: 1Gbps}, rtt: 1ms, port: {queue: 1ms}}}",
        "workload": "workload: [{name: a, kind: bulk, between: [h0, h1], until: 9s}]",
    }
    whole = "\n".join([text, *(line for key, line in rest.items() if not text.startswith(key))])
    assert VALIDATOR.is_valid(to_data(tree(whole))) == good
    try:
        parse(whole)
        syntax = []
    except ScenarioError as e:
        words = ("expected", "unit", "quotes", "probability", "not text")
        syntax = [p for p in e.problems if any(w in p.message for w in words) and "no congestion" not in p.message]
        syntax = [p for p in syntax if "there is no" not in p.message and "option" not in p.message]
    assert (syntax == []) == good, [str(p) for p in syntax]


def test_check_is_what_the_cli_prints(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("title: 1\n", encoding="utf-8")
    assert all(str(p).startswith(f"{path}:1:") for p in check(path))
