"""Every check in docs/checks.md is valid, and the page's grammar is the parser's."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from weir.metrics.expect import parse, parser
from weir.metrics.expect.syntax import AGGREGATES

TEXT = (Path(__file__).parents[2] / "docs" / "checks.md").read_text(encoding="utf-8")
CHECKS = re.findall(r"^\| `([^`]+)` \|", TEXT, flags=re.MULTILINE)


@pytest.mark.parametrize("check", CHECKS)
def test_an_example_can_be_read(check: str) -> None:
    assert parse(check, factors=["cc", "rtt", "level"], phases=["twelve"]).metrics


def test_every_function_is_named() -> None:
    assert len(CHECKS) >= 20
    for function in AGGREGATES:
        assert re.search(rf"`{function}`|\b{function}\(", TEXT), function


def test_the_grammar_is_the_parsers() -> None:
    stated = re.search(r"::\n\n(.*?)\Z", parser.__doc__ or "", flags=re.DOTALL)
    assert stated is not None
    assert f"```\n{textwrap.dedent(stated[1]).rstrip()}\n```\n" in TEXT
