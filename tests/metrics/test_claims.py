"""The checks proposed for the papers' claims are valid, and name what their scenarios have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from weir.metrics.expect import parse

TEXT = (Path(__file__).parents[2] / "docs" / "claims-expressions.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([A-E]\d+) \|.*\| `([^`]+)` \|$", TEXT, flags=re.MULTILINE)
FACTORS = {
    "A": ["cc", "rtt"],
    "E1": ["case"],
    "E2": [],
    "E3": ["queue"],
    "E4": ["buffers"],
    "E5": [],
    "E6": ["cc", "level"],
    "E7": ["cc", "reverse"],
    "E8": ["streams"],
    "E9": ["streams"],
    "E11": [],
}
PHASES = ["alone", "five", "twelve", "calm", "half", "full", "double", "udp", "streams", "after"]


def test_every_claim_of_the_catalogue_has_a_check() -> None:
    wanted = {f"A{k}" for k in range(1, 13)} | {f"E{k}" for k in (*range(1, 10), 11)}
    assert {claim for claim, _ in ROWS} == wanted
    assert TEXT.count("\n| A") + TEXT.count("\n| E") == len(ROWS)


@pytest.mark.parametrize(("claim", "check"), ROWS)
def test_a_check_is_valid(claim: str, check: str) -> None:
    factors = FACTORS["A" if claim.startswith("A") else claim]
    assert parse(check, factors=factors, phases=PHASES).metrics
