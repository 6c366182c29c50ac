"""Helpers for several tests of scenarios."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from weir.language.problem import Log
from weir.language.tree import Map, Node, Scalar, Seq, read
from weir.scenario import ScenarioError, parse

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
BAD = sorted((HERE / "bad").glob("*.yaml"))
GOOD = sorted([*(ROOT / "examples").glob("*.yaml"), *(ROOT / "scenarios").rglob("*.yaml")])

DUMBBELL = """\
title: A dumbbell
topology:
  dumbbell:
    pairs: 3
    access: {rate: 1Gbps}
    bottleneck: {rate: 1Gbps, queue: 10ms}
    rtt: 20ms
transport: {cc: reno}
workload:
  - {name: flows, kind: bulk, between: pairs}
duration: 10s
"""


def plan_of(text: str, cell: int = 0) -> dict[str, Any]:
    """The plan of one cell of a scenario."""
    return parse(text).cells()[cell].plan()


def dumbbell(**keys: str) -> str:
    """The dumbbell above with top-level keys replaced or added; the values are YAML in one line."""
    lines = [line for line in re.split(r"\n(?=\S)", DUMBBELL.rstrip()) if line.split(":")[0] not in keys]
    return "\n".join([*lines, *(f"{key}: {value}" for key, value in keys.items())]) + "\n"


def workload(*entries: str, **keys: str) -> str:
    """The dumbbell above with these workload entries, in flow style without braces."""
    return dumbbell(workload="[" + ", ".join("{" + entry + "}" for entry in entries) + "]", **keys)


def tree(text: str) -> Node:
    """The nodes of a text."""
    return read(text, Log("<text>"))


_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")


def to_data(node: Node) -> Any:
    """A node as JSON-like data by the YAML 1.2 core schema: what an editor validates against the JSON schema."""
    match node:
        case Seq():
            return [to_data(i) for i in node.items]
        case Map():
            return {e.key.text: to_data(e.value) for e in node.entries}
        case Scalar() if not node.plain:
            return node.text
        case Scalar() if node.null:
            return None
        case Scalar() if node.text in _BOOLS:
            return _BOOLS[node.text]
        case Scalar() if _INT.match(node.text):
            return int(node.text)
        case Scalar() if _FLOAT.match(node.text):
            return float(node.text)
    return node.text


def plan_of_workload(*entries: str, **keys: str) -> dict[str, Any]:
    """The plan of a scenario with these entries of its workload, and these keys."""
    return plan_of(workload(*entries, **keys))


def problems_of_workload(*entries: str, **keys: str) -> str:
    """What is wrong with such a scenario."""
    with pytest.raises(ScenarioError) as caught:
        plan_of_workload(*entries, **keys)
    return str(caught.value)
