"""``docs/python.md``: its examples are executed, and its table of names is complete."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

import weir
from weir.compare import Comparison
from weir.metrics import MeasuredRun

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "python.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT.read_text(encoding="utf-8"), re.M | re.S)


def test_the_examples_do_what_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (scenario,) = blocks("yaml")
    (tmp_path / "two.yaml").write_text(scenario, encoding="utf-8")
    text = "\n".join(blocks("pycon"))
    assert text.count(">>>") > 30
    test = doctest.DocTestParser().get_doctest(text, {}, "python.md", str(DOCUMENT), 0)
    told: list[str] = []
    results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(
        test, out=told.append
    )
    assert results.failed == 0, "".join(told)


@pytest.mark.parametrize("thing", [MeasuredRun, Comparison])
def test_the_names_are_those_of_the_code(thing: type) -> None:
    """The table names only existing things, and all that a notebook needs."""
    (row,) = [line for line in DOCUMENT.read_text().splitlines() if f"a `{thing.__name__}`" in line]
    named = set(re.findall(r"`(\w+)`", row.partition(f"a `{thing.__name__}`")[2]))
    public = {name for name in dir(thing) if not name.startswith("_")}
    assert named <= public | set(thing.__init__.__annotations__) | {"cells", "manifest"}
    methods = {name for name in public if callable(getattr(thing, name))}
    assert methods - named <= {"cell", "beyond", "to_json"}


def test_everything_that_weir_exports_is_in_the_document() -> None:
    text = DOCUMENT.read_text()
    for name in weir.__all__:
        assert name == "__version__" or f"weir.{name}(" in text
        assert name in dir(weir)
        assert getattr(weir, name).__doc__ or name == "__version__"


def test_the_readme_links_the_document() -> None:
    assert "(docs/python.md)" in (DOCUMENT.parent.parent / "README.md").read_text()
