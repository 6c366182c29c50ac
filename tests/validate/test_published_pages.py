"""The published validations explain their columns and figures in the words of the code that writes such pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from weir.study.validation._document import CHART
from weir.study.validation._errors import ERRORS

PAGES = sorted((Path(__file__).parents[2] / "docs" / "validation").glob("*-sim-*.md"))


def test_the_pages_are_found() -> None:
    assert len(PAGES) >= 4


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_the_words_of_the_code(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    told = re.findall(r"^- (.+?: .+)\.$", text.partition("## Errors by factor")[0], re.MULTILINE)
    assert len(told) >= 8
    assert set(told) <= {f"{kind.title}: {kind.definition}" for kind in ERRORS}
    assert CHART.caption in text
