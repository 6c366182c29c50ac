"""docs/hosts.md says what inventories are: its example is one, and its tables have all keys and roles."""

from __future__ import annotations

import re
from pathlib import Path

from weir.inventory import parse, schema

PAGE = (Path(__file__).parent.parent.parent / "docs" / "hosts.md").read_text(encoding="utf-8")


def test_the_example_is_an_inventory() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    found = parse(example)
    assert [len(each.nodes) for each in found.sets.values()] == [12, 0]
    assert [role.name for role in found.roles] == ["sinks", "sources"]


def test_the_table_of_sets_has_every_key() -> None:
    table = PAGE.split("### Sets")[1].split("### Connections")[0]
    named = set(re.findall(r"`([a-z_]+)`", "".join(line.split("|")[1] for line in table.splitlines() if "|" in line)))
    defs = schema()["$defs"]
    assert named == {*defs["SetSpec"]["properties"], *defs["NodeSpec"]["properties"]} - {"address"}
    assert "`address`" in table


def test_top_level_keys_are_described() -> None:
    for name in schema()["properties"]:
        assert f"`{name}" in PAGE or f"{name}:" in PAGE, name
