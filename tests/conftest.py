"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import hypothesis
import pytest

from weir.cli import _common

# Property tests draw the same examples in every run, and a busy machine fails none; `WEIR_RANDOM=1` draws others.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
if not os.environ.get("WEIR_RANDOM"):
    hypothesis.settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def consoles_of_their_own() -> Iterator[None]:
    """A console keeps the standard output that it was made with, and tests have one each."""
    yield
    _common.console.cache_clear()
    _common.error_console.cache_clear()
