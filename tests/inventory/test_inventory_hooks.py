"""The language of hooks: executables that an inventory names for stages of an experiment."""

from __future__ import annotations

import os
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from weir.inventory import STAGES, InventoryError, load, parse, schema
from weir.stages import obstacle

SETS = "sets: {A: {nodes: a1}}\n"


def hooks(text: str) -> str:
    return f"{SETS}hooks: {text}\n"


def test_hooks_are_named_by_stage(tmp_path: Path) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text(
        hooks(
            "{deploy: ./image.sh, configure: [router/set.py, {run: [tool, --rate, '5'], limit: 30s}], clean: [/bin/x]}"
        )
    )
    found = load(file)
    assert list(found.hooks) == ["deploy", "configure", "clean"]
    assert [hook.command for hook in found.hooks["configure"]] == [
        (str(tmp_path / "router/set.py"),),
        ("tool", "--rate", "5"),
    ]
    assert [hook.limit_s for hook in found.hooks["configure"]] == [600.0, 30.0]
    assert found.hooks["deploy"][0].command == (str(tmp_path / "image.sh"),)
    assert found.hooks["clean"][0].command == ("/bin/x",)
    assert parse(SETS).hooks == {}


def test_an_inventory_is_read_without_executing_a_hook(tmp_path: Path) -> None:
    trace, hook = tmp_path / "trace", tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {trace}\n")
    hook.chmod(0o755)
    file = tmp_path / "nodes.yaml"
    file.write_text(hooks("{deploy: ./hook, configure: ./hook, collect: ./hook, clean: ./hook}"))
    assert obstacle(load(file)) is None
    assert not trace.exists()


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("{execute: ./a}", "2:9", "unknown key `execute`; expected `deploy`, `configure`, `collect` or `clean`"),
        ("[./a]", "2:8", "expected a mapping with `deploy`"),
        ("{deploy: [./a, --fast]}", "2:16", "`--fast` is no executable; arguments are written `{run: [./image.sh"),
        ("{deploy: [[./a, b]]}", "2:18", "expected an executable such as `./image.sh`"),
        ("{deploy: {limit: 1h}}", "2:17", "`run` is missing"),
        ("{deploy: {run: ./a, limit: 25h}}", "2:28", "expected a time from 1s to 24h"),
        ("{deploy: {run: ./a, limit: 1ms}}", "2:28", "expected a time from 1s to 24h"),
        ("{deploy: {run: ./a, shell: true}}", "2:28", "unknown key `shell`"),
        ('{deploy: "a\\nb"}', "2:17", "expected an executable"),
        ("{deploy: {run: []}}", "2:23", "expected a list of 1 to 100 values, found 0"),
    ],
)
def test_what_is_no_hook_is_refused_at_its_place(text: str, place: str, message: str) -> None:
    with pytest.raises(InventoryError) as error:
        parse(hooks(text), "it.yaml")
    (problem,) = error.value.problems
    assert message in str(problem)
    assert str(problem).startswith(f"it.yaml:{place.split(':')[0]}:"), str(problem)


def test_the_schema_takes_what_the_language_takes() -> None:
    validator = jsonschema.Draft202012Validator(schema())
    yaml = YAML(typ="safe", pure=True)
    assert set(schema()["$defs"]["HooksSpec"]["properties"]) == set(STAGES)
    good = "{deploy: ./a, configure: [./a, {run: ./b, limit: 1h}], collect: {run: [./a, -x]}}"
    assert validator.is_valid(yaml.load(hooks(good)))
    for bad in ("{execute: ./a}", "[./a]", "{deploy: [[./a]]}", "{deploy: {limit: 1h}}", "{deploy: [--fast]}"):
        assert not validator.is_valid(yaml.load(hooks(bad))), bad


def test_what_cannot_be_executed_is_known_before_a_run(tmp_path: Path) -> None:
    file, plain = tmp_path / "nodes.yaml", tmp_path / "plain.txt"
    plain.write_text("no program")
    file.write_text(hooks("{collect: ./plain.txt}"))
    assert obstacle(load(file)) == f"hook of stage collect: {plain} is no executable file"
    file.write_text(hooks("{clean: ./missing}"))
    assert obstacle(load(file)) == f"hook of stage clean: {tmp_path / 'missing'} is no executable file"
    file.write_text(hooks("{clean: no-such-program-of-anybody}"))
    assert obstacle(load(file)) == "hook of stage clean: no-such-program-of-anybody is not found in PATH"
    assert os.access("/bin/sh", os.X_OK)
    file.write_text(hooks("{clean: sh}"))
    assert obstacle(load(file)) is None
