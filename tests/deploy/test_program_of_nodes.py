"""The programs that are carried to nodes: one file each, for Python 3.8."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

import pytest

from weir.deploy import node
from weir.hosts import _connect, _facts, _relay
from weir.methods.hosts import _echo


def names(source: str) -> set[str]:
    """What a module defines at its top level."""
    found = set()
    for each in ast.parse(source).body:
        match each:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.Assign(targets=targets):
                found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found - {"__all__"}


def test_the_modules_of_the_program_are_all_of_the_package_and_share_no_name() -> None:
    folder = Path(node.__file__).parent
    assert {path.stem for path in folder.glob("*.py")} - {"__init__"} == set(node.MODULES)
    counts = Counter(name for module in node.MODULES for name in names((folder / f"{module}.py").read_text()))
    assert {name: count for name, count in counts.items() if count > 1} == {}
    assert "do_claim" in counts


@pytest.mark.parametrize(
    "source",
    [node.program().decode(), *(Path(module.__file__).read_text() for module in (_connect, _echo, _facts, _relay))],
    ids=["node", "connect", "echo", "facts", "relay"],
)
def test_programs_of_nodes_need_nothing_but_python_3_8(source: str) -> None:
    tree = ast.parse(source, feature_version=(3, 8))
    imported = {
        name.partition(".")[0]
        for each in ast.walk(tree)
        if isinstance(each, ast.Import | ast.ImportFrom)
        for name in ([alias.name for alias in each.names] if isinstance(each, ast.Import) else [each.module or "."])
    }
    assert imported <= sys.stdlib_module_names
    first = next(each for each in tree.body if isinstance(each, ast.Import | ast.ImportFrom))
    assert isinstance(first, ast.ImportFrom)
    assert first.module == "__future__", "annotations are not evaluated"
