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


@pytest.fixture(scope="module")
def own_seal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Lets ``weir clean`` in a module's tests recognise only what the module made: other tests run at the same time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield
