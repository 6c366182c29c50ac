"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import hypothesis
import pytest

from shared import Weir, called, forget_consoles

# Property tests draw the same examples in every run, without a deadline that a busy machine could miss; `WEIR_RANDOM=1`
# draws others.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
if not os.environ.get("WEIR_RANDOM"):
    hypothesis.settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def consoles_of_their_own() -> Iterator[None]:
    """Gives each test its own consoles: a console keeps the standard output of its creation."""
    yield
    forget_consoles()


@pytest.fixture
def weir() -> Weir:
    """``weir("schema", "plan")`` runs ``weir schema plan`` in this process."""
    return called
