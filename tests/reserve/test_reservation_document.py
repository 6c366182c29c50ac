"""docs/reservation.md says what there is."""

from __future__ import annotations

from pathlib import Path

from shared import ROOT
from weir import reserve

TEXT = (ROOT / "docs" / "reservation.md").read_text()


def test_every_key_is_described() -> None:
    for name in reserve.PROVIDERS:
        assert f"`{name}`" in TEXT
        for key in reserve.get(name).keys:
            assert f"`{key}`" in TEXT or f"{key}:" in TEXT, f"{name}: {key}"
    for key in reserve.KEYS:
        assert f"`{key}`" in TEXT


def test_the_example_is_the_one_that_is_tested() -> None:
    assert f"```python\n{Path(__file__).with_name('site.py').read_text()}```" in TEXT
