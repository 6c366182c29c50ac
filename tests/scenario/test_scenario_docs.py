"""The examples of the documentation are scenarios, and its lists are complete."""

from __future__ import annotations

import json
import re

import pytest
from jsonschema import Draft202012Validator
from scenario_support import ROOT, to_data, tree

from weir import _weir
from weir.scenario import parse, schema

DOC = (ROOT / "docs" / "scenario-language.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```yaml\n(.*?)```", README + DOC, re.DOTALL)


@pytest.mark.parametrize("text", BLOCKS, ids=lambda t: t.split("\n")[0].removeprefix("title: "))
def test_every_example_is_a_scenario_without_warnings_that_compiles(text: str) -> None:
    scenario = parse(text)
    assert scenario.cells()
    assert [str(p) for p in scenario.problems if p.severity == "warning"] == []
    for cell in scenario.cells()[:3] + scenario.cells(quick=True)[:1]:
        _weir.check_plan(json.dumps(cell.plan()))
    assert Draft202012Validator(schema()).is_valid(to_data(tree(text)))


def test_every_key_of_the_language_is_documented() -> None:
    blocks = re.findall(r"```.*?```", DOC, re.DOTALL)
    code = blocks + re.findall(r"`[^`\n]+`", re.sub(r"```.*?```", "", DOC, flags=re.DOTALL))
    documented = {word for part in code for word in re.findall(r"[A-Za-z_0-9]+", part)}
    properties = schema()["properties"].keys()
    for definition in schema()["$defs"].values():
        properties |= definition.get("properties", {}).keys()
    assert properties - documented == set()


def test_links_of_the_documentation_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", DOC):
        assert (ROOT / "docs" / target).resolve().exists(), target
