"""Rules for every file of the repository."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import weir
from weir import _weir

ROOT = Path(__file__).parent.parent.parent


def tracked(*patterns: str) -> list[Path]:
    """Existing files that git tracks."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files", "-z", "--", *patterns],
        capture_output=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout: there is no list of files")
    files = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    return [file for file in files if file.is_file()]


def test_there_is_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert {project, workspace, weir.__version__, _weir.version()} == {weir.__version__}


def test_importing_weir_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import weir; print(*sorted(set(sys.modules) - before))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "python")
    assert [name for name in ran.stdout.split() if name.startswith(("weir.", "polars", "numpy", "pyarrow"))] == []


def test_weir_open_is_the_reader() -> None:
    from weir.metrics import open_run

    assert weir.open is open_run
    with pytest.raises(AttributeError, match="has no attribute 'opne'"):
        weir.opne  # noqa: B018


def test_nothing_is_left_for_later_and_nothing_is_of_one_machine() -> None:
    later = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    machine = re.compile(r"/(?:work|root|home/[a-z]+)/")
    for file in tracked():
        if file == Path(__file__) or b"\0" in (content := file.read_bytes()):
            continue
        for number, line in enumerate(content.decode("utf-8", errors="replace").splitlines(), 1):
            place = f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
            assert not later.search(line), place
            assert not machine.search(line), place


def test_modules_say_what_they_are_and_packages_what_they_export() -> None:
    files = tracked("python/weir/*.py")
    assert len(files) > 50
    for file in files:
        text = file.read_text(encoding="utf-8")
        place = str(file.relative_to(ROOT))
        assert ast.get_docstring(ast.parse(text)), f"{place} has no docstring"
        assert "__all__ = [" in text or file.name != "__init__.py", f"{place} has no __all__"


def test_every_crate_takes_the_lints_of_the_workspace() -> None:
    crates = tracked("crates/*/Cargo.toml")
    assert len(crates) >= 8
    for file in crates:
        assert tomllib.loads(file.read_text())["lints"] == {"workspace": True}, file
        assert f"`{file.parent.name}`" in (ROOT / "crates" / "README.md").read_text(), file


def test_requirements_are_all_installed_by_make() -> None:
    ran = subprocess.run(
        [sys.executable, str(ROOT / "scripts/requirements.py")], capture_output=True, text=True, check=True
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for requirement in (*project["dependencies"], *project["optional-dependencies"]["dev"]):
        assert requirement.replace(" ", "") in ran.stdout.split()


def test_links_in_documents_lead_somewhere() -> None:
    documents = tracked("*.md")
    assert len(documents) > 10
    for document in documents:
        text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            if not target.startswith(("http:", "https:", "mailto:")):
                assert (document.parent / target).exists(), f"{document.relative_to(ROOT)}: {target}"
